import type { Address } from "../ipam/space/address.ts";

export type State = "free" | "allocated" | "retained" | "cooling";

/** What this process has seen of one address since the picture was taken. */
export interface Note {
  readonly address: Address;
  /** null: there is no object. */
  readonly owner: string | null;
  readonly state: State;
  /** "": not known. */
  readonly resourceVersion: string;
  /** When this cool-down was first seen here, ms of the monotonic clock. */
  readonly coolingSinceMs: number;
}

/** Notes by the text of their address. Where no controller publishes, every address of a node is noted. */
export class Notes {
  readonly #notes = new Map<string, Note>();
  readonly #byOwner = new Map<string, Map<string, Address>>();

  get(text: string): Note | undefined {
    return this.#notes.get(text);
  }

  has(text: string): boolean {
    return this.#notes.has(text);
  }

  entries(): Iterable<[string, Note]> {
    return this.#notes.entries();
  }

  values(): Iterable<Note> {
    return this.#notes.values();
  }

  ofOwner(uid: string): Iterable<Address> {
    return this.#byOwner.get(uid)?.values() ?? [];
  }

  set(text: string, note: Note): void {
    this.delete(text);
    this.#notes.set(text, note);
    const { owner, address } = note;
    if (owner === null) return;
    const own = this.#byOwner.get(owner);
    if (own) own.set(text, address);
    else this.#byOwner.set(owner, new Map([[text, address]]));
  }

  delete(text: string): void {
    const owner = this.#notes.get(text)?.owner ?? null;
    this.#notes.delete(text);
    const own = owner === null ? undefined : this.#byOwner.get(owner);
    own?.delete(text);
    if (owner !== null && own?.size === 0) this.#byOwner.delete(owner);
  }
}
