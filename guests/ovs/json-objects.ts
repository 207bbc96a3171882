/**
 * Takes a stream of JSON objects apart that follow one another without length or separator, as OVSDB sends them
 * (RFC 7047, section 4).
 */
export class JsonObjects {
  readonly #charsMax: number;
  /** Of the object that is not complete yet. */
  #parts: string[] = [];
  #chars = 0;
  #depth = 0;
  #inString = false;
  #escaped = false;

  /** `charsMax`: of one object. */
  constructor(charsMax: number) {
    this.#charsMax = charsMax;
  }

  /** The objects that end in this chunk. Throws Error for what is no JSON, and for an object above the limit. */
  push(chunk: string): readonly unknown[] {
    const objects: unknown[] = [];
    let start = 0;
    for (let at = 0; at < chunk.length; at++) {
      if (!this.#endsAt(chunk[at] as string)) continue;
      objects.push(JSON.parse(this.#parts.join("") + chunk.slice(start, at + 1)));
      this.#parts = [];
      this.#chars = 0;
      start = at + 1;
    }
    const rest = chunk.slice(start);
    this.#chars += rest.length;
    if (this.#chars > this.#charsMax) throw new Error(`a message has more than ${this.#charsMax} characters`);
    if (rest !== "") this.#parts.push(rest);
    return objects;
  }

  #endsAt(character: string): boolean {
    if (this.#inString) {
      if (this.#escaped) this.#escaped = false;
      else if (character === "\\") this.#escaped = true;
      else if (character === '"') this.#inString = false;
      return false;
    }
    if (character === '"') this.#inString = true;
    else if (character === "{") this.#depth += 1;
    else if (character === "}") {
      this.#depth -= 1;
      return this.#depth === 0;
    }
    return false;
  }
}
