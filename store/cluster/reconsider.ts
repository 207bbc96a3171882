import { mayReturn } from "../../allocations/allocation-object.ts";
import { describeHolding } from "../../allocations/owners.ts";
import { type Refusal, refuse } from "../../ipam/refusals.ts";
import { hasCooledDown } from "../../ipam/space/cooldown.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import type { IPAllocation } from "../../kube/objects.ts";
import { type Clock, parseTime, within } from "../../platform/time.ts";
import type { AttachWant } from "../allocations.ts";
import type { AttachParts } from "./parts/attach-parts.ts";
import type { ClaimReading } from "./parts/claim-access.ts";
import type { SlotsOutcome } from "./reserve.ts";

interface Asking {
  readonly namespace: string;
  /** The claim of the ADD; absent, null: it has none. */
  readonly claim?: ClaimReading | null;
  readonly deadlineMs: number;
}

/** The picture alone refuses no ADD: what it says is read from the API first. */
export async function reconsider(
  parts: Pick<AttachParts, "picture" | "client"> & { readonly context: { readonly clock: Clock } },
  want: Pick<AttachWant, "network" | "definition">,
  refusal: Refusal,
  { namespace, claim = null, deadlineMs }: Asking,
): Promise<Extract<SlotsOutcome, { kind: "refused" }> | "again"> {
  const { picture, client } = parts;
  if (refusal.code === "POOL_FULL") {
    const late = () => new ApiAway("the picture of the network was not renewed in time");
    const sure = picture.makeSure(want.network, deadlineMs);
    if (await within(parts.context.clock, sure, deadlineMs, late)) return "again";
  }
  if (refusal.code !== "ADDRESS_TAKEN" && refusal.code !== "ADDRESS_COOLING") {
    return { kind: "refused", refusal, reserved: [] };
  }
  const { address } = refusal.about;
  const reading = await client.read(want.network, address, deadlineMs);
  if (reading === null) {
    picture.noteFree(want.network, address);
    return "again";
  }
  const { spec, status, metadata } = reading.object;
  const cooling = status?.state === "Cooling";
  picture.note(want.network, address, spec.owner.uid, status?.state, metadata.resourceVersion);
  const restedMs = (reading.serverMs ?? Number.NEGATIVE_INFINITY) - parseTime(status?.since ?? "");
  if (cooling && (hasCooledDown(want.definition, restedMs) || mayReturn(reading.object, { namespace }))) {
    picture.space(want.network).endCooldown(address);
    return "again";
  }
  // The picture may still have it as somebody's.
  if (cooling) {
    const cooling = refuse("ADDRESS_COOLING", { address, network: want.network });
    return { kind: "refused", refusal: cooling, reserved: [] };
  }
  if (claim !== null && isPredecessors(reading.object, claim)) {
    const name = `${claim.namespace}/${claim.name}`;
    const held = refuse("PREDECESSOR_HOLDS", { claim: name, address, network: want.network });
    return { kind: "refused", refusal: held, reserved: [] };
  }
  const holder = describeHolding(reading.object);
  const taken = refuse("ADDRESS_TAKEN", { address, network: want.network, holder });
  return { kind: "refused", refusal: taken, reserved: [] };
}

/** Whether a deleted claim of this one's name has it: of the same VM, which was deleted and created again. */
function isPredecessors({ spec }: IPAllocation, claim: ClaimReading): boolean {
  const { kind, namespace, name, uid } = spec.owner;
  return kind === "IPAMClaim" && namespace === claim.namespace && name === claim.name && uid !== claim.uid;
}
