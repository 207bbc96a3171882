import { addressOf, isSound } from "../../allocations/allocation-object.ts";
import { viewOf } from "../../allocations/views.ts";
import { compareAddresses, sameAddress } from "../../ipam/space/address.ts";
import type { IPAllocation } from "../../kube/objects.ts";
import { parseTime } from "../../platform/time.ts";
import type { HistoryWant } from "../../store/node-store.ts";
import type { PastPeriod } from "../admin-api.ts";

/** Who has an address and uses it, and the former holders of cooling ones. The newest first. */
export function clusterHistory(
  allocations: readonly IPAllocation[],
  { network, address, namespace, limit }: HistoryWant,
): PastPeriod[] {
  return allocations
    .filter(isSound)
    .filter(({ spec }) => network === undefined || spec.network === network)
    .filter((object) => address === undefined || sameAddress(addressOf(object), address))
    .sort((a, b) => compareAddresses(addressOf(a), addressOf(b)))
    .flatMap(periodsOf)
    .filter(({ owner, pod }) => namespace === undefined || [owner.namespace, pod?.namespace].includes(namespace))
    .sort((a, b) => timeOf(b) - timeOf(a))
    .slice(0, limit);
}

function periodsOf(object: IPAllocation): PastPeriod[] {
  const { network, address, owner, state, since, attachments } = viewOf(object);
  const held = { network, address, owner, containerID: null, interface: null, pod: null };
  if (state === "Cooling") return [{ ...held, node: "", from: null, until: since, endedBy: "released" }];
  if (state === "Retained") return [{ ...held, node: "", from: null, until: since, endedBy: "claim deleted" }];
  const uses = attachments.map(({ containerID, interface: name, pod, node, since: from }) => ({
    ...{ network, address, owner, containerID, interface: name, pod, node },
    ...{ from, until: null, endedBy: null },
  }));
  // A pod or container holds by using; a claim also without. Imported addresses have no use yet.
  if (owner.kind !== "claim" && uses.length > 0) return uses;
  const node = object.status?.node ?? "";
  return [...uses, { ...held, node, from: since, until: null, endedBy: null }];
}

/** ms; an unreadable time is old. */
function timeOf({ from, until }: PastPeriod): number {
  return parseTime(from ?? until ?? "") || 0;
}
