import { type Address, formatAddress } from "../ipam/space/address.ts";
import type { InterfaceAddress } from "../ipam/space/cidr.ts";
import { ApiAway } from "../kube/kube-api.ts";
import type { IPAllocation } from "../kube/objects.ts";
import { isoTime } from "../platform/time.ts";
import type { AllocationClient, AllocationReading } from "./allocation-client.ts";
import {
  type Holder,
  handedOver,
  newAllocation,
  sameAllocationOwner,
  takenOver,
  withAttachment,
  withoutAttachments,
} from "./allocation-object.ts";
import { isReservedFor } from "./owners.ts";

/*
 * The only place where an address is bound to an owner. The object that was read decides what is written, at the
 * version that was read:
 *
 *   there is                    written                                  outcome
 *   no object                   a new one                                held
 *   a Cooling one               the same, for its next holder            held
 *   a Retained one              the same, for a claim of its name        held, else taken
 *   one Bound to the holder     its attachment in place of replaced ones held (own, where the holder attaches nothing
 *                                                                        and is of the recorded Cluster; else held)
 *   one Bound to another owner  nothing, unless it passes over           taken
 *   one that is handed over     its owner; its attachments stay          held
 */

/** Refused writes after which it gives up. Few write one allocation: nodes of former holders, and the controller. */
export const ATTEMPTS_MAX = 20;

/**
 * Relation of a Bound allocation to a holder. `passes-over`: its owner is the holder by another name, or has ended.
 * `handed-over`: whoever uses it goes on, on behalf of the holder (docs/decisions/0062).
 */
type Relation = "own" | "passes-over" | "handed-over" | "other";

/** The address and its holder, and what the caller knows about the object. */
export interface HoldRequest<W> {
  readonly network: string;
  readonly one: InterfaceAddress;
  readonly holder: Holder;
  /** Instant of the client's clock, ms. */
  readonly deadlineMs: number;
  /** The object as far as the caller knows; null: none. Saves a read, and costs a refused write where it is wrong. */
  readonly believed?: AllocationReading | null | undefined;
  /** The caller's check of everything that is read: why nothing is to be written; null: it may be written. */
  whyNot?(reading: AllocationReading | null): W | null | Promise<W | null>;
  /** Default: compares the owners. */
  relationOf?(object: IPAllocation): Relation;
  /** Keys of attachments that the holder's attachment replaces. */
  replaced?(object: IPAllocation): readonly string[];
}

export type HoldOutcome<W> =
  /** Written; `was` is the state before, Retained included in `cooling`. */
  | { readonly kind: "held"; readonly object: IPAllocation; readonly was: "absent" | "cooling" | "bound" }
  /** The address already belongs to the holder, who attaches nothing. */
  | { readonly kind: "own"; readonly object: IPAllocation }
  | { readonly kind: "taken"; readonly object: IPAllocation }
  | { readonly kind: "left"; readonly why: W }
  /** Other writers kept changing it. */
  | { readonly kind: "changed" };

/**
 * Binds an address to a holder, and reads again whenever another writer was faster. An allocation Bound to another
 * owner is never overwritten. Throws ApiAway when the outcome is unknown, and RefusalError API_REFUSED.
 * See docs/decisions/0014.
 */
export async function hold<W = never>(client: AllocationClient, holding: HoldRequest<W>): Promise<HoldOutcome<W>> {
  const { network, one, believed, deadlineMs } = holding;
  const read = () => client.read(network, one.address, deadlineMs);
  let reading = believed === undefined ? await read() : believed;
  for (let attempt = 1; ; attempt += 1) {
    const why = (await holding.whyNot?.(reading)) ?? null;
    if (why !== null) return { kind: "left", why };
    const object = reading?.object ?? null;
    const next = nextOf(holding, object, isoTime(client.clock.wallMs()));
    if (typeof next === "string") return { kind: next, object: object as IPAllocation };
    const written = object === null ? await client.create(next, deadlineMs) : await client.replace(next, deadlineMs);
    if (written.kind === "done") return { kind: "held", object: written.object, was: stateBefore(object) };
    if (attempt === ATTEMPTS_MAX) return { kind: "changed" };
    reading = await read();
  }
}

/** The error for `changed` where the caller cannot go on without the address. */
export function tooManyWriters(network: string, address: Address): ApiAway {
  return new ApiAway(`others kept writing ${formatAddress(address)} of network ${network}`);
}

/** The object to be written, with the version that was read; or why nothing is written. */
function nextOf<W>(
  { network, one, holder, relationOf, replaced }: HoldRequest<W>,
  object: IPAllocation | null,
  time: string,
): object | "own" | "taken" {
  if (object === null) return newAllocation(network, one, holder, time);
  if (object.status?.state === "Cooling") return takenOver(object, one, holder, time);
  const { attachment, owner } = holder;
  if (isReservedFor(object, owner)) return takenOver(object, one, holder, time);
  const relation = relationOf?.(object) ?? (sameAllocationOwner(object.spec.owner, owner) ? "own" : "other");
  if (relation === "other") return "taken";
  if (relation === "handed-over") return handedOver(object, one, holder, time);
  // Also an object without a state, which Holdfast never writes.
  if (relation === "passes-over" || object.status?.state !== "Bound") return takenOver(object, one, holder, time);
  // A machine's Cluster may become known later than its address; what becomes of the address depends on it.
  if (attachment === null)
    return object.spec.owner.cluster === owner.cluster ? "own" : { ...object, spec: { ...object.spec, owner } };
  return withAttachment(withoutAttachments(object, replaced?.(object) ?? []), attachment);
}

function stateBefore(object: IPAllocation | null): "absent" | "cooling" | "bound" {
  if (object === null) return "absent";
  return object.status?.state === "Bound" ? "bound" : "cooling";
}
