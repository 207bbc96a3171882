import { TextPacker, TextUnpacker, Words } from "./packed-text.ts";

// biome-ignore lint/suspicious/noExplicitAny: JSON of every kind
type Json = any;

/** What is known of the objects of a kind. Only memory depends on it: what is unpacked is always what was packed. */
export interface PackingHints {
  /** Keys whose texts are one of a few: they become part of the shape. */
  readonly constants: ReadonlySet<string>;
  /** Keys whose texts many objects share, such as names of nodes. */
  readonly words: ReadonlySet<string>;
  /**
   * Whether a key differs from object to object. `path`: the keys above it from the root, joined by "."; "*" for such a
   * key.
   */
  readonly isOwnKey: (path: string, key: string) => boolean;
}

/** What objects have in common: everything but the texts and numbers of each. */
export interface Shape {
  readonly node: Node;
  /** An object of this shape, in which those are "". */
  readonly outline: Json;
}

/** An object in few bytes: `text` has one byte for each character. */
export interface Packed {
  readonly shape: Shape;
  readonly text: string;
}

type Node =
  | { readonly kind: "constant"; readonly value: Json }
  | { readonly kind: "text"; readonly isWord: boolean }
  | { readonly kind: "number" | "json" }
  | { readonly kind: "array"; readonly nodes: readonly Node[] }
  | { readonly kind: "object"; readonly entries: readonly Entry[] };

/** `key` null: each object has its own. */
interface Entry {
  readonly key: string | null;
  readonly node: Node;
}

/** More are not remembered, whatever is written into a cluster: objects are then packed as their JSON. */
const SHAPES_MAX = 4_096;
/** Of a shape that is remembered, as JSON: ten times one of ours. */
const SHAPE_CHARS_MAX = 32_768;
/** Most objects have one of these: they are tried first. */
const RECENT_MAX = 8;

const JSON_SHAPE: Shape = Object.freeze({ node: { kind: "json" as const }, outline: null });

/**
 * Packs plain JSON objects of one kind. What they have in common is kept once, and of each only its own texts: UUIDs
 * and other hexadecimal ones in half their length, none of them twice.
 */
export class PackedObjects {
  readonly #hints: PackingHints;
  readonly #words = new Words();
  readonly #shapes = new Map<string, Shape>();
  readonly #recent: Shape[] = [];
  readonly #packer = new TextPacker(this.#words);

  constructor(hints: PackingHints) {
    this.#hints = hints;
  }

  /**
   * `known`: a text that is kept besides. `header`: texts that come first, for `headerOf`, and whether many objects
   * share them.
   */
  pack(object: Json, known: string, header: readonly (readonly [text: string, isWord: boolean])[]): Packed {
    const packer = this.#packer.begin(known);
    for (const [text, isWord] of header) packer.text(text, isWord);
    const mark = packer.mark();
    for (const [at, shape] of this.#recent.entries()) {
      if (this.#write(packer, shape.node, object)) {
        if (at > 0) this.#recent.unshift(...this.#recent.splice(at, 1));
        return { shape, text: packer.end() };
      }
      packer.reset(mark);
    }
    const shape = this.#shapeOf(object);
    this.#write(packer, shape.node, object);
    return { shape, text: packer.end() };
  }

  /** A new object each time. `known` and `headerTexts` as it was packed. */
  unpack({ shape, text }: Packed, known: string, headerTexts: number): Json {
    const reader = new TextUnpacker(text, known, this.#words);
    for (let count = 0; count < headerTexts; count += 1) reader.text();
    return jsonOf(reader, shape.node);
  }

  /** The text of the header at an index. */
  headerOf({ text }: Packed, known: string, index: number): string {
    const reader = new TextUnpacker(text, known, this.#words);
    for (let count = 0; count < index; count += 1) reader.text();
    return reader.text();
  }

  #shapeOf(object: Json): Shape {
    const node = this.#nodeOf(object, "", "");
    const key = JSON.stringify(node, (_key, value) => (value === undefined ? "undefined" : value));
    const known = this.#shapes.get(key);
    if (known === undefined && (this.#shapes.size >= SHAPES_MAX || key.length > SHAPE_CHARS_MAX)) return JSON_SHAPE;
    const shape = known ?? Object.freeze({ node, outline: outlineOf(node) });
    this.#shapes.set(key, shape);
    this.#recent.unshift(shape);
    this.#recent.length = Math.min(this.#recent.length, RECENT_MAX);
    return shape;
  }

  #nodeOf(value: Json, key: string, path: string): Node {
    if (typeof value === "string" && value !== "" && !this.#hints.constants.has(key))
      return { kind: "text", isWord: this.#hints.words.has(key) };
    if (typeof value === "number") return { kind: "number" };
    if (Array.isArray(value)) return { kind: "array", nodes: value.map((one) => this.#nodeOf(one, key, path)) };
    if (typeof value !== "object" || value === null) return { kind: "constant", value };
    const entries = Object.keys(value).map((name) => {
      const isOwn = this.#hints.isOwnKey(path, name);
      const node = this.#nodeOf(value[name], name, pathOf(path, isOwn ? "*" : name));
      return { key: isOwn ? null : name, node };
    });
    return { kind: "object", entries };
  }

  /** Writes the texts and numbers of a value; false: it has another shape, and what was written is good for nothing. */
  #write(packer: TextPacker, node: Node, value: Json): boolean {
    switch (node.kind) {
      case "constant":
        return value === node.value;
      case "text":
        if (typeof value !== "string" || value === "") return false;
        packer.text(value, node.isWord);
        return true;
      case "number":
        if (typeof value !== "number") return false;
        packer.text(JSON.stringify(value), false);
        return true;
      case "json":
        packer.text(JSON.stringify(value), false);
        return true;
      case "array":
        if (!Array.isArray(value) || value.length !== node.nodes.length) return false;
        return node.nodes.every((one, index) => this.#write(packer, one, value[index]));
      case "object":
        return this.#writeObject(packer, node.entries, value);
    }
  }

  #writeObject(packer: TextPacker, entries: readonly Entry[], value: Json): boolean {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
    const names = Object.keys(value);
    if (names.length !== entries.length) return false;
    for (let index = 0; index < names.length; index += 1) {
      const { key, node } = entries[index] as Entry;
      const name = names[index] as string;
      if (key === null) packer.text(name, true);
      else if (key !== name) return false;
      if (!this.#write(packer, node, value[name])) return false;
    }
    return true;
  }
}

function pathOf(path: string, name: string): string {
  return path === "" ? name : `${path}.${name}`;
}

function outlineOf(node: Node): Json {
  if (node.kind === "constant") return node.value;
  if (node.kind === "array") return node.nodes.map(outlineOf);
  if (node.kind !== "object") return "";
  return Object.fromEntries(node.entries.map(({ key, node: one }) => [key ?? "", outlineOf(one)]));
}

function jsonOf(texts: TextUnpacker, node: Node): Json {
  switch (node.kind) {
    case "constant":
      return node.value;
    case "text":
      return texts.text();
    case "number":
      return Number(texts.text());
    case "json":
      return JSON.parse(texts.text());
    case "array":
      return node.nodes.map((one) => jsonOf(texts, one));
    case "object": {
      const object: Json = {};
      for (const { key, node: one } of node.entries) set(object, key ?? texts.text(), jsonOf(texts, one));
      return object;
    }
  }
}

/** As JSON.parse does it: of every key an own property. */
function set(object: Json, key: string, value: Json): void {
  if (key !== "__proto__") object[key] = value;
  else Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
}
