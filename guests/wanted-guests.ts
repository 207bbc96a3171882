import { type Attachment, type Guest, guestKey, guestOf, sameWanted } from "./guest.ts";
import { guestSpace, isSameSpace } from "./guest-space.ts";
import type { PortMemory } from "./port-memory.ts";
import type { FailedPort } from "./ports/wire.ts";

/** The guests that are wanted: those that can be served, by key, and those that cannot, wherever they are. */
export class WantedGuests {
  #fit: ReadonlyMap<string, Guest> = new Map();
  #unfit: readonly FailedPort[] = [];

  get fit(): ReadonlyMap<string, Guest> {
    return this.#fit;
  }

  get unfit(): readonly FailedPort[] {
    return this.#unfit;
  }

  get count(): number {
    return this.#fit.size + this.#unfit.length;
  }

  /** Returns the keys of those that are wanted no longer, or otherwise than before. */
  take(wanted: { readonly ports: readonly Attachment[] }): readonly string[] {
    const before = this.#fit;
    const fit = new Map<string, Guest>();
    const unfit: FailedPort[] = [];
    for (const port of wanted.ports) {
      const { containerId, interface: name } = port;
      const key = guestKey(port);
      const known = before.get(key);
      const guest = known !== undefined && sameWanted(known.wanted, port) ? known : guestOf(port);
      if ("kind" in guest) unfit.push({ ...guest, containerId, interface: name });
      else fit.set(key, guest);
    }
    this.#fit = fit;
    this.#unfit = unfit;
    return [...before].filter(([key, guest]) => fit.get(key) !== guest).map(([key]) => key);
  }
}

/** Whether a guest is in another namespace than the one in which its port was found. */
export function hasMoved(memory: PortMemory, key: string, { wanted }: Guest): boolean {
  const space = (memory.get(key) ?? memory.demoted(key))?.space ?? null;
  return space !== null && !isSameSpace(space, guestSpace(wanted.netns));
}
