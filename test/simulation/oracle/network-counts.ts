import type { Allocations } from "./allocations.ts";
import { NADS, NETWORKS, type PlainObject, type PlainStore } from "./view.ts";
import { violation } from "./violation.ts";

/** What a network's object says is what there is. */
export function checkCounts(etcd: PlainStore, allocations: Allocations): void {
  const counted = countAll(allocations);
  const nads = etcd.range(NADS, "").map(({ object }) => object);
  for (const { object } of etcd.range(NETWORKS, "")) {
    const network: string = object.spec?.network;
    const { bound, cooling } = counted.get(network) ?? { bound: 0, cooling: 0 };
    const status = object.status ?? {};
    if (status.allocated === undefined) continue;
    const defining = nads.filter((nad) => definesNetwork(nad, network));
    // Addresses of an earlier range are held, and counted nowhere.
    const isEdited = defining.some(({ metadata }) => metadata.generation > 1) || defining.length > 1;
    const told = { bound: Number(status.allocated), cooling: Number(status.cooling) };
    const isRight = isEdited
      ? told.bound <= bound && told.cooling <= cooling
      : told.bound === bound && told.cooling === cooling;
    if (!isRight)
      throw violation(
        "counts",
        `IPNetwork ${object.metadata.name} tells of ${status.allocated} allocated and ${status.cooling} cooling addresses, and there are ${bound} and ${cooling}`,
      );
    // Without a definition of its owner a network has neither a size nor addresses that are free.
    const isSized = status.size !== undefined || status.free !== undefined;
    if (isSized && sumOf(status) > BigInt(status.size ?? 0) && defining.length > 0)
      throw violation(
        "counts",
        `IPNetwork ${object.metadata.name}: ${status.allocated} allocated, ${status.cooling} cooling and ${status.free} free are more than its size of ${status.size}`,
      );
  }
}

const sumOf = ({ allocated, cooling, free }: PlainObject): bigint =>
  BigInt(allocated) + BigInt(cooling ?? 0) + BigInt(free ?? 0);

function countAll(allocations: Allocations) {
  const counted = new Map<string, { bound: number; cooling: number }>();
  for (const { network, isBound, isCooling } of allocations.all()) {
    const one = counted.get(network) ?? { bound: 0, cooling: 0 };
    if (isBound) one.bound += 1;
    if (isCooling) one.cooling += 1;
    counted.set(network, one);
  }
  return counted;
}

/** Whether its configuration is, or may be, of the network. */
function definesNetwork({ spec }: PlainObject, network: string): boolean {
  const text = String(spec?.config ?? "");
  return text.includes(JSON.stringify(network));
}
