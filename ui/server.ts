import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import type { NetworkWithClaims } from "../admin/admin-api.ts";
import type { Following, Problem } from "../admin/following.ts";
import type { AllocationView } from "../allocations/records.ts";
import { type Clock, interval, isoTime, type Timer } from "../platform/time.ts";
import { VERSION } from "../version.ts";
import { Loopback } from "./loopback.ts";
import type { Source } from "./source.ts";
import { Visitors } from "./visitors.ts";
import { type AllocationRow, rowOf, type StaleSince, type StreamEvents } from "./wire.ts";

export const PORT_DEFAULT = 38_211;
/** Changes within so long reach the page together, ms. */
const FLUSH_MS = 100;
/** A comment on quiet streams, ms, so that a browser notices that the server is gone. */
const ALIVE_MS = 15_000;
/** Rows of one event: the page handles it in a few milliseconds, and can be used in between. */
const ROWS_OF_EVENT = 1_000;
const TOKEN_BYTES = 24;
/** Of the name that no page can have had before. */
const NAME_BYTES = 8;

/** Nothing of another server, nothing inline. */
const HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-store",
};

const FILES: Readonly<Record<string, string>> = {
  "index.html": "text/html; charset=utf-8",
  "page.js": "text/javascript; charset=utf-8",
  "page.css": "text/css; charset=utf-8",
};

/** The questions that the page passes on: all of them only read. */
const QUESTIONS =
  /^\/v1\/(networks|networks\/[^/]+\/free|allocations|claims|history|places|check|status|doctor|owners)$/;

interface PageOptions {
  readonly clock: Clock;
  readonly source: Source;
  /** The directory with the built page. */
  readonly files: string;
  /** 0: any that is free. */
  readonly port: number;
}

/** Serves the page on the loopback, and its data to whoever knows the token: docs/decisions/0085. */
export class PageServer {
  readonly #options: PageOptions;
  readonly #ledger: Ledger;
  readonly #life = new AbortController();
  readonly #files = new Map<string, { readonly type: string; readonly content: Buffer }>();
  readonly #token: string;
  /**
   * Browsers know that names below `localhost` are this machine. A name of its own for each run makes an origin that no
   * other server can have had: what a page of an earlier one left in the browser (a service worker) would receive the
   * token.
   */
  readonly #name: string;
  /** Resolves when a page has brought the token. */
  readonly opened: Promise<void>;
  #open: () => void = () => {};
  readonly #timers: readonly Timer[];
  #loopback: Loopback | null = null;
  #visitors: Visitors | null = null;
  #following: Promise<void> | null = null;

