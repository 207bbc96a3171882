import { Buffer } from "node:buffer";
import { closeSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import { BoundedMap } from "../platform/bounded-map.ts";
import type { Clock } from "../platform/time.ts";
import type { IdentityView } from "./wire.ts";

/** While the generation stays the same, ms: an edited definition, or the end of the daemon, does not change it. */
const USED_AGAIN_MS_MAX = 1_000;
/** More than the interfaces of a node; limits the memory of a failing one. */
const REMEMBERED_MAX = 20_000;

interface CachedAnswer {
  readonly identity: IdentityView | null;
  readonly atMs: number;
}

/** While it is open, its inode number is not given to another file. */
interface OpenFile {
  readonly fd: number;
  readonly inode: number;
  readonly device: number;
}

/**
 * Answers of the identity socket that are still valid: the daemon writes another generation beside it before it reports
 * that an attachment was made or ended, so that none outlives its allocation (docs/decisions/0020).
 */
export class IdentityCache {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #bytes = Buffer.alloc(64);
  #file: OpenFile | null = null;
  #generation: string | null = null;
  readonly #byQuery = new BoundedMap<string, CachedAnswer>(REMEMBERED_MAX);

  constructor(generationPath: string, clock: Clock) {
    this.#path = generationPath;
    this.#clock = clock;
  }

  /** `query`: the parameters of the question. undefined: not cached. */
  get(query: string): IdentityView | null | undefined {
    if (!this.#isCurrent()) return undefined;
    const found = this.#byQuery.get(query);
    if (found === undefined || this.#clock.monotonicMs() - found.atMs > USED_AGAIN_MS_MAX) return undefined;
    return found.identity;
  }

  /** Pass it to `put` with the answer to a request that starts now; null: answers cannot be cached. */
  get generation(): string | null {
    this.#isCurrent();
    return this.#generation;
  }

  put(
    query: string,
    identity: IdentityView | null,
    asked: { readonly generation: string | null; readonly atMs: number },
  ): void {
    if (asked.generation === null || asked.generation !== this.#generation) return;
    this.#byQuery.set(query, { identity, atMs: asked.atMs });
  }

  /** Reads the generation; clears the cache when it has changed. */
  #isCurrent(): boolean {
    const now = this.#read();
    if (now !== null && now === this.#generation) return true;
    this.#generation = now;
    this.#byQuery.clear();
    return false;
  }

  /** null: there is none, or it cannot be read. */
  #read(): string | null {
    try {
      // stat by path each time: the open file may have been replaced.
      const there = statSync(this.#path, { throwIfNoEntry: false });
      if (there === undefined) return null;
      const isSame = this.#file?.inode === there.ino && this.#file.device === there.dev;
      const { fd } = isSame ? (this.#file as OpenFile) : this.#open();
      const length = readSync(fd, this.#bytes, 0, this.#bytes.length, 0);
      return length === 0 ? null : this.#bytes.toString("latin1", 0, length);
    } catch {
      return null;
    }
  }

  #open(): OpenFile {
    if (this.#file !== null) closeSync(this.#file.fd);
    this.#file = null;
    const fd = openSync(this.#path, "r");
    // From the open file: the path may be another one since stat.
    const { ino: inode, dev: device } = fstatSync(fd);
    this.#file = { fd, inode, device };
    return this.#file;
  }
}
