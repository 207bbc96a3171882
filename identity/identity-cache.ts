import { Buffer } from "node:buffer";
import { closeSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import { BoundedMap } from "../platform/bounded-map.ts";
import type { Clock } from "../platform/time.ts";
import type { IdentityView } from "./wire.ts";

/**
 * How long an answer is used again, ms, while the generation stays the same: it does not count what is no matter of who
 * has an address, such as an edited definition or a daemon that has ended.
 */
const USED_AGAIN_MS_MAX = 1_000;
/** More than the addresses of a node; bounds what a run-away node takes. */
const REMEMBERED_MAX = 20_000;

interface CachedAnswer {
  readonly identity: IdentityView | null;
  readonly atMs: number;
}

/** Its number is not given to another file while it is open. */
interface OpenFile {
  readonly fd: number;
  readonly inode: number;
  readonly device: number;
}

/**
 * Answers of the identity socket that are still true: the daemon writes another generation beside its socket before it
 * tells anybody that an attachment was made or ended, so that no answer is used after the allocation that it was about.
 * See docs/decisions/0020.
 */
export class IdentityCache {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #bytes = Buffer.alloc(64);
  #file: OpenFile | null = null;
  #generation: string | null = null;
  readonly #byAddress = new BoundedMap<string, CachedAnswer>(REMEMBERED_MAX);

  constructor(generationPath: string, clock: Clock) {
    this.#path = generationPath;
    this.#clock = clock;
  }

  /** undefined: it has to be asked for. */
  get(network: string, address: string): IdentityView | null | undefined {
    if (!this.#isCurrent()) return undefined;
    const found = this.#byAddress.get(keyOf(network, address));
    if (found === undefined || this.#clock.monotonicMs() - found.atMs > USED_AGAIN_MS_MAX) return undefined;
    return found.identity;
  }

  /** To be given back with the answer to a question that is asked now; null: answers cannot be remembered. */
  get generation(): string | null {
    this.#isCurrent();
    return this.#generation;
  }

  /** An answer to a question that was asked when the generation was `asked`, at `askedMs`. */
  put(
    { network, address }: { network: string; address: string },
    identity: IdentityView | null,
    asked: { readonly generation: string | null; readonly atMs: number },
  ): void {
    if (asked.generation === null || asked.generation !== this.#generation) return;
    this.#byAddress.set(keyOf(network, address), { identity, atMs: asked.atMs });
  }

  /** Reads the generation; forgets everything when it is another one. */
  #isCurrent(): boolean {
    const now = this.#read();
    if (now !== null && now === this.#generation) return true;
    this.#generation = now;
    this.#byAddress.clear();
    return false;
  }

  /** null: there is none, or it cannot be read. */
  #read(): string | null {
    try {
      // By its path each time: the file that is open may have been replaced.
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
    // Of the file that was opened: another one may have taken the path since it was looked at.
    const { ino: inode, dev: device } = fstatSync(fd);
    this.#file = { fd, inode, device };
    return this.#file;
  }
}

/** Neither has a space in it. */
function keyOf(network: string, address: string): string {
  return `${network} ${address}`;
}
