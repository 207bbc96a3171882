import { copyOf, type KubeObject } from "./objects.ts";

/** One write. `object` of a deletion is what was there, with the revision of its deletion. */
export interface Change {
  readonly revision: number;
  /** Of the resource, see Resource.storage. */
  readonly storage: string;
  /** `namespace/name`, or the name alone. */
  readonly key: string;
  readonly object: KubeObject;
  /** What was there before; null: it is new. */
  readonly previous: KubeObject | null;
  readonly deleted: boolean;
}

export interface Entry {
  readonly key: string;
  readonly object: KubeObject;
}

interface Version {
  readonly revision: number;
  /** null: deleted. */
  readonly object: KubeObject | null;
}

/** What a backup holds. */
export interface Saved {
  readonly revision: number;
  readonly objects: readonly (Entry & { readonly storage: string })[];
}

/** A read of a revision that is no longer kept. */
export class Compacted extends Error {
  override readonly name = "Compacted";
}

/**
 * The store behind the API server: one counter of revisions for everything, and every version of every object since the
 * last compaction, so that a list can be read as of an earlier revision. Objects in here are never changed: whoever
 * hands one out copies it.
 */
export class Etcd {
  readonly #tables = new Map<string, Map<string, Version[]>>();
  readonly #listeners = new Set<(change: Change) => void>();
  #revision = 1;
  #compacted = 0;
  #restores = 0;

  get revision(): number {
    return this.#revision;
  }

  /** Revisions before this one are forgotten. */
  get compacted(): number {
    return this.#compacted;
  }

  /** How often it has gone back to what was saved. */
  get restores(): number {
    return this.#restores;
  }

  /** Called at each write, in order. */
  listen(listener: (change: Change) => void): void {
    this.#listeners.add(listener);
  }

  get(storage: string, key: string): KubeObject | null {
    return this.#tables.get(storage)?.get(key)?.at(-1)?.object ?? null;
  }

  /**
   * Of the keys that begin with `prefix` what is there now, or was at a revision, in the order of the keys. Throws
   * Compacted.
   */
  range(storage: string, prefix: string, revision = this.#revision): Entry[] {
    if (revision < this.#compacted) throw new Compacted();
    const found: Entry[] = [];
    for (const [key, versions] of this.#tables.get(storage) ?? []) {
      if (!key.startsWith(prefix)) continue;
      const object = versions.findLast((version) => version.revision <= revision)?.object;
      if (object) found.push({ key, object });
    }
    return found.sort((a, b) => (a.key < b.key ? -1 : 1));
  }

  /** The revision of the last write of a resource; 0: nothing is kept of any. */
  newestOf(storage: string): number {
    const versions = [...(this.#tables.get(storage)?.values() ?? [])];
    return Math.max(0, ...versions.map((ofKey) => ofKey.at(-1)?.revision ?? 0));
  }

  /** Writes an object and returns it with its resourceVersion. */
  put(storage: string, key: string, object: KubeObject): KubeObject {
    return this.#write(storage, key, object, false);
  }

  /** Returns what was there with the resourceVersion of its deletion. */
  delete(storage: string, key: string): KubeObject {
    return this.#write(storage, key, this.get(storage, key), true);
  }

  /** A write of something that nobody here reads: only the revision grows. */
  bump(revisions = 1): void {
    this.#revision += revisions;
  }

  /** Forgets every version before a revision that was not the newest then. */
  compact(revision = this.#revision): void {
    this.#compacted = Math.max(this.#compacted, revision);
    for (const table of this.#tables.values()) {
      for (const [key, versions] of table) {
        const newest = versions.findLastIndex((version) => version.revision <= revision);
        if (newest > 0) versions.splice(0, newest);
        if (versions.length === 1 && versions[0]?.object === null) table.delete(key);
      }
    }
  }

  save(): Saved {
    const objects = [...this.#tables].flatMap(([storage, table]) =>
      [...table].flatMap(([key, versions]) => {
        const object = versions.at(-1)?.object;
        return object ? [{ storage, key, object }] : [];
      }),
    );
    return { revision: this.#revision, objects };
  }

  /** Goes back to what was saved; with `bumped`, at a revision so much newer. Nobody who listens hears of it. */
  restore({ revision, objects }: Saved, bumped = 0): void {
    this.#tables.clear();
    for (const { storage, key, object } of objects) {
      const version = { revision: Number(object.metadata.resourceVersion), object };
      this.#table(storage).set(key, [version]);
    }
    this.#revision = revision + bumped;
    this.#compacted = revision;
    this.#restores += 1;
  }

  #write(storage: string, key: string, object: KubeObject, deleted: boolean): KubeObject {
    const table = this.#table(storage);
    const versions = table.get(key) ?? [];
    const previous = versions.at(-1)?.object ?? null;
    this.#revision += 1;
    const written = copyOf(object);
    written.metadata.resourceVersion = `${this.#revision}`;
    versions.push({ revision: this.#revision, object: deleted ? null : written });
    table.set(key, versions);
    const change = { revision: this.#revision, storage, key, object: written, previous, deleted };
    for (const listener of this.#listeners) listener(change);
    return written;
  }

  #table(storage: string): Map<string, Version[]> {
    const known = this.#tables.get(storage);
    if (known) return known;
    const table = new Map<string, Version[]>();
    this.#tables.set(storage, table);
    return table;
  }
}
