/**
 * Copies of one small state directory, each of its files with a fate of its own, and what SQLite itself reads from
 * them.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { RebuildRequiredError } from "../../store/journal/files/aside.ts";
import { openDatabase } from "../../store/journal/files/database-file.ts";
import { Notes } from "../../store/journal/files/notes.ts";
import { migrate } from "../../store/journal/migrations.ts";
import { isSound, rebuildFrom } from "../../store/journal/rebuild.ts";
import { SqliteStore } from "../../store/standalone/standalone-store.ts";
import { VirtualTime } from "../harness/virtual-time.ts";
import { want } from "../store/subjects.ts";

/** Where a sync costs nothing: no machine loses its power here. */
const MEMORY = "/dev/shm";
const BOOT = "boot-now";
const LOG = { info: () => {}, error: () => {} };
/** As the daemon has it: the file outside of the state directory. */
export const REMEMBERED = "remembered";
const DIRECTORY = "state";

export const NOTES = ["state/holdfast.answered", "state/holdfast.answered-copy", REMEMBERED] as const;
export const FILES = ["state/holdfast.db", "state/holdfast.db-wal", "state/holdfast.pages", ...NOTES] as const;
export type FileName = (typeof FILES)[number];
/**
 * `opening`: of the daemon's run before the last; `backup`: made by `holdfast backup` before the last requests, has a
 * database only.
 */
export const FATES = ["as it was", "missing", "empty", "older", "opening", "backup", "foreign"] as const;
export type Fate = (typeof FATES)[number];
/** `idle`: killed when the log had been copied and emptied. */
export const ENDINGS = ["closed", "killed", "idle"] as const;
export type Ending = (typeof ENDINGS)[number];
type Content = ReadonlyMap<FileName, Buffer>;

export interface Case {
  readonly ending: Ending;
  readonly isRebooted: boolean;
  readonly fates: ReadonlyMap<FileName, Fate>;
}

/** What a start came to; `rows`: a text with every row that was answered. */
export type Outcome =
  | { readonly kind: "started"; readonly rows: string }
  | { readonly kind: "refused"; readonly says: string; readonly command: string; readonly rows: string };

export class StateFiles {
  readonly #root: string;
  readonly #time = new VirtualTime(1);
  /** By ending and fate: each ending has moments of its own before it. */
  readonly #contents = new Map<string, Content>();
  readonly #found = new Map<string, unknown>();

  private constructor() {
    this.#root = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), "holdfast-files-"));
  }

  remove(): void {
    rmSync(this.#root, { recursive: true, force: true });
  }

  static async create(): Promise<StateFiles> {
    const files = new StateFiles();
    for (const ending of ENDINGS) await files.#live(ending);
    return files;
  }

  /** Another node's life, then two runs of a daemon, the second of which ends so. */
  async #live(ending: Ending): Promise<void> {
    const note = (fate: Fate, name: string = ending) =>
      this.#contents.set(`${ending} ${fate}`, contentOf(join(this.#root, name)));
    const other = await this.#open("foreign");
    await this.#add(other, "f", 30);
    note("foreign", "foreign");
    other.close();
    const first = await this.#open(ending);
    await this.#add(first, "a", 6);
    await this.#time.pass(7_000);
    first.close();
    note("opening");
    const store = await this.#open(ending);
    await this.#add(store, "b", 4);
    note("older");
    await store.backup(this.backup(ending));
    this.#contents.set(`${ending} backup`, new Map([["state/holdfast.db", readFileSync(this.backup(ending))]]));
    await this.#add(store, "c", 3);
    if (ending === "idle") await this.#time.pass(20_000);
    if (ending === "closed") store.close();
    note("as it was");
    store.close();
  }

  backup(ending: Ending): string {
    return join(this.#root, `${ending}.backup`);
  }

  async #open(name: string): Promise<SqliteStore> {
    const root = join(this.#root, name);
    mkdirSync(join(root, DIRECTORY), { recursive: true });
    const context = {
      clock: this.#time.clock(),
      node: name,
      bootId: BOOT,
      bootRecord: join(root, REMEMBERED),
      namespaceGone: () => false,
    };
    const store = new SqliteStore(join(root, DIRECTORY), context, LOG);
    await this.#time.run(store.open());
    return store;
  }

  async #add(store: SqliteStore, name: string, count: number): Promise<void> {
    for (let index = 0; index < count; index += 1) {
      const answer = await this.#time.run(store.attach(want(`${name}-${index}`, { ipam: { subnets: "10.0.0.0/16" } })));
      if (answer.kind !== "attached") throw new Error(JSON.stringify(answer));
    }
  }

