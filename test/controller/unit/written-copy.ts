import type { ChangeListener, ChangingCache } from "../../../claims/reasons/facts.ts";

interface Versioned {
  readonly uid?: string;
  readonly resourceVersion?: string;
}

/** A copy that a test writes, and that reports its changes as one that is followed does. */
export class WrittenCopy<T extends object> implements ChangingCache<T> {
  readonly items: Map<string, T>;
  known = true;
  readonly #listeners: ChangeListener<T>[] = [];

  constructor(items = new Map<string, T>()) {
    this.items = items;
  }

  onChange(listener: ChangeListener<T>): void {
    this.#listeners.push(listener);
  }

  set(key: string, item: T): void {
    const before = this.items.get(key) ?? null;
    if (before !== null && (before as Versioned).uid !== (item as Versioned).uid) {
      this.delete(key);
      this.set(key, item);
      return;
    }
    this.items.set(key, item);
    this.#report(item, before);
  }

  delete(key: string): void {
    const before = this.items.get(key);
    this.items.delete(key);
    if (before !== undefined) this.#report(null, before);
  }

  /** Takes over what is there now; what has the version that it had is not reported. */
  replace(items: ReadonlyMap<string, T>): void {
    for (const key of [...this.items.keys()]) if (!items.has(key)) this.delete(key);
    for (const [key, item] of items) {
      const { uid, resourceVersion } = (this.items.get(key) ?? {}) as Versioned;
      const next = item as Versioned;
      if (uid === undefined || uid !== next.uid || resourceVersion !== next.resourceVersion) this.set(key, item);
    }
  }

  #report(now: T | null, before: T | null): void {
    for (const listener of this.#listeners) listener(now, before);
  }
}
