import { isDeepStrictEqual } from "node:util";
import type { Log } from "../platform/log.ts";
import type { Clock } from "../platform/time.ts";
import { LastChange } from "./last-change.ts";
import { leanView } from "./lean-view.ts";
import { fullNameOf } from "./object-names.ts";
import { TurnBudget } from "./turn-budget.ts";

/** What every projected object must have. `key` is the caller's own name for it, one of a kind among the items. */
export interface Reflected {
  readonly key: string;
  readonly uid: string;
  readonly resourceVersion: string;
}

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind; `project` makes something of them
export type KubeObject = any;

export interface ItemHooks<T extends Reflected> {
  /** The projection to be kept of an object; null: it is treated as if it did not exist. */
  readonly project: (object: KubeObject) => T | null;
  /** `previous` has the same UID and key. */
  readonly onUpsert: (item: T, previous: T | undefined) => void;
  readonly onDelete: (item: T) => void;
  /** After onDelete, where an event told of the deletion: the object as it was. Not for what a list no longer has. */
  readonly onDeletion?: (object: KubeObject) => void;
  readonly log: Pick<Log, "info" | "warn">;
}

/** The objects of a list so far: projections by object name. */
export type Listed<T> = Map<string, T>;

/** The objects of one resource as last known, with their listeners. Knows nothing of how they are read. */
export class ReflectedItems<T extends Reflected> {
  readonly items = new Map<string, T>();
  readonly #clock: Clock;
  readonly #hooks: ItemHooks<T>;
  readonly #byName = new Map<string, T>();
  /** Objects that could not be projected: each is logged once. */
  readonly #nonsense = new Set<string>();

  constructor(hooks: ItemHooks<T>, clock: Clock) {
    this.#clock = clock;
    this.#hooks = hooks;
  }

  /** Adds an object of a list, in place of what it said of that name before. */
  collect(into: Listed<T>, object: KubeObject): void {
    const name = fullNameOf(object);
    const item = this.#projected(name, object);
    if (item) into.set(name, item);
    else into.delete(name);
  }

  /** By a complete list: reports first what is gone, then what is new or changed. Ends early when aborted. */
  async replace(listed: Listed<T>, signal: AbortSignal): Promise<void> {
    const budget = new TurnBudget(this.#clock);
    for (const [name, known] of [...this.#byName]) {
      const next = listed.get(name);
      if (!next || !isSame(known, next)) this.#remove(name, known);
      if (budget.isSpent) await budget.nextTurn();
      if (signal.aborted) return;
    }
    for (const [name, item] of listed) {
      this.#put(name, item);
      if (budget.isSpent) await budget.nextTurn();
      if (signal.aborted) return;
    }
  }

  /** An ADDED or MODIFIED event. */
  upsert(object: KubeObject): void {
    const name = fullNameOf(object);
    const next = this.#projected(name, object);
    const known = this.#byName.get(name);
    if (known && (!next || !isSame(known, next))) this.#remove(name, known);
    if (next) this.#put(name, next);
  }

  /** A DELETED event. One about an earlier object of the same name is ignored. */
  delete(object: KubeObject): void {
    const name = fullNameOf(object);
    this.#nonsense.delete(name);
    const known = this.#byName.get(name);
    if (known?.uid !== object?.metadata?.uid || known === undefined) return;
    this.#remove(name, known);
    this.#tell(name, () => this.#hooks.onDeletion?.(object));
  }

  #put(name: string, item: T): void {
    const known = this.#byName.get(name);
    // A restored server gives versions a second time.
    if (known?.resourceVersion === item.resourceVersion && isDeepStrictEqual(known, item)) return;
    this.#byName.set(name, item);
    this.items.set(item.key, item);
    this.#tell(name, () => this.#hooks.onUpsert(item, known));
  }

  #remove(name: string, known: T): void {
    this.#byName.delete(name);
    if (this.items.get(known.key) === known) this.items.delete(known.key);
    this.#tell(name, () => this.#hooks.onDelete(known));
  }

  #projected(name: string, object: KubeObject): T | null {
    try {
      const item = leanView(this.#hooks.project(object));
      this.#nonsense.delete(name);
      return item;
    } catch (error) {
      if (!this.#nonsense.has(name))
        this.#hooks.log.warn(`${name} makes no sense and is left out: ${(error as Error).message}`);
      this.#nonsense.add(name);
      return null;
    }
  }

  /** A listener that throws has a defect; later changes must still be reported. */
  #tell(name: string, listener: () => void): void {
    try {
      listener();
    } catch (error) {
      this.#hooks.log.warn(`a change of ${name} was not dealt with: ${(error as Error).stack}`);
    }
  }
}

/** A list while it is being read: the projections so far, and the newest change that they contain. */
export class Listing<T extends Reflected> {
  readonly listed: Listed<T> = new Map();
  readonly #reflected: ReflectedItems<T>;
  #lastChange = new LastChange();

  constructor(reflected: ReflectedItems<T>) {
    this.#reflected = reflected;
  }

  get lastChange(): LastChange {
    return this.#lastChange;
  }

  add(object: KubeObject): void {
    this.#lastChange.note("ADDED", object);
    this.#reflected.collect(this.listed, object);
  }

  /** It was deleted while the list was being read. */
  remove(object: KubeObject): void {
    this.#lastChange.note("DELETED", object);
    this.listed.delete(fullNameOf(object));
  }

  /** Nothing that came so far counts. */
  restart(): void {
    this.#lastChange = new LastChange();
    this.listed.clear();
  }
}

function isSame(a: Reflected, b: Reflected): boolean {
  return a.uid === b.uid && a.key === b.key;
}
