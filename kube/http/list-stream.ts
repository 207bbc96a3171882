/** One object, bytes. etcd's default limit is 1.5 MB; nobody raises that tenfold. */
const ITEM_BYTES_MAX = 16 * 1024 * 1024;
/** Everything around the objects, bytes: kind, resource version and a continue token. */
const ENVELOPE_BYTES_MAX = 1024 * 1024;

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const SPACE = 0x20;

export interface ListEnvelope {
  readonly metadata?: { readonly resourceVersion?: string; readonly continue?: string };
}

/**
 * Cuts the body of a Kubernetes List, `{"items":[…],"metadata":{…}}` in any order, into the JSON texts of its elements
 * while it arrives. Bytes outside `items` are kept and parsed in the end. Feed `push` with chunks cut anywhere.
 * It finds boundaries only: whoever parses the texts finds out whether they are JSON.
 */
export class ListStream {
  readonly #each: (json: string) => void;
  #envelope = Buffer.allocUnsafe(1024);
  #envelopeLength = 0;
  /** Open brackets: of the list itself (1: in the outermost object), or of the element at hand. */
  #depth = 0;
  #inString = false;
  #escaped = false;
  #stringStart = 0;
  /** JSON texts of the latest string and key at depth 1, e.g. `"items"`. */
  #string = "";
  #key = "";
  #inItems = false;
  /** Chunks of the element at hand that have gone by; null: between elements. */
  #element: Buffer[] | null = null;
  #elementBytes = 0;

  /** `each` hears every element of `items` in order, as JSON text; what it throws, `push` throws. */
  constructor(each: (json: string) => void) {
    this.#each = each;
  }

  /** Throws an Error when an element or the rest is too big. */
  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.#element !== null) at = this.#scanElement(chunk, at);
      else if (this.#inItems) at = this.#scanItems(chunk, at);
      else at = this.#scanEnvelope(chunk, at);
    }
  }

  /** What was around the elements. Throws an Error when the body is no complete JSON object. */
  end(): ListEnvelope {
    const text = this.#envelope.toString("utf8", 0, this.#envelopeLength);
    if (this.#inItems || this.#element !== null) throw new Error("the list ended in the middle of its items");
    const envelope: unknown = JSON.parse(text);
    if (typeof envelope !== "object" || envelope === null || Array.isArray(envelope))
      throw new Error("the list is no JSON object");
    return envelope;
  }

  /** Outside `items`, until it begins or the chunk ends. Few bytes: one at a time will do. */
  #scanEnvelope(chunk: Buffer, from: number): number {
    for (let at = from; at < chunk.length; at += 1) {
      const byte = chunk[at] as number;
      this.#keep(byte);
      if (this.#inString) this.#inEnvelopeString(byte);
      else if (byte === QUOTE) {
        this.#inString = true;
        this.#stringStart = this.#envelopeLength - 1;
      } else if (byte === COLON && this.#depth === 1) this.#key = this.#string;
      else if (byte === COMMA && this.#depth === 1) this.#key = "";
      else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) this.#depth -= 1;
      else if (byte === OPEN_BRACKET && this.#depth === 1 && isItems(this.#key)) {
        this.#inItems = true;
        return at + 1;
      } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) this.#depth += 1;
    }
    return chunk.length;
  }

  #inEnvelopeString(byte: number): void {
    if (this.#escaped) this.#escaped = false;
    else if (byte === BACKSLASH) this.#escaped = true;
    else if (byte === QUOTE) {
      this.#inString = false;
      if (this.#depth === 1) this.#string = this.#envelope.toString("utf8", this.#stringStart, this.#envelopeLength);
    }
  }

  /** Between elements, until one begins or `items` ends. */
  #scanItems(chunk: Buffer, from: number): number {
    for (let at = from; at < chunk.length; at += 1) {
      const byte = chunk[at] as number;
      if (byte === CLOSE_BRACKET) {
        this.#keep(byte);
        this.#inItems = false;
        return at + 1;
      }
      if (byte > SPACE && byte !== COMMA) {
        this.#element = [];
        this.#elementBytes = 0;
        this.#depth = 0;
        return at;
      }
    }
    return chunk.length;
  }

  /** Within an element, until it or the chunk ends. The one loop that sees every byte of a big list. */
  #scanElement(chunk: Buffer, from: number): number {
    let depth = this.#depth;
    let inString = this.#inString;
    let at = from;
    if (this.#escaped) {
      this.#escaped = false;
      at += 1;
    }
    for (; at < chunk.length; at += 1) {
      const byte = chunk[at] as number;
      if (inString) {
        if (byte === BACKSLASH) {
          at += 1;
          if (at >= chunk.length) this.#escaped = true;
        } else if (byte === QUOTE) {
          inString = false;
          if (depth === 0) return this.#finishElement(chunk, from, at + 1);
        }
      } else if (byte === QUOTE) inString = true;
      else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth += 1;
      else if (depth === 0 && (byte <= SPACE || byte === COMMA || byte === CLOSE_BRACKET))
        // A number or a word has no end of its own.
        return this.#finishElement(chunk, from, at);
      else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
        depth -= 1;
        if (depth === 0) return this.#finishElement(chunk, from, at + 1);
      }
    }
    this.#depth = depth;
    this.#inString = inString;
    this.#keepPart(chunk.subarray(from));
    return chunk.length;
  }

  #finishElement(chunk: Buffer, from: number, to: number): number {
    const parts = this.#element as Buffer[];
    const whole = parts.length === 0;
    if (!whole) this.#keepPart(chunk.subarray(from, to));
    const json = whole ? chunk.toString("utf8", from, to) : Buffer.concat(parts, this.#elementBytes).toString();
    this.#element = null;
    this.#inString = false;
    this.#depth = 1;
    this.#each(json);
    return to;
  }

  #keepPart(part: Buffer): void {
    this.#elementBytes += part.length;
    if (this.#elementBytes > ITEM_BYTES_MAX)
      throw new Error(`an object of the list has more than ${ITEM_BYTES_MAX} bytes`);
    (this.#element as Buffer[]).push(part);
  }

  #keep(byte: number): void {
    if (this.#envelopeLength === this.#envelope.length) {
      if (this.#envelopeLength >= ENVELOPE_BYTES_MAX)
        throw new Error(`the list has more than ${ENVELOPE_BYTES_MAX} bytes around its objects`);
      this.#envelope = Buffer.concat([this.#envelope], this.#envelopeLength * 2);
    }
    this.#envelope[this.#envelopeLength] = byte;
    this.#envelopeLength += 1;
  }
}

/** The key may be written with escapes; nobody does, but it is JSON. */
function isItems(key: string): boolean {
  return key === '"items"' || (key.includes("\\") && JSON.parse(key) === "items");
}
