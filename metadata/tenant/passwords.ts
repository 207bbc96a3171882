import type { Buffer } from "node:buffer";
import { linkSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { ensureDirectory, readBounded, syncDirectory, writeDurably } from "../../platform/files.ts";
import { type Clock, randomUuid } from "../../platform/time.ts";
import { PASSWORD_BYTES_MAX } from "../documents/openstack.ts";

/** Guests' passwords as files, one for each instance; each is written once. */
export class Passwords {
  readonly #directory: string;
  readonly #clock: Clock;

  /** Throws Error when the directory cannot be made. */
  constructor(state: string, clock: Clock) {
    this.#clock = clock;
    this.#directory = join(state, "passwords");
    ensureDirectory(this.#directory, "state");
  }

  /** `uuid` is lower-case. null: the guest has sent none. */
  read(uuid: string): Buffer | null {
    const path = this.#path(uuid);
    // Looked for first: an exception for each of the many guests without one would cost more than all the rest.
    return statSync(path, { throwIfNoEntry: false }) ? readBounded(path, PASSWORD_BYTES_MAX) : null;
  }

  /** On the disk when it returns. taken: there is one already, even if another process wrote it at this moment. */
  keep(uuid: string, password: Buffer): "kept" | "taken" {
    const path = this.#path(uuid);
    const written = writeDurably(join(this.#directory, `.${randomUuid(this.#clock)}`), password);
    try {
      // A link, unlike a renaming, never replaces what is there; and what it shows is whole.
      linkSync(written, path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EEXIST") return "taken";
      throw error;
    } finally {
      rmSync(written, { force: true });
    }
    syncDirectory(this.#directory);
    return "kept";
  }

  #path(uuid: string): string {
    if (!/^[0-9a-f-]{36}$/.test(uuid)) throw new Error(`${JSON.stringify(uuid)} is no UUID`);
    return join(this.#directory, uuid);
  }
}
