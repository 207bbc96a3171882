import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { join } from "node:path";
import type { Problem } from "../admin/following.ts";
import { type Clock, interval, type Timer } from "../platform/time.ts";
import { VERSION } from "../version.ts";
import { Ledger } from "./ledger.ts";
import type { Source } from "./source.ts";
import { stream } from "./stream.ts";
import { Visitors } from "./visitors.ts";

export const PORT_DEFAULT = 38_211;
/** Changes within so long reach the page together, ms. */
const FLUSH_MS = 100;
/** A comment on quiet streams, ms, so that a browser notices that the server is gone. */
const ALIVE_MS = 15_000;
const TOKEN_BYTES = 24;

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

/** The built page. */
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

/** Serves the page on the loopback, to whoever knows the token: docs/decisions/0072. */
export class PageServer {
  readonly #options: PageOptions;
  readonly #server: Server;
  readonly #ledger: Ledger;
  readonly #life = new AbortController();
  readonly #files = new Map<string, { readonly type: string; readonly content: Buffer }>();
  readonly #token: string;
  readonly #timers: readonly Timer[];
  #visitors: Visitors | null = null;
  #following: Promise<void> | null = null;

  constructor(options: PageOptions) {
    this.#options = options;
    this.#ledger = new Ledger(options.clock);
    this.#token = options.clock.randomBytes(TOKEN_BYTES).toString("base64url");
    for (const [name, type] of Object.entries(FILES))
      this.#files.set(name, { type, content: readFileSync(join(options.files, name)) });
    this.#server = createServer((request, response) => this.#answer(request, response));
    this.#timers = [
      interval(options.clock, FLUSH_MS, () => this.#ledger.flush()),
      interval(options.clock, ALIVE_MS, () => this.#ledger.alive()),
    ];
  }

  /** Resolves with the URL for the reader. Rejects with the error of the port. */
  async start(): Promise<string> {
    const { port, source } = this.#options;
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(port, "127.0.0.1", resolve);
    });
    const { port: used } = this.#server.address() as { port: number };
    this.#visitors = new Visitors(this.#token, used);
    this.#following = source.follow(this.#ledger, this.#life.signal);
    return `http://127.0.0.1:${used}/?t=${this.#token}`;
  }

  async stop(): Promise<void> {
    this.#life.abort();
    for (const timer of this.#timers) timer.cancel();
    this.#server.close();
    this.#server.closeAllConnections();
    await this.#following;
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value);
    const verdict = (this.#visitors as Visitors).judge(request);
    if (verdict.kind === "enter") {
      response.writeHead(303, { location: verdict.location, "set-cookie": verdict.cookie }).end();
      return;
    }
    if (verdict.kind === "refused") {
      response.writeHead(verdict.status, { "content-type": "text/plain; charset=utf-8" });
      response.end(`${verdict.message}\n`);
      return;
    }
    const { url } = verdict;
    if (url.pathname === "/stream") void this.#stream(response);
    else if (url.pathname.startsWith("/api/")) void this.#pass(url, response);
    else this.#file(url.pathname, response);
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
