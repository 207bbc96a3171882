/*
 * store/journal/: this node's SQLite file, the same for both kinds of store
 *
 *   state-directory     the directory in use: opened, closed, reopened after a fault; files/: what became of its files
 *   migrations, statements, rows   the schema and its queries
 *   ledger, load     the rows in memory; group-commit: many requests, one sync
 *   uses, attachment-*, holdings, end-attachment   what is taken, held and given back
 *   former-boots, housekeeping, rebuild, replace      restarts, pruning, backups
 *   host-local, lease-rows   what host-local allocated
 *   journal-reader, views, check   what operators see
 */

import { RefusalError, refuse } from "../../ipam/refusals.ts";
import type { Timer } from "../../platform/time.ts";
import { StorageAway, type StorageFault } from "../allocations.ts";
import type { NodeContext, StoreLog } from "../node-context.ts";
import type { StoreStatus } from "../node-store.ts";
import { checkDatabase } from "./check.ts";
import { RebuildRequiredError } from "./files/aside.ts";
import { isDamage, openDatabase } from "./files/database-file.ts";
import { DiskReserve, isDiskFull } from "./files/disk-reserve.ts";
import { FileWatch } from "./files/file-watch.ts";
import { Notes } from "./files/notes.ts";
import type { OpenDatabase, OpenOptions } from "./files/open-database.ts";
import { BOOT, isOfThisNode, noteNode, settleFormerBoots } from "./former-boots.ts";
import { GroupCommit, type Transaction } from "./group-commit.ts";
import { Ledger } from "./ledger.ts";
import { loadNetworks } from "./load.ts";
import { migrate } from "./migrations.ts";
import { isSound, noteRebuilt, rebuildFrom, replaceSound } from "./rebuild.ts";
import { replacementOf } from "./replace.ts";
import { RowIds } from "./rows.ts";

/** Pause before another attempt to reopen the database, ms. */
const REOPEN_PAUSE_MS = 1_000;

/** A state directory in use: its database, reopened after a fault. While there is none, its users get a StorageAway. */
export class StateDirectory {
  readonly path: string;
  readonly #context: NodeContext;
  readonly #log: StoreLog;
  readonly #reserve: DiskReserve;
  readonly #options: OpenOptions;
  readonly #journalOnly: boolean;
  readonly #ids = new RowIds();
  #status: StoreStatus = { kind: "opening" };
  statusChanged = () => {};
  #ledger: Ledger | null = null;
  #file: OpenDatabase | null = null;
  #watch: FileWatch | null = null;
  #commits: GroupCommit | null = null;
  #reopenTimer: Timer | null = null;
  readonly #attachmentWatchers: ((network: string | null) => void)[] = [];
  /** Networks whose attachments the transaction under way, or one that failed, has changed. */
  readonly #touched = new Set<string>();

  /**
   * `journalOnly`: the truth is elsewhere. Attachments of earlier boots are not ended here, because the API knows
   * better; a damaged database is put aside and a new one begun without asking; and commits survive the end of the
   * process but not a power failure, because only checkpoints are synced: from `relaxSync` on. See docs/decisions/0081.
   */
  constructor(
    directory: string,
    context: NodeContext,
    log: StoreLog,
    { journalOnly = false }: { readonly journalOnly?: boolean } = {},
  ) {
    this.#journalOnly = journalOnly;
    this.path = directory;
    this.#context = context;
    this.#log = log;
    this.#reserve = new DiskReserve(directory);
    const { bootRecord = null, bootId, clock } = context;
    const notes = new Notes(directory, { bootRecord, bootId, log });
    this.#options = {
      clock,
      log,
      notes,
      isRelaxed: journalOnly,
      migrate,
      isSound: (path) => isSound(path, clock, this.#reserve),
    };
  }

  get status(): StoreStatus {
    const reason = this.#watch?.displaced ?? (this.#status.kind === "ready" ? this.whyFull : null);
    return reason === null ? this.#status : { kind: "faulted", reason, isReopening: false };
  }

