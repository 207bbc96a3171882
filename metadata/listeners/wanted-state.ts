import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { type Clock, randomUuid } from "../../platform/time.ts";
import { planAttachmentKey } from "./bridge-plan.ts";
import type { WantedListener, WantedListeners } from "./wire.ts";

interface Entry {
  /** The definition that it was computed from. */
  readonly definition: NetworkDefinition | undefined;
  readonly wanted: WantedListener | null;
  /** All but the attachments, to compare. */
  readonly frame: string;
  /** By attachment: its wanted form, and the number of the first state that had it. */
  readonly since: ReadonlyMap<string, { readonly text: string; readonly number: number }>;
}

/** The wanted listeners of all networks, renumbered at each change. */
export class WantedState {
  readonly #run: string;
  readonly #entries = new Map<string, Entry>();
  #number = 0;

  constructor(clock: Clock) {
    this.#run = randomUuid(clock);
  }

  get version(): string {
    return `${this.#run}.${this.#number}`;
  }

  get networks(): readonly string[] {
    return [...this.#entries.keys()];
  }

  /** In order of the networks' names. */
  get listeners(): WantedListeners {
    const wanted = [...this.#entries.values()].flatMap((entry) =>
      entry.wanted === null ? [] : [entry.wanted],
    );
    return { version: this.version, networks: wanted.sort((a, b) => (a.network < b.network ? -1 : 1)) };
  }

  /** The number in a version of this run; -1 for another's and for none. */
  numberOf(version: string | null): number {
    const prefix = `${this.#run}.`;
    return version?.startsWith(prefix) ? Number(version.slice(prefix.length)) : -1;
  }

  definitionOf(network: string): NetworkDefinition | undefined {
    return this.#entries.get(network)?.definition;
  }

  /** Since which state an attachment is wanted in this form; null: it is not. */
  since(network: string, key: string): number | null {
    return this.#entries.get(network)?.since.get(key)?.number ?? null;
  }

  put(network: string, definition: NetworkDefinition | undefined, wanted: WantedListener | null): void {
    const before = this.#entries.get(network);
    const { attachments = [], ...rest } = wanted ?? {};
    const frame = JSON.stringify(rest);
    const texts = attachments.map((one) => [planAttachmentKey(one), JSON.stringify(one)] as const);
    const same = ([key, text]: readonly [string, string]) => before?.since.get(key)?.text === text;
    const changed =
      frame !== (before?.frame ?? "{}") || texts.length !== (before?.since.size ?? 0) || !texts.every(same);
    if (changed) this.#number += 1;
    const number = this.#number;
    // With another bridge or address it is another listener: the old one's state does not count.
    const keep = frame === before?.frame;
    const since = new Map(
      texts.map(([key, text]) => {
        const known = before?.since.get(key);
        return [key, keep && known?.text === text ? known : { text, number }];
      }),
    );
    this.#entries.set(network, { definition, wanted, frame, since });
  }
}
