import { type IPAllocation, LABEL_STATE, NODE_LABELS } from "../../kube/objects.ts";
import { type Packed, PackedObjects, type PackingHints } from "../../kube/packed-objects.ts";
import { type CachedAllocation, projectAllocation } from "./caches.ts";

const HINTS: PackingHints = {
  constants: new Set(["apiVersion", "kind", "finalizers", "state", LABEL_STATE]),
  words: new Set(["namespace", "network", "node", "interface", "cluster"]),
  isOwnKey: (path, key) => path === "status.attachments" || (path === "metadata.labels" && key.startsWith(NODE_LABELS)),
};

/** Texts that are read without the rest of the object. */
const HEADER = ["uid", "resourceVersion", "recordsFields", "network", "address", "creationTimestamp"] as const;
const NONE = "-";

/**
 * Projects allocations into rows: a hundred thousand of them are held, and of each little is read at a time. See
 * docs/decisions/0079.
 */
export class AllocationRows {
  readonly #objects = new PackedObjects(HINTS);
  /** What is asked for is mostly asked for several times in a row. */
  #latest: { readonly row: AllocationRow; readonly object: IPAllocation } | null = null;

  /** Throws TypeError without metadata. */
  project(object: IPAllocation): CachedAllocation {
    const whole = projectAllocation(object);
    const { uid, resourceVersion, network, address, creationTimestamp, recordsFields } = whole;
    const flags = { address: address ?? NONE, recordsFields: recordsFields ? "1" : "0" };
    const texts = { uid, resourceVersion, network, creationTimestamp, ...flags };
    const header = HEADER.map((one) => [texts[one], one === "network"] as const);
    return new AllocationRow(this, whole.key, this.#objects.pack(whole.object, whole.key, header));
  }

  objectOf(row: AllocationRow): IPAllocation {
    if (this.#latest?.row !== row) this.#latest = { row, object: this.#objects.unpack(row, row.key, HEADER.length) };
    return this.#latest.object;
  }

  headerOf(row: AllocationRow, text: (typeof HEADER)[number]): string {
    return this.#objects.headerOf(row, row.key, HEADER.indexOf(text));
  }
}

/** Two rows are equal exactly when their objects are. */
class AllocationRow implements CachedAllocation, Packed {
  readonly #rows: AllocationRows;
  readonly key: string;
  readonly shape: Packed["shape"];
  readonly text: string;

  constructor(rows: AllocationRows, key: string, { shape, text }: Packed) {
    this.#rows = rows;
    this.key = key;
    this.shape = shape;
    this.text = text;
  }

  get uid(): string {
    return this.#rows.headerOf(this, "uid");
  }

  get resourceVersion(): string {
    return this.#rows.headerOf(this, "resourceVersion");
  }

  get network(): string {
    return this.#rows.headerOf(this, "network");
  }

  get creationTimestamp(): string {
    return this.#rows.headerOf(this, "creationTimestamp");
  }

  get address(): string | null {
    const address = this.#rows.headerOf(this, "address");
    return address === NONE ? null : address;
  }

  get recordsFields(): boolean {
    return this.#rows.headerOf(this, "recordsFields") === "1";
  }

  get outline(): IPAllocation {
    return this.shape.outline ?? this.object;
  }

  get object(): IPAllocation {
    return this.#rows.objectOf(this);
  }
}
