import { isoTime } from "../../../platform/time.ts";
import type { AttachParts } from "../parts/attach-parts.ts";
import { type NodeObject, noteNodeObject } from "./node-object.ts";

/** Marks the networks on which something was missing: the first at once, and all of them at the end. */
export class Missing {
  readonly #parts: AttachParts;
  readonly #unrestored: Set<string>;
  readonly #node: NodeObject;
  readonly #isRestored: boolean;
  freedWithNode = false;
  readonly #counts = new Map<string, number>();
  readonly #sent = new Map<string, Promise<void>>();

  /** `isRestored`: the API server may have been restored; otherwise no address but the missing ones is in doubt. */
  constructor(
    parts: AttachParts,
    {
      unrestored,
      node,
      isRestored,
    }: { readonly unrestored: Set<string>; readonly node: NodeObject; readonly isRestored: boolean },
  ) {
    this.#parts = parts;
    this.#node = node;
    this.#isRestored = isRestored;
    this.#unrestored = unrestored;
  }

  /** Notes an address that is about to be restored. One that was refused before has been noted then. */
  async noteAddress(network: string, address: string): Promise<void> {
    const key = `${network} ${address}`;
    if (this.#unrestored.has(key)) return;
    this.#unrestored.add(key);
    try {
      await this.note(network);
    } catch (error) {
      this.#unrestored.delete(key);
      throw error;
    }
  }

  /** Everything is compared: from now on the journal is this Node's. */
  noteNode(): Promise<void> {
    return noteNodeObject(this.#node, this.#parts.directory);
  }

  putBack(network: string, address: string): void {
    this.#unrestored.delete(`${network} ${address}`);
  }

  async note(network: string): Promise<void> {
    this.freedWithNode ||= this.#node.isNew;
    if (this.#node.isNew || !this.#isRestored) return;
    this.#counts.set(network, (this.#counts.get(network) ?? 0) + 1);
    const sent = this.#sent.get(network) ?? this.#tell(network, "its allocations are missing");
    this.#sent.set(network, sent);
    await sent;
  }

  /** Marks again: the recovery of the network counts from this mark. */
  async finish(): Promise<void> {
    for (const [network, count] of this.#counts) await this.#tell(network, `it has put back ${count}`);
  }

  #tell(network: string, what: string): Promise<void> {
    const { context, continuity } = this.#parts;
    return continuity.missing(network, `node ${context.node}, ${isoTime(context.clock.wallMs())}: ${what}`);
  }
}