  #become(status: StoreStatus): void {
    this.#status = status;
    this.statusChanged();
  }

  /**
   * Opens the database, loads what memory needs and ends attachments of earlier boots; reads and writes wait for that.
   * Throws when another daemon has the directory or it cannot be used at all; nothing is left open then.
   */
  async open(): Promise<void> {
    let file: OpenDatabase;
    try {
      file = this.#openDatabase();
    } catch (error) {
      if (!(error instanceof RebuildRequiredError)) throw error;
      return this.#waitForRebuild(error);
    }
    try {
      const ledger = new Ledger(file.db, this.#context, (network) => this.#touched.add(network), this.#ids);
      if (this.#journalOnly && !isOfThisNode(ledger)) {
        this.#beginAnew(file);
        return this.open();
      }
      const commits = new GroupCommit(file.db, this.#context, (fault) => this.#onFault(fault), {
        before: () => file.count(),
        after: () => this.#onCommit(file),
      });
      if (this.#journalOnly) await commits.submit(() => noteNode(ledger));
      await loadNetworks(ledger, (message) => this.#log.error(message));
      if (!this.#journalOnly) await settleFormerBoots(ledger, commits, this.#log);
      if (this.#status.kind === "closed") throw new StorageAway(this.#unavailable());
      this.#ledger = ledger;
      this.#file = file;
      this.#watch = this.#watchOf(file);
      this.#commits = commits;
      this.relaxSync();
      this.#become({ kind: "ready" });
      for (const changed of this.#attachmentWatchers) changed(null);
    } catch (error) {
      this.#close(file);
      throw error;
    }
  }

  #waitForRebuild({ message, command }: RebuildRequiredError): Promise<void> | undefined {
    if (this.#journalOnly) {
      this.#log.error(`${message}; a new journal is begun, and the history is lost`);
      rebuildFrom(this.path, null, this.#options);
      return this.open();
    }
    const reason = `${message}; ADD is refused until it is rebuilt: ${command}`;
    this.#become({ kind: "rebuild-required", reason });
    this.#log.error(reason);
    return undefined;
  }

  #watchOf(file: OpenDatabase): FileWatch {
    return new FileWatch(file, this.#context.clock, this.#log, {
      displaced: () => this.statusChanged(),
      meddled: (why) => this.#reopenAfter(`${why}; the state database is compared with what was answered`),
      failed: (error, isDamage) => {
        if (!isDamage) return this.#reopenAfter(`the state database cannot be written: ${(error as Error).message}`);
        this.#ledger = this.#file = this.#watch = this.#commits = null;
        const aside = file.putAside(error as Error);
        void this.#reopen(() => this.#waitForRebuild(aside));
      },
    });
  }

  /**
   * A journal that has recorded what the API knows of this boot loses nothing with its end that the next boot would not
   * learn. One that has not yet waits for each sync: a DEL that comes to it before finds no attachment, and nothing but
   * what is remembered of it tells the recovery after a power failure that the container is gone.
   */
  relaxSync(): void {
    if (!this.#journalOnly || !this.#ledger) return;
    const { db, sql, context } = this.#ledger;
    if (sql.meta.get(BOOT)?.value === context.bootId) db.pragma("synchronous = NORMAL");
  }

  #beginAnew(file: OpenDatabase): void {
    this.#close(file);
    const kept = replaceSound(this.path, null, this.#options);
    this.#log.error(
      `the journal of ${this.path} is another node's; it was kept as ${kept.join(" and ")}, and a new one is begun`,
    );
  }

  /** If the disk is full, the space of the reserve is freed first, so that DELs are served there too. */
  #openDatabase(): OpenDatabase {
    try {
      return openDatabase(this.path, this.#options);
    } catch (error) {
      if (!isDiskFull(error) || !this.#reserve.kept) throw error;
      this.#reserve.spend();
      return openDatabase(this.path, this.#options);
    }
  }

  watchAttachments(changed: (network: string | null) => void): void {
    this.#attachmentWatchers.push(changed);
  }

  #onCommit(file: OpenDatabase): void {
    file.committed();
    this.#watch?.copyFullLog();
    for (const network of this.#touched) for (const changed of this.#attachmentWatchers) changed(network);
    this.#touched.clear();
  }

  /** Why nothing may be allocated although the database is open; null when it may. */
  get whyFull(): string | null {
    return this.#reserve.kept ? null : `the disk under ${this.path} is full`;
  }

  tryRoom(): void {
    if (this.#status.kind !== "ready" || this.#reserve.kept || !this.#reserve.restore()) return;
    this.statusChanged();
    this.#log.info("the disk has room again; ADD is served");
  }

  /** Whether it tells reliably which containers run: a rebuild compares them with a backup. Throws StorageAway. */
  get isComparable(): boolean {
    return this.#status.kind !== "rebuild-required" && checkDatabase(this.ledger).length === 0;
  }

  /**
   * Puts a backup, or with null an empty database, in place of one that was put aside, and serves again. `replace`: a
   * backup may also replace a sound database, which is kept.
   */
  async rebuild(backup: string | null, { replace = false } = {}): Promise<void> {
    if (replace && this.#journalOnly) {
      const remedy = "in Kubernetes the API server has the truth, and an older journal would contradict it";
      throw new RefusalError(refuse("REQUEST_INVALID", { key: "replace", value: "true", remedy }));
    }
    if (replace && backup !== null && this.#status.kind === "ready") return this.#replace(backup);
    if (this.#status.kind !== "rebuild-required") {
      const [key, value] = backup === null ? ["empty", "true"] : ["replace", String(replace)];
      throw new RefusalError(refuse("REQUEST_INVALID", { key, value, remedy: this.#whyNotRebuilt() }));
    }
    rebuildFrom(this.path, backup, this.#options);
    this.#become({ kind: "opening" });
    if (!(await this.#reopen())) throw new StorageAway(this.#unavailable());
    await this.write((ledger) => noteRebuilt(ledger, backup));
  }

  #whyNotRebuilt(): string {
    if (this.#status.kind !== "ready") return `${this.#unavailable()}; only one that was put aside is rebuilt`;
    if (!this.isComparable)
      return "the state database is damaged and still in use; go on with --from BACKUP --replace, or restart the daemon, which puts it aside";
    return "the state database is in use and sound; only one that was put aside is rebuilt (--from BACKUP --replace goes back to a backup all the same)";
  }

  async #replace(backup: string): Promise<void> {
    const { isComparable } = this;
    const copy = replacementOf(this.ledger, { directory: this.path, backup, isComparable });
    this.#become({ kind: "opening" });
    this.#forgetDatabase();
    const isOpen = await this.#reopen(() => {
      const kept = replaceSound(this.path, copy, this.#options);
      this.#log.info(`the state database was replaced by ${backup}; it was kept as ${kept.join(" and ")}`);
      if (!isComparable) this.#log.error(`it was damaged: what runs now could not be compared with ${backup}`);
      return this.open();
    });
    if (!isOpen) throw new StorageAway(this.#unavailable());
  }

  close(): void {
    this.#reopenTimer?.cancel();
    this.#become({ kind: "closed" });
    this.#forgetDatabase();
  }

  /** The ledger of the open database. Throws StorageAway. */
  get ledger(): Ledger {
    if (!this.#ledger) throw new StorageAway(this.#unavailable());
    return this.#ledger;
  }

  #unavailable(): string {
    const { status } = this;
    return "reason" in status ? status.reason : `the state database is ${status.kind}`;
  }

  /** Runs work in the next transaction. Rejects with what it threw, StorageFault or StorageAway. See GroupCommit. */
  write<T>(
    work: (ledger: Ledger, transaction: Transaction) => T,
    options?: { readonly canRepeat: boolean },
  ): Promise<T> {
    const ledger = this.#ledger;
    if (!ledger || !this.#commits || this.#watch?.displaced != null)
      return Promise.reject(new StorageAway(this.#unavailable()));
    return this.#commits.submit((transaction) => work(ledger, transaction), options);
  }

  /** After a failed write nothing in memory or in SQLite's cache is reliable: close, reopen, check, load. */
  #onFault(fault: StorageFault): void {
    if (isDiskFull(fault.cause)) this.#reserve.spend();
    if (!this.#ledger) return; // While it is being opened: whoever opens it learns it from the write.
    this.#reopenAfter(fault.message);
  }

  #reopenAfter(reason: string): void {
    this.#log.error(reason);
    this.#become({ kind: "faulted", reason, isReopening: true });
    this.#forgetDatabase();
    void this.#reopen();
  }

  /** Reopens the database, as often as necessary. Returns whether the first attempt succeeded. */
  async #reopen(open: () => Promise<void> | undefined = () => this.open()): Promise<boolean> {
    try {
      await open();
      if (this.#status.kind === "ready") this.#log.info("the state database was reopened and checked");
      return this.#status.kind === "ready";
    } catch (error) {
      if (this.#status.kind === "closed") return false;
      this.#become({ kind: "faulted", reason: (error as Error).message, isReopening: false });
      this.#log.error(`the state database cannot be reopened: ${(error as Error).message}; trying again`);
      this.#reopenTimer = this.#context.clock.timer(REOPEN_PAUSE_MS, () => void this.#reopen());
      return false;
    }
  }

  #forgetDatabase(): void {
    const file = this.#file;
    this.#watch?.end();
    this.#ledger = this.#file = this.#watch = this.#commits = null;
    if (file) this.#close(file);
  }

  #close(file: OpenDatabase): void {
    try {
      file.close();
    } catch (error) {
      this.#log.error(`closing the state database: ${(error as Error).message}`);
      if (isDamage(error)) file.tryPutAside(error as Error);
    }
  }
}
