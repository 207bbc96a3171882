import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { Change, Ledger, LedgerListener } from "./ledger.ts";
import type { AllocationRow, StaleSince, StreamEvents } from "./wire.ts";

/** Rows of one event: the page handles it in a few milliseconds, and can be used in between. */
const ROWS_OF_EVENT = 1_000;

/** Sends one reader everything that is there, then what changes, as server-sent events, until he goes. */
export async function stream(response: ServerResponse, ledger: Ledger, hello: StreamEvents["hello"]): Promise<void> {
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
