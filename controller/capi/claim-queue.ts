import type { MachineClaimView } from "../../kube/views/machine-claim-view.ts";

interface Arrival {
  readonly uid: string;
  readonly number: number;
}

/** Claims that are to be looked at, each once, in the order in which they were created. */
export class ClaimQueue {
  readonly #due = new Set<string>();
  /** By key: several are created in one second, which is all that their time tells. */
  readonly #arrivals = new Map<string, Arrival>();
  #count = 0;

  get size(): number {
    return this.#due.size;
  }

  arrived({ key, uid }: MachineClaimView): void {
    if (this.#arrivals.get(key)?.uid === uid) return;
    this.#count += 1;
    this.#arrivals.set(key, { uid, number: this.#count });
  }

  forget(key: string): void {
    this.#arrivals.delete(key);
    this.#due.delete(key);
  }

  add(key: string): void {
    this.#due.add(key);
  }

  /** Everything that is due now; it is due no more. Claims that are gone are left out. */
  take(claims: ReadonlyMap<string, MachineClaimView>): MachineClaimView[] {
    const taken = [...this.#due].map((key) => claims.get(key)).filter((one) => one !== undefined);
    this.#due.clear();
    const numberOf = ({ key }: MachineClaimView) => this.#arrivals.get(key)?.number ?? 0;
    return taken.sort((a, b) =>
      a.creationTimestamp === b.creationTimestamp
        ? numberOf(a) - numberOf(b)
        : a.creationTimestamp < b.creationTimestamp
          ? -1
          : 1,
    );
  }
}