  constructor(options: PageOptions) {
    this.#options = options;
    this.opened = new Promise((resolve) => {
      this.#open = resolve;
    });
    this.#ledger = new Ledger(options.clock);
    this.#token = options.clock.randomBytes(TOKEN_BYTES).toString("base64url");
    this.#name = `holdfast-${options.clock.randomBytes(NAME_BYTES).toString("hex")}.localhost`;
    for (const [name, type] of Object.entries(FILES))
      this.#files.set(name, { type, content: readFileSync(join(options.files, name)) });
    this.#timers = [
      interval(options.clock, FLUSH_MS, () => this.#ledger.flush()),
      interval(options.clock, ALIVE_MS, () => this.#ledger.alive()),
    ];
  }

  /** Resolves with the URL for the reader, who alone should see it. Rejects with the error of the port. */
  async start(): Promise<string> {
    const { port, source } = this.#options;
    this.#loopback = await Loopback.listen((request, response) => this.#answer(request, response), port);
    const { port: used } = this.#loopback;
    this.#visitors = new Visitors({ token: this.#token, host: this.#name, port: used });
    this.#following = source.follow(this.#ledger, this.#life.signal);
    return `http://${this.#name}:${used}/#t=${this.#token}`;
  }

  async stop(): Promise<void> {
    this.#life.abort();
    for (const timer of this.#timers) timer.cancel();
    this.#loopback?.close();
    await this.#following;
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value);
    const verdict = (this.#visitors as Visitors).judge(request);
    if (verdict.kind === "refused") {
      if (verdict.status === 401) response.setHeader("www-authenticate", "Bearer");
      response.writeHead(verdict.status, { "content-type": "text/plain; charset=utf-8" });
      response.end(`${verdict.message}\n`);
      return;
    }
    const { url } = verdict;
    if (verdict.kind === "data") this.#open();
    if (verdict.kind === "file") this.#file(url.pathname, response);
    else if (url.pathname === "/stream") void this.#stream(response);
    else void this.#pass(url, response);
  }

  async #stream(response: ServerResponse): Promise<void> {
    const { kind, from, node } = this.#options.source;
    await stream(response, this.#ledger, { kind, from, node, version: VERSION });
  }

  async #pass(url: URL, response: ServerResponse): Promise<void> {
    const path = url.pathname.slice("/api".length);
    if (!QUESTIONS.test(path)) return sendJson(response, 404, { message: `there is no ${path}`, hint: "" });
    try {
      sendJson(response, 200, await this.#options.source.get(path, Object.fromEntries(url.searchParams)));
    } catch (error) {
      const { message, hint = "" } = error as { message: string; hint?: string };
      sendJson(response, 502, { message, hint } satisfies Problem);
    }
  }

  /** The page is one document, whatever part of it the path names. */
  #file(path: string, response: ServerResponse): void {
    const name = path.slice(1);
    const { type, content } = (this.#files.get(name) ?? this.#files.get("index.html")) as {
      type: string;
      content: Buffer;
    };
    response.writeHead(200, { "content-type": type, "content-length": content.length }).end(content);
  }
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

/** Sends one reader everything that is there, then what changes, as server-sent events, until he goes. */
async function stream(response: ServerResponse, ledger: Ledger, hello: StreamEvents["hello"]): Promise<void> {
  const reader = new Reader(response);
  response.writeHead(200, { "content-type": "text/event-stream" });
  const leave = ledger.listen(reader);
  response.on("close", leave);
  reader.send("hello", JSON.stringify(hello));
  reader.networks(ledger.networksJson);
  if (ledger.sourceProblem !== null) reader.source(ledger.sourceProblem);
  // What changes meanwhile is sent too: a row may come twice, and the later one counts.
  let rows: string[] = [];
  for (const row of ledger.rows) {
    rows.push(row);
    if (rows.length < ROWS_OF_EVENT) continue;
    reader.rows(rows, []);
    rows = [];
    if (response.writableNeedDrain) await Promise.race([once(response, "drain"), once(response, "close")]);
    if (response.destroyed) return;
  }
  reader.rows(rows, []);
  if (ledger.isSynced) reader.synced(ledger.size);
}

class Reader implements LedgerListener {
  readonly #response: ServerResponse;

  constructor(response: ServerResponse) {
    this.#response = response;
  }

  send(event: keyof StreamEvents, json: string): void {
    if (!this.#response.destroyed) this.#response.write(`event: ${event}\ndata: ${json}\n\n`);
  }

  changed(changes: readonly Change[]): void {
    for (let from = 0; from < changes.length; from += ROWS_OF_EVENT) {
      const part = changes.slice(from, from + ROWS_OF_EVENT);
      const gone = part.filter(({ isThere }) => !isThere).map(({ row }) => placeOf(row));
      this.rows(
        part.filter(({ isThere }) => isThere).map(({ row }) => row),
        gone,
      );
    }
  }

  rows(rows: readonly string[], gone: readonly string[]): void {
    if (rows.length + gone.length > 0) this.send("rows", `{"rows":[${rows.join(",")}],"gone":[${gone.join(",")}]}`);
  }

  networks(json: string): void {
    this.send("networks", json);
  }

  synced(rows: number): void {
    this.send("synced", JSON.stringify({ rows }));
  }

  alive(): void {
    if (!this.#response.destroyed) this.#response.write(":\n\n");
  }

  source(problem: StaleSince | null): void {
    this.send("source", JSON.stringify(problem));
  }
}

/** Network and address of a row, as JSON. */
function placeOf(row: string): string {
  const [network, address] = JSON.parse(row) as AllocationRow;
  return JSON.stringify([network, address]);
}

/** The last row of an allocation, and whether the allocation is still there. */
interface Change {
  readonly row: string;
  readonly isThere: boolean;
}

interface LedgerListener {
  changed(changes: readonly Change[]): void;
  networks(json: string): void;
  synced(rows: number): void;
  source(problem: StaleSince | null): void;
  /** Nothing has happened for a while. */
  alive(): void;
}

/** Everything that the source has, as the page receives it: texts, of which 100,000 take 30 MB. */
class Ledger implements Following {
  readonly #rows = new Map<string, string>();
  readonly #listeners = new Set<LedgerListener>();
  #changes = new Map<string, Change>();
  #networks = "[]";
  #isSynced = false;
  #problem: StaleSince | null = null;
  readonly #clock: Clock;
  /** When the source answered last, ms of the wall clock. */
  #heardMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#heardMs = clock.wallMs();
  }

  /** What comes from now on; `rows` is what there is. Returns how to end it. */
  listen(listener: LedgerListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get rows(): Iterable<string> {
    return this.#rows.values();
  }

  get size(): number {
    return this.#rows.size;
  }

  get networksJson(): string {
    return this.#networks;
  }

  get isSynced(): boolean {
    return this.#isSynced;
  }

  get sourceProblem(): StaleSince | null {
    return this.#problem;
  }

  networks(items: readonly NetworkWithClaims[]): void {
    const json = JSON.stringify(items);
    if (json === this.#networks) return;
    this.#networks = json;
    for (const one of this.#listeners) one.networks(json);
  }

  rowOf(view: AllocationView): string {
    return JSON.stringify(rowOf(view));
  }

  upsert(name: string, row: string): void {
    if (this.#rows.get(name) === row) return;
    this.#rows.set(name, row);
    // Whoever comes before all is known is sent all in the end.
    if (this.#listeners.size > 0) this.#changes.set(name, { row, isThere: true });
  }

  gone(name: string): void {
    const row = this.#rows.get(name);
    if (row === undefined) return;
    this.#rows.delete(name);
    if (this.#listeners.size > 0) this.#changes.set(name, { row, isThere: false });
  }

  /** Readers hear of it once: from then on rows are news. */
  synced(): void {
    if (this.#isSynced) return;
    this.flush();
    this.#isSynced = true;
    for (const one of this.#listeners) one.synced(this.size);
  }

  problem(problem: Problem | null): void {
    if (problem === null) this.#heardMs = this.#clock.wallMs();
    const { message = null } = problem ?? {};
    if (message === (this.#problem?.message ?? null)) return;
    this.#problem = problem === null ? null : { ...problem, since: isoTime(this.#heardMs) };
    for (const one of this.#listeners) one.source(this.#problem);
  }

  alive(): void {
    for (const one of this.#listeners) one.alive();
  }

  flush(): void {
    if (this.#changes.size === 0) return;
    const changes = [...this.#changes.values()];
    this.#changes = new Map();
    for (const one of this.#listeners) one.changed(changes);
  }
}
