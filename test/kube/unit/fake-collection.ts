import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import { type Handler, json } from "./fake-api.ts";

export interface FakeObject {
  readonly metadata: { readonly name: string; readonly uid: string; readonly resourceVersion: string };
  readonly data: unknown;
}

interface Change {
  readonly version: number;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly object: FakeObject;
}

/** A resource with versions, pages and watches, as an API server keeps it. `handler` is for a FakeApi. */
export class FakeCollection {
  readonly objects = new Map<string, FakeObject>();
  lists = 0;
  watches = 0;
  /** Versions up to this one are forgotten: who watches from before hears 410. */
  compactedTo = 0;
  /** Versions are strings of this. */
  version = 100;
  readonly open = new Set<ServerResponse>();
  readonly #changes: Change[] = [];

  put(name: string, data: unknown = {}): FakeObject {
    const known = this.objects.get(name);
    this.version += 1;
    const metadata = {
      name,
      uid: known?.metadata.uid ?? randomUUID(),
      resourceVersion: String(this.version),
    };
    const object = { metadata, data };
    this.objects.set(name, object);
    this.#change(known ? "MODIFIED" : "ADDED", object);
    return object;
  }

  remove(name: string): void {
    const known = this.objects.get(name);
    if (!known) return;
    this.objects.delete(name);
    this.version += 1;
    const metadata = { ...known.metadata, resourceVersion: String(this.version) };
    this.#change("DELETED", { ...known, metadata });
  }

  bookmark(): void {
    for (const answer of this.open)
      this.#send(answer, "BOOKMARK", { metadata: { resourceVersion: String(this.version) } });
  }

  /** Sends an event that the collection does not know of. */
  forge(type: string, object: unknown): void {
    for (const answer of this.open) this.#send(answer, type, object);
  }

  compact(): void {
    this.compactedTo = this.version;
  }

  endWatches(): void {
    for (const answer of this.open) answer.end();
    this.open.clear();
  }

  /** Keeps the watches open and never writes to them again. */
  silence(): void {
    this.open.clear();
  }

  readonly handler: Handler = (asked, answer) => {
    if (asked.query.has("watch")) this.#watch(Number(asked.query.get("resourceVersion")), answer);
    else this.#list(asked.query, answer);
  };

  #list(query: URLSearchParams, answer: ServerResponse): void {
    this.lists += 1;
    const all = [...this.objects.values()];
    const from = Number(query.get("continue") ?? 0);
    const to = from + Number(query.get("limit") ?? all.length);
    const next = to < all.length ? String(to) : "";
    json(answer, 200, {
      kind: "List",
      items: all.slice(from, to),
      metadata: { resourceVersion: String(this.version), continue: next },
    });
  }

  #watch(from: number, answer: ServerResponse): void {
    this.watches += 1;
    if (from < this.compactedTo) {
      json(answer, 410, {
        kind: "Status",
        code: 410,
        reason: "Expired",
        message: `too old resource version: ${from} (${this.compactedTo})`,
      });
      return;
    }
    answer.writeHead(200, { "content-type": "application/json" });
    answer.flushHeaders();
    for (const { version, type, object } of this.#changes) if (version > from) this.#send(answer, type, object);
    this.open.add(answer);
    answer.once("close", () => this.open.delete(answer));
  }

  #change(type: Change["type"], object: FakeObject): void {
    this.#changes.push({ version: this.version, type, object });
    for (const answer of this.open) this.#send(answer, type, object);
  }

  #send(answer: ServerResponse, type: string, object: unknown): void {
    answer.write(`${JSON.stringify({ type, object })}\n`);
  }
}
