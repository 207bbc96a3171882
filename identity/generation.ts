import { Buffer } from "node:buffer";
import { closeSync, constants, fchmodSync, fchownSync, ftruncateSync, openSync, rmSync, writeSync } from "node:fs";
import type { Clock } from "../platform/time.ts";

const RUN_BYTES = 8;
const COUNT_BYTES = 6;

export function generationPathOf(identitySocket: string): string {
  return `${identitySocket}.generation`;
}

/**
 * A few bytes beside the identity socket that differ after every change of this node's attachments, before any caller
 * is told. While they are the same, an answer may be used again: reading them costs a hundredth of a request.
 */
export class IdentityGeneration {
  readonly #path: string;
  readonly #file: number;
  readonly #bytes = Buffer.alloc(RUN_BYTES + COUNT_BYTES);
  #count = 0;

  /** Readable by the group that may ask. Throws when the file cannot be written. */
  constructor(identitySocket: string, gid: number | null, clock: Pick<Clock, "randomBytes">) {
    this.#path = generationPathOf(identitySocket);
    // Not "w", which would leave it empty for a moment; not "a", which would append.
    this.#file = openSync(this.#path, constants.O_RDWR | constants.O_CREAT, 0o600);
    if (gid !== null) fchownSync(this.#file, process.getuid?.() ?? 0, gid);
    fchmodSync(this.#file, gid === null ? 0o600 : 0o640);
    ftruncateSync(this.#file, this.#bytes.length);
    // A random start: no count of an earlier run occurs again.
    clock.randomBytes(RUN_BYTES).copy(this.#bytes);
    this.next();
  }

  /** Throws when it cannot be written: then no caller may be told of a change that readers cannot see. */
  next(): void {
    this.#count += 1;
    this.#bytes.writeUIntBE(this.#count, RUN_BYTES, COUNT_BYTES);
    writeSync(this.#file, this.#bytes, 0, this.#bytes.length, 0);
  }

  /** No answer can be used again from now on. */
  end(): void {
    rmSync(this.#path, { force: true });
    closeSync(this.#file);
  }
}
