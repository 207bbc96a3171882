import type { Log } from "../../platform/log.ts";
import { Notifier } from "../../platform/notifier.ts";
import type { Clock, Timer } from "../../platform/time.ts";
import { errorText, OvsdbConnection, OvsdbError } from "./ovsdb-connection.ts";
import { type Columns, type Row, readRow } from "./ovsdb-values.ts";

/** Pause before the connection is tried again, ms: doubled each time. */
const CONNECT_MS_MIN = 100;
const CONNECT_MS_MAX = 5_000;
/** What a connection says when no server is there: a node without that database is nothing to warn of. */
const NOBODY_THERE: readonly (string | undefined)[] = ["ENOENT", "ECONNREFUSED"];

/** Tables of a database that are followed, and the columns of each. */
export type Tables = Readonly<Record<string, Columns>>;

/** Rows of a table by their UUID. */
export type Rows<C extends Columns> = ReadonlyMap<string, Row<C>>;

/** An operation of a transaction (RFC 7047, section 5.2). */
export type OvsdbOperation = { readonly op: string } & Readonly<Record<string, unknown>>;

/** Result of an operation: of an insert `uuid`, of a change the number of rows, of a select `rows`. */
export interface OvsdbResult {
  readonly uuid?: readonly ["uuid", string];
  readonly count?: number;
  readonly rows?: readonly Readonly<Record<string, unknown>>[];
}

export interface OvsdbClientOptions<T extends Tables> {
  /** Path of the server's unix socket; it need not be there yet. */
  readonly socket: string;
  /** `Open_vSwitch`, `OVN_Northbound` */
  readonly database: string;
  readonly tables: T;
  /** Rows of a table that are kept in the copy; default: all. */
  readonly keep?: { readonly [Name in keyof T]?: (row: Row<T[Name]>) => boolean };
  readonly clock: Clock;
  readonly log: Log;
  /** Called after each change of rows, and when the connection was lost or is there again. */
  readonly changed: () => void;
}

/** A copy of tables of an OVSDB database (RFC 7047), as of the last contact. A lost connection is made again. */
export class OvsdbClient<T extends Tables> {
  readonly #options: OvsdbClientOptions<T>;
  readonly #contacts: Notifier;
  #tables: Map<keyof T, Map<string, Row<Columns>>>;
  #connection: OvsdbConnection | null = null;
  #timer: Timer | null = null;
  #connected = false;
  /** Has an attempt to connect succeeded or failed? */
  #attempted = false;
  #closed = false;
  #awayMs = CONNECT_MS_MIN;
  #lastProblem = "";

  constructor(options: OvsdbClientOptions<T>) {
    this.#options = options;
    this.#contacts = new Notifier(options.clock);
    this.#tables = this.#emptyTables();
  }

  /** Connects, and again whenever the connection is lost. */
  start(): void {
    this.#connect();
  }

  close(): void {
    this.#closed = true;
    this.#connected = false;
    this.#timer?.cancel();
    this.#connection?.end();
    this.#contacts.close();
  }

  /** Are the rows those that are in the database now? */
  get connected(): boolean {
    return this.#connected;
  }

  /** Waits for a connection, or for so long. Resolves with whether there is one. */
  async contact(waitMs: number): Promise<boolean> {
    await this.#contacts.until(() => this.#connected, waitMs);
    return this.#connected;
  }

  /** Waits until the first attempt to connect has succeeded or failed, or for so long. */
  attempt(waitMs: number): Promise<void> {
    return this.#contacts.until(() => this.#attempted, waitMs);
  }

  /** As of the last contact; empty before the first. */
  rows<Name extends keyof T>(table: Name): Rows<T[Name]> {
    return this.#tables.get(table) as unknown as Rows<T[Name]>;
  }

  /** All or none. Rejects with an OvsdbError: one failed, no connection; if it was lost meanwhile, nobody knows. */
  transact(operations: readonly OvsdbOperation[]): Promise<readonly OvsdbResult[]> {
    return new Promise((resolve, reject) => {
      if (this.#connection === null || !this.#connected) {
        reject(new OvsdbError(`there is no connection to ${this.#options.socket}`));
        return;
      }
      const take = (answer: unknown) => {
        const results = answer as readonly (OvsdbResult & { readonly error?: string })[];
        // One more than there are operations when the commit itself failed.
        const failed = results.find((result) => result?.error);
        if (failed === undefined) resolve(results);
        else reject(new OvsdbError(errorText(failed)));
      };
      this.#connection.call("transact", [this.#options.database, ...operations], take, reject);
    });
  }

  #connect(): void {
    const connection = new OvsdbConnection(this.#options.socket, this.#options.clock, {
      opened: () => this.#monitor(connection),
      notified: (method, params) => {
        if (method !== "update") return;
        this.#apply((params as readonly unknown[])[1], this.#tables);
        this.#options.changed();
      },
      closed: (error) => this.#lost(error),
    });
    this.#connection = connection;
  }

  #monitor(connection: OvsdbConnection): void {
    const { database, tables } = this.#options;
    const requests = Object.entries(tables).map(([table, columns]) => [table, { columns: Object.keys(columns) }]);
    const take = (state: unknown) => {
      const fresh = this.#emptyTables();
      this.#apply(state, fresh);
      this.#tables = fresh;
      this.#connected = true;
      this.#attempted = true;
      this.#awayMs = CONNECT_MS_MIN;
      this.#lastProblem = "";
      this.#options.log.info({ socket: this.#options.socket, database }, "connected to the OVSDB server");
      this.#contacts.notify();
      this.#options.changed();
    };
    const fail = (error: Error) => connection.end(error);
    connection.call("monitor", [database, null, Object.fromEntries(requests)], take, fail);
  }

  /** `<table-updates>` of RFC 7047, section 4.1.6: `new` has all the columns; without it the row is gone. */
  #apply(updates: unknown, onto: Map<keyof T, Map<string, Row<Columns>>>): void {
    type Updates = Record<string, Record<string, { new?: Record<string, unknown> }>>;
    for (const [table, changes] of Object.entries(updates as Updates)) {
      const rows = onto.get(table);
      const columns = this.#options.tables[table];
      if (rows === undefined || columns === undefined) continue;
      const keep = (this.#options.keep?.[table] ?? (() => true)) as (row: Row<Columns>) => boolean;
      for (const [uuid, { new: values }] of Object.entries(changes)) {
        const row = values === undefined ? null : readRow(columns, values);
        if (row !== null && keep(row)) rows.set(uuid, row);
        else rows.delete(uuid);
      }
    }
  }

  #emptyTables(): Map<keyof T, Map<string, Row<Columns>>> {
    return new Map(Object.keys(this.#options.tables).map((table) => [table, new Map()]));
  }

  #lost(error: NodeJS.ErrnoException | null): void {
    const wasConnected = this.#connected;
    this.#connected = false;
    this.#connection = null;
    this.#attempted = true;
    this.#contacts.notify();
    if (this.#closed) return;
    const { socket, log, clock, changed } = this.#options;
    const problem = error?.message ?? "the server closed it";
    if (wasConnected) log.warn({ socket, problem }, "the connection to the OVSDB server is lost; it is tried again");
    else if (!NOBODY_THERE.includes(error?.code) && problem !== this.#lastProblem) {
      log.warn({ socket, problem }, "the OVSDB server cannot be used; it is tried again");
      this.#lastProblem = problem;
    }
    this.#timer = clock.timer(this.#awayMs, () => this.#connect());
    this.#awayMs = Math.min(2 * this.#awayMs, CONNECT_MS_MAX);
    if (wasConnected) changed();
  }
}
