/** Of everything that was added, in order, 64 bits (two FNV-1a of 32): the same history has the same. */
export class Digest {
  #low = 0x811c9dc5;
  #high = 0x1b873593;

  add(text: string): void {
    let [low, high] = [this.#low, this.#high];
    for (let i = 0; i < text.length; i += 1) {
      const code = text.charCodeAt(i);
      low = Math.imul(low ^ code, 0x01000193);
      high = Math.imul(high ^ code, 0x01000193);
      high ^= low >>> 15;
    }
    this.#low = low;
    this.#high = high;
  }

  /** A moment, ms: of which not more than a thousandth counts. */
  addMoment(ms: number): void {
    this.#low = Math.imul(this.#low ^ (ms * 1_000), 0x01000193);
    this.#high = Math.imul(this.#high ^ this.#low, 0x01000193);
  }

  toString(): string {
    return [this.#high, this.#low].map((half) => (half >>> 0).toString(16).padStart(8, "0")).join("");
  }
}
