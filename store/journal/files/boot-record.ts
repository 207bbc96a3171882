import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import type { StoreLog } from "../../node-context.ts";

/** So that a shorter text replaces a longer one whole. */
const RECORD_BYTES = 1_024;

/** How far a database has come. */
export interface Progress {
  /** Of the database. */
  readonly id: string;
  /** How often it had been opened. */
  readonly opened: number;
  /** Commits since then; null: it was closed. */
  readonly commits: number | null;
}

interface Seen extends Progress {
  readonly bootId: string;
  readonly directory: string;
}

/**
 * What this boot knows of the state directory, in a file outside of it that lives no longer than the containers do: a directory
 * that was removed, hidden below a mount or put back as it was is as sound in itself as a new one.
 */
export class BootRecord {
  readonly #path: string;
  readonly #bootId: string;
  readonly #directory: string;
  readonly #log: StoreLog;
  #descriptor: number | null = null;
  #isTold = false;

  constructor(
    path: string,
    {
      bootId,
      directory,
      log,
    }: { readonly bootId: string; readonly directory: string; readonly log: StoreLog },
  ) {
    this.#path = path;
    this.#bootId = bootId;
    this.#directory = directory;
    this.#log = log;
  }

  /** Why a database is not the one that this boot has seen; `found` is null where there is none. */
  whyAnother(found: Progress | null): string | null {
    const seen = this.#read();
    if (seen === null || seen.bootId !== this.#bootId || seen.directory !== this.#directory) return null;
    const known = `as ${this.#path} remembers`;
    if (found === null)
      return `its database is gone, though a daemon had it open since this machine was started, ${known}: the directory was emptied, replaced, or hidden by a mount; if it still is elsewhere, put it back and start again`;
    if (found.id !== seen.id) return `its database is that of another state directory, ${known}`;
    const wasLater =
      found.opened < seen.opened ||
      (found.opened === seen.opened &&
        found.commits !== null &&
        (seen.commits === null || found.commits < seen.commits));
    return wasLater ? `its files are an older copy; the database had come further, ${known}` : null;
  }

  /** One that stays behind notices less, and is no reason to refuse anything. */
  write(progress: Progress): void {
    const seen: Seen = { bootId: this.#bootId, directory: this.#directory, ...progress };
    try {
      this.#descriptor ??= this.#open();
      writeSync(this.#descriptor, `${JSON.stringify(seen).padEnd(RECORD_BYTES - 1)}\n`, 0);
      this.#isTold = false;
    } catch (error) {
      if (this.#isTold) return;
      this.#isTold = true;
      this.#log.error(
        `${this.#path} cannot be written (${(error as Error).message}): a state directory that is removed or replaced by an older one will not be noticed by the next start; make room, or let the daemon write there`,
      );
    }
  }

  /** Before the socket is served, which makes its directory. */
  #open(): number {
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o755 });
    return openSync(this.#path, "w", 0o600);
  }

  close(): void {
    if (this.#descriptor !== null) closeSync(this.#descriptor);
    this.#descriptor = null;
  }

  /** An operator decided what the state is from now on. */
  forget(): void {
    this.close();
    rmSync(this.#path, { force: true });
  }

  #read(): Seen | null {
    try {
      return JSON.parse(readFileSync(this.#path, "utf8")) as Seen;
    } catch {
      return null;
    }
  }
}
