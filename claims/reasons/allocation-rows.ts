import type { IPAllocation } from "../../kube/objects.ts";
import { type CachedAllocation, projectAllocation } from "./caches.ts";

/** Projects allocations into rows: 100,000 are held, and little of each is read at a time (docs/decisions/0079). */
export class AllocationRows {
  /** What is asked for is mostly asked for several times in a row. */
  #latest: { readonly row: AllocationRow; readonly object: IPAllocation } | null = null;

  /** Throws TypeError without metadata. */
  project(object: IPAllocation): CachedAllocation {
    return new AllocationRow(this, projectAllocation(object));
  }

  objectOf(row: AllocationRow): IPAllocation {
    if (this.#latest?.row !== row) this.#latest = { row, object: JSON.parse(row.json) };
    return this.#latest.object;
  }
}

class AllocationRow implements CachedAllocation {
  readonly #rows: AllocationRows;
  readonly key: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly network: string;
  readonly address: string | null;
  readonly state: string | undefined;
  readonly ownerKind: string | undefined;
  readonly hasMac: boolean;
  readonly recordsFields: boolean;
  /** The whole object: as an object it takes twice as much of the memory. */
  readonly json: string;

  constructor(rows: AllocationRows, whole: CachedAllocation) {
    this.#rows = rows;
    this.key = whole.key;
    this.uid = whole.uid;
    this.resourceVersion = whole.resourceVersion;
    this.network = whole.network;
    this.address = whole.address;
    this.state = whole.state;
    this.ownerKind = whole.ownerKind;
    this.hasMac = whole.hasMac;
    this.recordsFields = whole.recordsFields;
    this.json = JSON.stringify(whole.object);
  }

  get object(): IPAllocation {
    return this.#rows.objectOf(this);
  }
}
