import type { Allocations } from "./allocations.ts";
import { NADS, NETWORKS, type PlainObject, type PlainStore } from "./view.ts";
import { violation } from "./violation.ts";

/** What a network's object says is what there is. Addresses of an earlier range are held, and counted nowhere. */
export class NetworkCounts {
  /** What a definition has said since the counts of its networks were right, by key. */
  readonly #said = new Map<string, Set<string>>();

  /** A definition was written, or is there. */
  note({ metadata, spec }: PlainObject): void {
    const key = `${metadata.namespace}/${metadata.name}`;
    const said = this.#said.get(key) ?? new Set<string>();
    this.#said.set(key, said.add(String(spec?.config ?? "")));
  }

  check(etcd: PlainStore, allocations: Allocations): void {
    const counted = countAll(allocations);
    const nads = etcd.range(NADS, "").map(({ object }) => object);
    // A restore of etcd tells nobody.
    for (const nad of nads) this.note(nad);
    const others: string[] = [];
    for (const { object } of etcd.range(NETWORKS, "")) {
      const network: string = object.spec?.network;
      const { bound, retained, cooling } = counted.get(network) ?? NONE;
      const status = object.status ?? {};
      if (status.allocated === undefined) {
        others.push(network);
        continue;
      }
      const defining = nads.filter((nad) => definesNetwork(nad, network));
      const isEdited = defining.length > 1 || this.#isEdited(network);
      const told = {
        bound: Number(status.allocated),
        retained: Number(status.retained ?? 0),
        cooling: Number(status.cooling),
      };
      const isExact = told.bound === bound && told.retained === retained && told.cooling === cooling;
      const isLess = told.bound <= bound && told.retained <= retained && told.cooling <= cooling;
      const isRight = isExact || (isEdited && isLess);
      if (!isRight)
        throw violation(
          "counts",
          `IPNetwork ${object.metadata.name} tells of ${status.allocated} allocated, ${status.retained} retained and ${status.cooling} cooling addresses, and there are ${bound}, ${retained} and ${cooling}`,
        );
      // Without a definition of its owner a network has neither a size nor addresses that are free.
      const isSized = status.size !== undefined || status.free !== undefined;
      if (isSized && sumOf(status) > BigInt(status.size ?? 0) && defining.length > 0)
        throw violation(
          "counts",
          `IPNetwork ${object.metadata.name}: ${status.allocated} allocated, ${status.cooling} cooling and ${status.free} free are more than its size of ${status.size}`,
        );
      if (!isExact) others.push(network);
    }
    this.#forgetAllBut(others);
  }

  /** What defines it, or did, has said something else before; also where it was deleted and made again. */
  #isEdited(network: string): boolean {
    return [...this.#said.values()].some((said) => said.size > 1 && [...said].some((text) => tells(text, network)));
  }

  /** What one definition has said may be of several networks: it counts until all of them are right. */
  #forgetAllBut(networks: readonly string[]): void {
    for (const [key, said] of this.#said) {
      const isNeeded = networks.some((network) => [...said].some((text) => tells(text, network)));
      if (!isNeeded) this.#said.delete(key);
    }
  }
}

const NONE = { bound: 0, retained: 0, cooling: 0 };

const sumOf = ({ allocated, retained, cooling, free }: PlainObject): bigint =>
  BigInt(allocated) + BigInt(retained ?? 0) + BigInt(cooling ?? 0) + BigInt(free ?? 0);

function countAll(allocations: Allocations) {
  const counted = new Map<string, { bound: number; retained: number; cooling: number }>();
  for (const { network, isBound, isRetained, isCooling } of allocations.all()) {
    const one = counted.get(network) ?? { ...NONE };
    if (isBound) one.bound += 1;
    if (isRetained) one.retained += 1;
    if (isCooling) one.cooling += 1;
    counted.set(network, one);
  }
  return counted;
}

/** Whether its configuration is, or may be, of the network. */
const definesNetwork = ({ spec }: PlainObject, network: string): boolean => tells(String(spec?.config ?? ""), network);

const tells = (text: string, network: string): boolean => text.includes(JSON.stringify(network));
