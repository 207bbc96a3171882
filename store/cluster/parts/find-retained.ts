import { addressOf } from "../../../allocations/allocation-object.ts";
import type { Holdings } from "../../../ipam/attach-view.ts";
import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import type { AttachWant } from "../../allocations.ts";
import type { AttachParts, ClusterAttacher } from "./attach-parts.ts";

/**
 * Retained ones of deleted claims of its name are the claim's. That nothing uses a Bound one any more only the
 * controller finds. Costs a request only where the network retains. See docs/decisions/0068.
 */
export async function findRetained(
  { client }: Pick<AttachParts, "client">,
  { network, definition }: Pick<AttachWant, "network" | "definition">,
  { claim }: Pick<ClusterAttacher, "claim">,
  deadlineMs: number,
): Promise<Pick<Holdings, "held" | "unreleased">> {
  if (claim === null || definition.retainSeconds === 0) return { held: [] };
  const all = await client.listOfClaim(claim, deadlineMs);
  const former = all.filter(({ spec }) => spec.network === network && spec.owner.uid !== claim.uid);
  const bound = former.find(({ status }) => status?.state === "Bound");
  if (bound !== undefined) return { held: [], unreleased: addressOf(bound) };
  const held = former
    .filter(({ status }) => status?.state === "Retained")
    .map(({ spec }) => parseInterfaceAddress(spec.address))
    .map((one) => ({ ...one, state: "cooling" as const, adopted: false }));
  return { held };
}