  /** The bytes of a file with a fate; undefined: it is not there. */
  #bytes({ ending }: Case, name: FileName, fate: Fate): Buffer | undefined {
    if (fate === "missing") return undefined;
    if (fate === "empty") return Buffer.alloc(0);
    return this.#contents.get(`${ending} ${fate}`)?.get(name);
  }

  /** Whether its fate changes a file. */
  isChanged(one: Case, name: FileName): boolean {
    const [was, is] = [this.#bytes(one, name, "as it was"), this.#bytes(one, name, one.fates.get(name) as Fate)];
    return was === undefined || is === undefined ? was !== is : !was.equals(is);
  }

  /** Whether a file is there and has content. */
  has(one: Case, name: FileName): boolean {
    return (this.#bytes(one, name, one.fates.get(name) as Fate)?.length ?? 0) > 0;
  }

  /** A start over files with these fates, and where it is refused, the command that it names. */
  start(one: Case): Outcome {
    // The notes of a boot are of the directory of that path.
    const root = join(this.#root, one.ending);
    rmSync(root, { recursive: true, force: true });
    mkdirSync(join(root, DIRECTORY), { recursive: true });
    for (const [name, fate] of one.fates) {
      const bytes = name === REMEMBERED && one.isRebooted ? undefined : this.#bytes(one, name, fate);
      if (bytes !== undefined) writeFileSync(join(root, name), bytes);
    }
    const both = databaseOf(one);
    const clock = this.#time.clock();
    const notes = new Notes(join(root, DIRECTORY), {
      bootRecord: join(root, REMEMBERED),
      bootId: one.isRebooted ? "boot-next" : BOOT,
      log: LOG,
    });
    const open = () => {
      const file = openDatabase(join(root, DIRECTORY), {
        clock,
        notes,
        log: LOG,
        isRelaxed: false,
        migrate,
        isSound: (path) => this.#once(`${both} sound`, () => isSound(path, clock, { spend: () => {} })),
      });
      const rows = rowsOf(file.db);
      file.close();
      return rows;
    };
    try {
      return { kind: "started", rows: open() };
    } catch (error) {
      if (!(error instanceof RebuildRequiredError)) throw error;
      const { message, command } = error;
      const from = /^holdfast rebuild --from (\S+?),/.exec(command)?.[1] ?? "none";
      const backup = from === "BACKUP" ? this.backup(one.ending) : from;
      const rows = this.#once(`${both} rebuilt ${from === "BACKUP"}`, () => {
        rebuildFrom(join(root, DIRECTORY), backup, { clock, notes });
        return open();
      });
      return { kind: "refused", says: message, command, rows };
    }
  }

  /** What SQLite itself reads; null: it is no sound database. `withLog`: with the log beside it. */
  read(one: Case, { withLog }: { readonly withLog: boolean }): string | null {
    const bytes = (name: FileName) => this.#bytes(one, name, one.fates.get(name) as Fate);
    return this.#once(`${databaseOf(one)} read ${withLog}`, () =>
      this.#readBySqlite(bytes("state/holdfast.db"), withLog ? bytes("state/holdfast.db-wal") : undefined),
    );
  }

  /** What depends on nothing but the fates of database and log is found out once for each of them. */
  #once<T>(key: string, find: () => T): T {
    if (!this.#found.has(key)) this.#found.set(key, find());
    return this.#found.get(key) as T;
  }

  /** What was answered. */
  answered(one: Case): string {
    const whole = new Map(FILES.map((name) => [name, "as it was" as Fate]));
    return this.read({ ...one, fates: whole }, { withLog: true }) as string;
  }

  backedUp(one: Case): string {
    return this.read(
      { ...one, fates: new Map(FILES.map((name) => [name, "backup" as Fate])) },
      { withLog: false },
    ) as string;
  }

  #readBySqlite(file: Buffer | undefined, log: Buffer | undefined): string | null {
    const directory = join(this.#root, "read");
    rmSync(directory, { recursive: true, force: true });
    mkdirSync(directory);
    const path = join(directory, "any.db");
    if (file === undefined || file.length === 0) return null;
    writeFileSync(path, file);
    if (log !== undefined) writeFileSync(`${path}-wal`, log);
    const db = new Database(path);
    try {
      return db.pragma("integrity_check(1)", { simple: true }) === "ok" ? rowsOf(db) : null;
    } catch {
      return null;
    } finally {
      db.close();
    }
  }
}

function databaseOf({ ending, fates }: Case): string {
  return `${ending} ${fates.get("state/holdfast.db")} ${fates.get("state/holdfast.db-wal")}`;
}

function contentOf(root: string): Content {
  return new Map(
    FILES.filter((name) => existsSync(join(root, name))).map((name) => [name, readFileSync(join(root, name))]),
  );
}

/** Every row but how far the database is and what it was rebuilt from. */
function rowsOf(db: Database.Database): string {
  const tables = db
    .prepare<[], string>(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('progress', 'meta') ORDER BY name",
    )
    .pluck()
    .all();
  return JSON.stringify(tables.map((table) => [table, db.prepare(`SELECT * FROM ${table}`).raw().all()]));
}
