import type Database from "better-sqlite3";
import type { PassKillPoint } from "../../platform/kill-point.ts";
import type { Clock } from "../../platform/time.ts";
import { isStorageError, StorageFault } from "../allocations.ts";
import type { NodeContext } from "../node-context.ts";

/** Requests in one transaction at most: limits how many fail together in a crash or a failed commit. */
const BATCH_REQUESTS_MAX = 256;
/** Work in one transaction, ms: the event loop must run between commits. */
const BATCH_WORK_MS_MAX = 5;

/** What work in a transaction may use besides the database. Memory follows the disk, never the reverse. */
export interface Transaction {
  /** Registers how to revert a change in memory if this work or its commit fails. Run newest first. */
  onRollback(undo: () => void): void;
}

export interface CommitHooks {
  /** In the transaction, last before COMMIT. What it throws is a failure of the storage. */
  before(): void;
  /** After each COMMIT, before any caller hears of it. */
  after(): void;
}

interface Job {
  readonly canRepeat: boolean;
  work(transaction: Transaction): unknown;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

interface Outcome {
  readonly ok: boolean;
  /** The value that the work returned or threw. */
  readonly value: unknown;
}

interface Done extends Outcome {
  readonly job: Job;
}

/**
 * Requests that wait together are committed together: one SQLite transaction per turn of the event loop, a savepoint
 * per request where needed, one sync for all. No caller learns its result before COMMIT has returned.
 */
export class GroupCommit {
  readonly #db: Database.Database;
  readonly #clock: Clock;
  readonly #killPoint: PassKillPoint;
  readonly #onFault: (fault: StorageFault) => void;
  readonly #hooks: CommitHooks;
  readonly #begin: Database.Statement;
  readonly #commit: Database.Statement;
  readonly #rollback: Database.Statement;
  readonly #savepoint: Database.Statement;
  readonly #release: Database.Statement;
  readonly #rollbackTo: Database.Statement;
  #queue: Job[] = [];
  #scheduled = false;
  #fault: StorageFault | null = null;

  constructor(
    db: Database.Database,
    { clock, killPoint }: Pick<NodeContext, "clock" | "killPoint">,
    onFault: (fault: StorageFault) => void,
    hooks: CommitHooks = { before: () => {}, after: () => {} },
  ) {
    this.#db = db;
    this.#clock = clock;
    this.#killPoint = killPoint;
    this.#onFault = onFault;
    this.#hooks = hooks;
    this.#begin = db.prepare("BEGIN IMMEDIATE");
    this.#commit = db.prepare("COMMIT");
    this.#rollback = db.prepare("ROLLBACK");
    this.#savepoint = db.prepare("SAVEPOINT request");
    this.#release = db.prepare("RELEASE request");
    this.#rollbackTo = db.prepare("ROLLBACK TO request");
  }

  /**
   * Runs `work`, which must be synchronous, in the next batch. Rejects with what it threw, or with a StorageFault.
   * `canRepeat`: it may be run again after it was rolled back because another request of its batch failed.
   */
  submit<T>(work: (transaction: Transaction) => T, { canRepeat = false } = {}): Promise<T> {
    if (this.#fault) return Promise.reject(this.#fault);
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ canRepeat, work, resolve: resolve as (value: unknown) => void, reject });
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#clock.immediate(() => {
      this.#scheduled = false;
      this.#runBatch();
      if (this.#queue.length > 0) this.#schedule();
    });
  }

  #runBatch(): void {
    const undos: (() => void)[] = [];
    let done: Done[];
    try {
      this.#begin.run();
      done = this.#runAll(undos);
      this.#hooks.before();
      this.#killPoint?.("before-commit");
      this.#commit.run();
      this.#killPoint?.("after-commit");
    } catch (error) {
      this.#fail(error, undos);
      return;
    }
    this.#queue.splice(0, done.length);
    this.#hooks.after();
    for (const { job, ok, value } of done) {
      if (ok) job.resolve(value);
      else job.reject(value);
    }
  }

  /**
   * A failing request leaves no trace, and the others stay: each has a savepoint, for which SQLite copies every page
   * that it changes. Where all can be repeated, they are therefore first tried without savepoints.
   */
  #runAll(undos: (() => void)[]): Done[] {
    const batch = this.#queue.slice(0, BATCH_REQUESTS_MAX);
    if (batch.every(({ canRepeat }) => canRepeat)) {
      try {
        return runEach(this.#clock, batch, (job) => ({ ok: true, value: job.work(transactionOf(undos)) }));
      } catch (error) {
        if (isStorageError(error)) throw error;
        this.#rollback.run();
        undoDownTo(undos, 0);
        this.#begin.run();
      }
    }
    return runEach(this.#clock, batch, (job) => this.#runOne(job, undos));
  }

  /** One request inside its savepoint. A failure of the request is its own; one of the storage fails the batch. */
  #runOne(job: Job, undos: (() => void)[]): Outcome {
    const undosBefore = undos.length;
    this.#savepoint.run();
    try {
      const value = job.work(transactionOf(undos));
      this.#release.run();
      return { ok: true, value };
    } catch (error) {
      if (isStorageError(error)) throw error;
      this.#rollbackTo.run();
      this.#release.run();
      undoDownTo(undos, undosBefore);
      return { ok: false, value: error };
    }
  }

  /** Nothing of the batch is durable: memory is reverted, every caller is told, and the owner reopens the database. */
  #fail(error: unknown, undos: (() => void)[]): void {
    undoDownTo(undos, 0);
    try {
      if (this.#db.inTransaction) this.#rollback.run();
    } catch {
      // The database is about to be closed, which rolls back whatever is left.
    }
    const fault = new StorageFault(`the state database refused a write: ${String((error as Error).message)}`, {
      cause: error,
    });
    this.#fault = fault;
    const waiting = this.#queue;
    this.#queue = [];
    for (const job of waiting) job.reject(fault);
    this.#onFault(fault);
  }
}

/** In order, until the time for one transaction is over. */
function runEach(clock: Clock, batch: readonly Job[], run: (job: Job) => Outcome): Done[] {
  const done: Done[] = [];
  const deadlineMs = clock.monotonicMs() + BATCH_WORK_MS_MAX;
  for (const job of batch) {
    done.push({ job, ...run(job) });
    if (clock.monotonicMs() > deadlineMs) break;
  }
  return done;
}

function transactionOf(undos: (() => void)[]): Transaction {
  return { onRollback: (undo) => undos.push(undo) };
}

function undoDownTo(undos: (() => void)[], length: number): void {
  while (undos.length > length) (undos.pop() as () => void)();
}
