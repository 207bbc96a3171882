/**
 * Addresses that may be missing, or in two hands, for a while: somebody with the right to do so took them away. Until
 * the world was at rest: then they are mended, or their loss has been told.
 */
export class Excuses {
  readonly #places = new Map<string, string>();
  readonly #networks = new Map<string, string>();
  #everything: string | null = null;

  /** `network` "*": all of them. `place` null: all of the network. */
  add(network: string, place: string | null, why: string): void {
    if (network === "*") this.#everything = why;
    else if (place === null) this.#networks.set(network, why);
    else this.#places.set(place, why);
  }

  /** Why the address of a network is excused; null: it is not. */
  whyOf(network: string, place: string): string | null {
    return this.#places.get(place) ?? this.#networks.get(network) ?? this.#everything;
  }

  clear(): void {
    this.#places.clear();
    this.#networks.clear();
    this.#everything = null;
  }
}
