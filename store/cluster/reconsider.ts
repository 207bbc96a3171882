import { type Refusal, refuse } from "../../ipam/refusals.ts";
import { hasCooledDown } from "../../ipam/space/rest.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import { type Clock, parseTime, within } from "../../platform/time.ts";
import type { AttachWant } from "../allocations.ts";
import { mayReturn } from "./allocations/allocation-object.ts";
import { describeHolding } from "./allocations/owners.ts";
import type { AttachParts } from "./parts/attach-parts.ts";
import type { SlotsOutcome } from "./reserve.ts";

/** POOL_FULL is answered only from a hint younger than this, ms. */
const FULL_HINT_AGE_MS_MAX = 30_000;

/** The hint alone refuses no ADD: what it says is read from the API first. */
export async function reconsider(
  parts: Pick<AttachParts, "hint" | "client" | "follow"> & { readonly context: { readonly clock: Clock } },
  want: Pick<AttachWant, "network" | "definition">,
  refusal: Refusal,
  { namespace, deadlineMs }: { readonly namespace: string; readonly deadlineMs: number },
): Promise<Extract<SlotsOutcome, { kind: "refused" }> | "again"> {
  const { hint, client } = parts;
  // The refused caller will retry: by then an address that another node releases must be known.
  if (refusal.code === "POOL_FULL") parts.follow(want.network);
  if (refusal.code === "POOL_FULL" && hint.ageMs > FULL_HINT_AGE_MS_MAX) {
    const late = () => new ApiAway("the picture of the network was not renewed in time");
    await within(parts.context.clock, hint.refresh(), deadlineMs, late);
    return "again";
  }
  if (refusal.code !== "ADDRESS_TAKEN" && refusal.code !== "ADDRESS_COOLING") {
    return { kind: "refused", refusal, reserved: [] };
  }
  const { address } = refusal.about;
  const reading = await client.read(want.network, address, deadlineMs);
  if (reading === null) {
    hint.noteFree(want.network, address);
    return "again";
  }
  const { spec, status, metadata } = reading.object;
  const cooling = status?.state === "Cooling";
  hint.note(want.network, address, spec.owner.uid, status?.state, metadata.resourceVersion);
  const restedMs = (reading.serverMs ?? Number.NEGATIVE_INFINITY) - parseTime(status?.since ?? "");
  if (cooling && (hasCooledDown(want.definition, restedMs) || mayReturn(reading.object, { namespace }))) {
    hint.space(want.network).endRest(address);
    return "again";
  }
  if (cooling) return { kind: "refused", refusal, reserved: [] };
  const holder = describeHolding(reading.object);
  const taken = refuse("ADDRESS_TAKEN", { address, network: want.network, holder });
  return { kind: "refused", refusal: taken, reserved: [] };
}
