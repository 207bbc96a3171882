import type { NetworkWithClaims } from "../../admin/admin-api.ts";
import type { Problem } from "../../admin/following.ts";
import type { Family } from "../pictures/addresses.ts";
import { parseAddress } from "../pictures/addresses.ts";
import type { AllocationRow, StaleSince, StreamEvents } from "../wire.ts";
import { readEvents } from "./server/events.ts";
import { fetchWithToken, forgetToken } from "./server/token.ts";
import { signal } from "./signal.ts";

/** An allocation, with what pages ask of each one again and again. */
export interface Entry {
  readonly row: AllocationRow;
  readonly family: Family;
  readonly value: bigint;
  /** Without the prefix length. */
  readonly plain: string;
  /** When it changed after everything had arrived, ms of performance.now(); 0: not since. */
  readonly changedMs: number;
  readonly connection: number;
}

export type Hello = StreamEvents["hello"];

/** While everything arrives, pages are drawn so often, ms; later at once. */
const DRAW_MS = 300;

/** What the page knows: all allocations and networks, as the stream brings them. */
export class Ledger {
  readonly hello = signal<Hello | null>(null);
  readonly networks = signal<readonly NetworkWithClaims[] | null>(null);
  readonly synced = signal(false);
  /** Why nothing new arrives; null: it does. */
  readonly problem = signal<StaleSince | null>(null);
  /** Counts up with each change of the allocations. */
  readonly version = signal(0);
  readonly #byNetwork = new Map<string, Map<string, Entry>>();
  readonly #versions = new Map<string, number>();
  #size = 0;
  #connection = 0;
  #isDrawing = false;

  get size(): number {
    return this.#size;
  }

  of(network: string): ReadonlyMap<string, Entry> {
    return this.#byNetwork.get(network) ?? new Map();
  }

  versionOf(network: string): number {
    return this.#versions.get(network) ?? 0;
  }

  *all(): Generator<Entry> {
    for (const entries of this.#byNetwork.values()) yield* entries.values();
  }

  /** A new connection: everything comes again, and what does not is gone. */
  begin(hello: Hello): void {
    this.#connection += 1;
    this.hello.value = hello;
    this.problem.value = null;
  }

  apply({ rows, gone }: StreamEvents["rows"]): void {
    const changedMs = this.synced.value ? performance.now() : 0;
    for (const row of rows) this.#put(row, changedMs);
    for (const [network, address] of gone) this.#remove(network, address);
    this.#draw();
  }

  complete(): void {
    for (const [network, entries] of this.#byNetwork)
      for (const [address, entry] of entries) if (entry.connection !== this.#connection) this.#remove(network, address);
    this.synced.value = true;
    this.version.value += 1;
  }

  #put(row: AllocationRow, changedMs: number): void {
    const [network, address] = row;
    const plain = address.slice(0, address.indexOf("/"));
    this.#versions.set(network, this.versionOf(network) + 1);
    let entries = this.#byNetwork.get(network);
    if (entries === undefined) {
      entries = new Map();
      this.#byNetwork.set(network, entries);
    }
    const known = entries.get(plain);
    const parsed = known ?? parseAddress(plain);
    if (parsed === null) return;
    if (known === undefined) this.#size += 1;
    // After a connection was lost everything comes again: only what is different has changed.
    const isSame = known !== undefined && JSON.stringify(known.row) === JSON.stringify(row);
    const { family, value } = parsed;
    const changed = isSame ? known.changedMs : changedMs;
    entries.set(plain, { row, family, value, plain, changedMs: changed, connection: this.#connection });
  }

  #remove(network: string, address: string): void {
    const plain = address.split("/")[0] ?? "";
    this.#versions.set(network, this.versionOf(network) + 1);
    if (this.#byNetwork.get(network)?.delete(plain)) this.#size -= 1;
  }

  #draw(): void {
    if (this.synced.value) {
      this.version.value += 1;
      return;
    }
    if (this.#isDrawing) return;
    this.#isDrawing = true;
    setTimeout(() => {
      this.#isDrawing = false;
      this.version.value += 1;
    }, DRAW_MS);
  }
}

const GONE: Problem = {
  message: "holdfast ui has ended, or cannot be reached",
  hint: "start holdfast ui again, and open the URL that it prints",
};
const UNKNOWN: Problem = {
  message: "this tab was not opened by the URL that holdfast ui printed, or that holdfast ui has ended",
  hint: "open the URL that it prints; start it again if it has ended",
};
/** After a connection has ended, ms. */
const AGAIN_MS = 2_000;
/** Another tab that knows the token has said so long before, ms. */
const TOKEN_MS = 1_000;

const APPLY: {
  readonly [Name in keyof StreamEvents]: (ledger: Ledger, value: StreamEvents[Name]) => void;
} = {
  hello: (ledger, hello) => ledger.begin(hello),
  networks: (ledger, networks) => {
    ledger.networks.value = networks;
  },
  rows: (ledger, rows) => ledger.apply(rows),
  synced: (ledger) => ledger.complete(),
  source: (ledger, problem) => {
    ledger.problem.value = problem;
  },
};

/** Fills the ledger from the stream, and connects again whenever it ends. */
export async function connect(ledger: Ledger): Promise<never> {
  for (;;) {
    const slow = setTimeout(() => report(ledger, UNKNOWN), TOKEN_MS);
    const response = await fetchWithToken("/stream").catch(() => null);
    clearTimeout(slow);
    if (response === null) report(ledger, GONE);
    else if (isStream(response)) await follow(ledger, response);
    else {
      // Who does not know it is not asked with it again and again.
      forgetToken();
      report(ledger, UNKNOWN);
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

function isStream({ ok, headers }: Response): boolean {
  return ok && headers.get("content-type") === "text/event-stream";
}

async function follow(ledger: Ledger, response: Response): Promise<void> {
  for await (const { event, data } of readEvents(response.body as ReadableStream<Uint8Array>)) {
    try {
      APPLY[event as keyof StreamEvents]?.(ledger, JSON.parse(data));
    } catch (error) {
      // What one event does wrong does not end the others.
      reportError(error);
    }
    await nextTask();
  }
  report(ledger, GONE);
}

/** What is shown has been old since the first failure. */
function report(ledger: Ledger, problem: Problem): void {
  if (ledger.problem.value?.message !== problem.message)
    ledger.problem.value = { ...problem, since: new Date().toISOString() };
}

/** A task for each event, so that the page can be used in between; a timer would wait, in the background for long. */
function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
