import type { Interface } from "../world.ts";
import { type Owner, readPlace } from "./allocations.ts";

/** An interface that is up, with what was answered to its ADD. */
export interface Living {
  readonly one: Interface;
  readonly ips: readonly string[];
  readonly places: readonly string[];
  readonly upAtMs: number;
  /** Whom its addresses are recorded for, once that was looked up. */
  owner: Owner | null;
  /** Its claim was seen to list what it was answered. */
  isPublished: boolean;
  /** Addresses that were taken from it, and it was told. */
  readonly forfeited: Set<string>;
}

/** What tells one from all others. */
export type InterfaceKey = Pick<Interface, "node" | "containerId" | "ifname" | "network">;

/** Which interfaces live, and where. */
export class Interfaces {
  readonly #byKey = new Map<string, Living>();
  readonly #byPlace = new Map<string, Set<Living>>();

  get(one: InterfaceKey): Living | null {
    return this.#byKey.get(keyOf(one)) ?? null;
  }

  all(): Iterable<Living> {
    return this.#byKey.values();
  }

  at(place: string): readonly Living[] {
    return [...(this.#byPlace.get(place) ?? [])].filter(({ forfeited }) => !forfeited.has(place));
  }

  add(one: Interface, ips: readonly string[], nowMs: number): Living {
    const places = ips.flatMap((ip) => readPlace(one.network, ip) ?? []);
    const living: Living = {
      one,
      ips,
      places,
      upAtMs: nowMs,
      owner: null,
      isPublished: false,
      forfeited: new Set(),
    };
    this.#byKey.set(keyOf(one), living);
    for (const place of places) {
      const there = this.#byPlace.get(place) ?? new Set();
      there.add(living);
      this.#byPlace.set(place, there);
    }
    return living;
  }

  remove(one: Interface): void {
    const living = this.get(one);
    if (living === null) return;
    this.#byKey.delete(keyOf(one));
    for (const place of living.places) {
      const there = this.#byPlace.get(place);
      there?.delete(living);
      if (there?.size === 0) this.#byPlace.delete(place);
    }
  }
}

const keyOf = ({ node, containerId, ifname, network }: InterfaceKey): string =>
  `${node} ${containerId} ${ifname} ${network}`;

/** `pod red/web on node-1 (container 4f2a, net1)` */
export function describeInterface({ pod, node, containerId, ifname }: Interface): string {
  return `pod ${pod.namespace}/${pod.name} on ${node} (container ${containerId.slice(0, 12)}, ${ifname})`;
}
