import type { MachineAddress } from "../world.ts";
import { type Held, readPlace } from "./allocations.ts";

/** The address of a machine of Cluster API that runs. */
export interface MachineUse {
  readonly one: MachineAddress;
  readonly address: string;
  readonly place: string;
  readonly upAtMs: number;
}

/** Machines of Cluster API, and the addresses that they were told. */
export class MachineUses {
  readonly #byKey = new Map<string, MachineUse>();
  readonly #byPlace = new Map<string, Set<MachineUse>>();

  at(place: string): readonly MachineUse[] {
    return [...(this.#byPlace.get(place) ?? [])];
  }

  /** null: the address cannot be read, or the machine has it already. */
  add(one: MachineAddress, address: string, nowMs: number): MachineUse | null {
    const place = readPlace(one.network, address);
    if (place === null || this.#byKey.get(keyOf(one))?.place === place) return null;
    this.remove(one);
    const use = { one, address, place, upAtMs: nowMs };
    this.#byKey.set(keyOf(one), use);
    const there = this.#byPlace.get(place) ?? new Set();
    there.add(use);
    this.#byPlace.set(place, there);
    return use;
  }

  remove(one: MachineAddress): void {
    const use = this.#byKey.get(keyOf(one));
    if (use === undefined) return;
    this.#byKey.delete(keyOf(one));
    const there = this.#byPlace.get(use.place);
    there?.delete(use);
    if (there?.size === 0) this.#byPlace.delete(use.place);
  }
}

/**
 * Bound to the claim of its name, or to the machine data that the name is made from: objects of a name succeed each
 * other.
 */
export function isHeldForMachine({ one }: MachineUse, held: Held | null): boolean {
  if (held === null || !held.isBound || held.owner.namespace !== one.namespace) return false;
  const { kind, name, interface: pool } = held.owner;
  return kind === "Metal3Data" ? one.claim === `${name}-${pool}` : kind === "IPAddressClaim" && name === one.claim;
}

export const describeMachine = ({ one }: MachineUse): string => `the machine of claim ${one.namespace}/${one.claim}`;

const keyOf = ({ network, namespace, claim }: MachineAddress): string => `${network} ${namespace}/${claim}`;
