import { type Address, formatAddress } from "../../../ipam/space/address.ts";
import type { InterfaceAddress } from "../../../ipam/space/cidr.ts";
import { ApiAway } from "../../../kube/kube-api.ts";
import type { IPAllocation } from "../../../kube/objects.ts";
import { isoTime } from "../../../platform/time.ts";
import type { AllocationClient, AllocationReading } from "./allocation-client.ts";
import {
  type Holder,
  newAllocation,
  sameAllocationOwner,
  takenOver,
  withAttachment,
  withoutAttachments,
} from "./allocation-object.ts";

/*
 * The one place where an address becomes somebody's. What was read decides what is written, against that very version:
 *
 *   there is                        written                                outcome
 *   no object                       a new one                              held
 *   one that is Cooling             the same, for its next holder          held
 *   one Bound to the holder         its attachment in it, others out       held (own, where the holder attaches nothing)
 *   one Bound to somebody else      nothing, unless it passes over         taken
 */

/** Refused writes after which it is given up. Writers of one allocation are few: nodes of former holders, the controller. */
export const ATTEMPTS_MAX = 20;

/** What an allocation that is Bound is to a holder. `passes-over`: whoever has it is the holder, by another name, or has ended. */
type Relation = "own" | "passes-over" | "other";

/** Who is to have which address, and what its caller knows of it. */
export interface Holding<W> {
  readonly network: string;
  readonly one: InterfaceAddress;
  readonly holder: Holder;
  /** Instant of the client's clock, ms. */
  readonly deadlineMs: number;
  /** What is there as far as the caller knows; null: nothing. It saves a read, and costs a refused write where it is wrong. */
  readonly believed?: AllocationReading | null | undefined;
  /** The caller's own judgement of everything that is read: why nothing is to be written; null: it may be. */
  whyNot?(reading: AllocationReading | null): W | null | Promise<W | null>;
  /** Default: by the owner. */
  relationOf?(object: IPAllocation): Relation;
  /** Keys of attachments that the holder's takes the place of. */
  replaced?(object: IPAllocation): readonly string[];
}

export type Held<W> =
  /** Written; `was` tells what there was before. */
  | { readonly kind: "held"; readonly object: IPAllocation; readonly was: "absent" | "cooling" | "bound" }
  /** It is the holder's already, who attaches nothing. */
  | { readonly kind: "own"; readonly object: IPAllocation }
  | { readonly kind: "taken"; readonly object: IPAllocation }
  | { readonly kind: "left"; readonly why: W }
  /** Others kept writing it. */
  | { readonly kind: "changed" };

/**
 * Makes an address Bound to a holder, and reads again whenever somebody else was faster. What is Bound to another owner is
 * never overwritten. Throws ApiAway when the outcome is unknown, and RefusalError API_REFUSED.
 * See docs/decisions/0014.
 */
export async function hold<W = never>(client: AllocationClient, holding: Holding<W>): Promise<Held<W>> {
  const { network, one, believed, deadlineMs } = holding;
  const read = () => client.read(network, one.address, deadlineMs);
  let reading = believed === undefined ? await read() : believed;
  for (let attempt = 1; ; attempt += 1) {
    const why = (await holding.whyNot?.(reading)) ?? null;
    if (why !== null) return { kind: "left", why };
    const object = reading?.object ?? null;
    const next = nextOf(holding, object, isoTime(client.clock.wallMs()));
    if (typeof next === "string") return { kind: next, object: object as IPAllocation };
    const written =
      object === null ? await client.create(next, deadlineMs) : await client.replace(next, deadlineMs);
    if (written.kind === "done") return { kind: "held", object: written.object, was: stateBefore(object) };
    if (attempt === ATTEMPTS_MAX) return { kind: "changed" };
    reading = await read();
  }
}

/** What `changed` is to somebody who cannot go on without the address. */
export function tooManyWriters(network: string, address: Address): ApiAway {
  return new ApiAway(`others kept writing ${formatAddress(address)} of network ${network}`);
}

/** The object as it is to be, with the version it was read with; or why nothing is written. */
function nextOf<W>(
  { network, one, holder, relationOf, replaced }: Holding<W>,
  object: IPAllocation | null,
  time: string,
): object | "own" | "taken" {
  if (object === null) return newAllocation(network, one, holder, time);
  if (object.status?.state === "Cooling") return takenOver(object, one, holder, time);
  const { attachment, owner } = holder;
  const relation = relationOf?.(object) ?? (sameAllocationOwner(object.spec.owner, owner) ? "own" : "other");
  if (relation === "other") return "taken";
  // Also one without a state, which nobody here writes.
  if (relation === "passes-over" || object.status?.state !== "Bound")
    return takenOver(object, one, holder, time);
  if (attachment === null) return "own";
  return withAttachment(withoutAttachments(object, replaced?.(object) ?? []), attachment);
}

function stateBefore(object: IPAllocation | null): "absent" | "cooling" | "bound" {
  if (object === null) return "absent";
  return object.status?.state === "Cooling" ? "cooling" : "bound";
}
