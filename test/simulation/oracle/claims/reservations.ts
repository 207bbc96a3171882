import { contains, inOneSubnet } from "../address.ts";
import type { Allocations, Held } from "../allocations.ts";
import type { PlainObject } from "../view.ts";
import { violation } from "../violation.ts";
import type { Wants } from "./wants.ts";

/** An ADD and a controller may reserve at the same time, ms. */
const TOGETHER_MS_MAX = 15_000;

/**
 * What is reserved for a claim while nobody attaches it, because its list wishes it, is what an ADD could give: nothing
 * that is excluded, and one address of each subnet.
 */
export function checkReservation(
  before: Held | null,
  after: Held | null,
  { allocations, wants, nowMs }: { readonly allocations: Allocations; readonly wants: Wants; readonly nowMs: number },
): void {
  if (!after?.isBound || after.owner.kind !== "IPAMClaim" || before?.isBound) return;
  if (Object.keys(after.object.status?.attachments ?? {}).length > 0) return;
  const { network, address, owner } = after;
  const which = `${address} of network ${network} was reserved for claim ${owner.namespace}/${owner.name}`;
  const beside = allocations
    .ofClaim(owner.uid)
    .find(
      (one) =>
        one.place !== after.place &&
        one.network === network &&
        nowMs - one.sinceMs > TOGETHER_MS_MAX &&
        inOneSubnet(one.address, address),
    );
  if (beside !== undefined) throw violation("reserved-amiss", `${which}, which has ${beside.address}`);
  const definitions = wants.definitionsOf(network);
  if (definitions.length > 0 && definitions.every((config) => isExcluded(config, address)))
    throw violation("reserved-amiss", `${which}, and is excluded`);
}

function isExcluded({ ipam }: PlainObject, address: string): boolean {
  const texts = String(ipam?.excludeSubnets ?? "").split(",");
  return texts.some((cidr) => cidr.includes("/") && contains(cidr, address));
}
