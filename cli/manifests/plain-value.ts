import { type Alias, isAlias, isMap, isScalar, isSeq, type Node, type Scalar, type YAMLMap } from "yaml";

/** A document that is YAML, and not what we take. */
export class DocumentFault extends Error {
  /** Where, in characters from the beginning of the text. */
  readonly offset: number;

  constructor(offset: number, problem: string) {
    super(problem);
    this.offset = offset;
  }
}

/** Values from aliases: copied when the document is sent, and aliases of aliases multiply ("billion laughs"). */
const COPIED_VALUES_MAX = 100_000;

interface Anchored {
  readonly value: unknown;
  /** The number of values in it, its aliases resolved. */
  readonly size: number;
}

/** The plain value of a document that was parsed with `stringKeys` and without `uniqueKeys`. Throws DocumentFault. */
export function plainValue(node: Node | null): unknown {
  return new PlainReader().read(node);
}

/** One walk, which is linear: the library compares each key with all before it, and searches all anchors per alias. */
class PlainReader {
  /** null: within the value that has the anchor. */
  readonly #anchored = new Map<string, Anchored | null>();
  #values = 0;
  #copied = 0;

  read(node: unknown): unknown {
    if (isAlias(node)) return this.#copy(node);
    const before = this.#values;
    this.#values += 1;
    const { anchor } = (node ?? {}) as { anchor?: string };
    if (anchor !== undefined) this.#anchored.set(anchor, null);
    const value = isMap(node)
      ? this.#mapping(node)
      : isSeq(node)
        ? node.items.map((item) => this.read(item))
        : isScalar(node)
          ? node.value
          : null;
    if (anchor !== undefined) this.#anchored.set(anchor, { value, size: this.#values - before });
    return value;
  }

  #copy(alias: Alias.Parsed | Alias): unknown {
    const anchored = this.#anchored.get(alias.source);
    if (anchored === undefined) fault(alias, `no anchor &${alias.source} comes before the alias *${alias.source}`);
    if (anchored === null) fault(alias, `the alias *${alias.source} is inside the value that it stands for`);
    this.#values += anchored.size;
    this.#copied += anchored.size;
    if (this.#copied > COPIED_VALUES_MAX)
      fault(alias, `its aliases stand for more than ${COPIED_VALUES_MAX} values: write them out, in several documents`);
    return anchored.value;
  }

  #mapping({ items }: YAMLMap): object {
    const entries = new Map<string, unknown>();
    const merged: object[] = [];
    for (const { key, value } of items) {
      const name = nameOf(key);
      if (isMerge(key)) {
        merged.push(...this.#mergeSources(key, value));
        continue;
      }
      if (entries.has(name)) fault(key, `key ${JSON.stringify(name)} is there twice in one mapping: remove one`);
      if (name === "__proto__") refuseName(key, name);
      const plain = this.read(value);
      if (name === "constructor" && isObject(plain) && Object.hasOwn(plain, "prototype"))
        refuseName(key, "constructor.prototype");
      entries.set(name, plain);
    }
    // Keys of the mapping count before merged ones, and the first source before the next.
    for (const source of merged) {
      for (const [name, value] of Object.entries(source)) if (!entries.has(name)) entries.set(name, value);
    }
    return Object.fromEntries(entries);
  }

  #mergeSources(key: unknown, value: unknown): object[] {
    const source = this.read(value);
    const sources = Array.isArray(source) ? source : [source];
    if (!sources.every(isObject)) fault(key, "<< expects a mapping, or a list of mappings");
    return sources;
  }
}

function isMerge(key: unknown): key is Scalar {
  return isScalar(key) && key.value === "<<" && key.type === "PLAIN";
}

function nameOf(key: unknown): string {
  return isScalar(key) ? String(key.value ?? "") : "";
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The daemon takes no JSON with such a name. */
function refuseName(key: unknown, name: string): never {
  fault(key, `${name} cannot be a key: no Kubernetes object has it, and it would alter objects in JavaScript`);
}

function fault(node: unknown, problem: string): never {
  throw new DocumentFault((node as Node | null)?.range?.[0] ?? 0, problem);
}
