import { LastChange } from "./last-change.ts";
import { fullNameOf } from "./object-names.ts";
import type { KubeObject, Listed, Reflected, ReflectedItems } from "./reflected-items.ts";

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
