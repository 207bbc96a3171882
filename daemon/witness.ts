import type { Logger } from "pino";
import type { Clock } from "../store/clock.ts";
import type { Attachment } from "../store/records.ts";
import type { SqliteStore } from "../store/sqlite/sqlite-store.ts";
import { namespaceState } from "./namespaces.ts";

/** Attachments looked at between two breaths of the event loop. */
const PAGE = 200;

/**
 * Ends attachments whose DEL was lost: a network namespace that this daemon saw and that has been gone for the whole
 * grace is ended as if by DEL. What was never seen, or cannot be looked at, is left alone.
 */
export class Witness {
  readonly #store: SqliteStore;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #graceMs: number;
  /** Attachment id → since when it has been seen to be gone. */
  #gone = new Map<number, number>();

  constructor(store: SqliteStore, clock: Clock, log: Logger, graceSeconds: number) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
    this.#graceMs = graceSeconds * 1_000;
  }

  /** One look at every attachment. Two looks, a grace apart, are needed to end one. */
  async look(): Promise<void> {
    const stillGone = new Map<number, number>();
    for (let after = 0; ; ) {
      const page = this.#store.attachmentsAfter(after, PAGE);
      for (const attachment of page) {
        if (namespaceState(attachment.netns) !== "gone") continue;
        const sinceMs = this.#gone.get(attachment.id) ?? this.#clock.monotonicMs();
        if (this.#clock.monotonicMs() - sinceMs < this.#graceMs) stillGone.set(attachment.id, sinceMs);
        else await this.#end(attachment);
      }
      const last = page[page.length - 1];
      if (!last) break;
      after = last.id;
      await new Promise((resolve) => setImmediate(resolve));
    }
    this.#gone = stillGone;
  }

  async #end(attachment: Attachment): Promise<void> {
    const { network, containerId, interface: name } = attachment;
    if (await this.#store.endAttachment(attachment, "namespace gone")) {
      this.#log.warn(
        { network, containerId, interface: name },
        "its network namespace is gone and no DEL came; ended",
      );
    }
  }
}
