import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import type { Logger } from "pino";
import type { CniWireRequest } from "../cni-shim/wire.ts";
import { readWireRequest } from "./cni-request.ts";

/** How often the folder is looked at: a DEL in it has been answered already, only its address waits. */
const DRAIN_INTERVAL_MS = 1_000;
/** A file still being written is renamed within milliseconds; older ones are left over from a crash. */
const PARTIAL_KEEP_MS = 3_600_000;

/** DELs that the plugin binary could not deliver. Drained before the first ADD, and again and again after it. */
export class Spool {
  readonly #folder: string;
  readonly #log: Logger;
  readonly #deliver: (wire: CniWireRequest) => Promise<void>;
  #timer: NodeJS.Timeout | null = null;
  #running: Promise<void> | null = null;

  constructor(folder: string, log: Logger, deliver: (wire: CniWireRequest) => Promise<void>) {
    this.#folder = folder;
    this.#log = log;
    this.#deliver = deliver;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  /** Delivers every file there is, oldest first. Rejects when one could not be delivered: it stays, and so do later ones. */
  drain(): Promise<void> {
    this.#running ??= this.#drainAll().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  keepDraining(): void {
    const again = () => {
      this.drain()
        .catch((error: Error) => this.#log.warn({ err: error }, "the spool is not drained; trying again"))
        .finally(() => {
          if (this.#timer) this.#timer = setTimeout(again, DRAIN_INTERVAL_MS);
        });
    };
    this.#timer = setTimeout(again, DRAIN_INTERVAL_MS);
  }

  async stop(): Promise<void> {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    await this.#running?.catch(() => {});
  }

  /** Files waiting, and files that could not be understood. */
  counts(): { waiting: number; bad: number } {
    const names = this.#names();
    return {
      waiting: names.filter((name) => name.endsWith(".json")).length,
      bad: names.filter((name) => name.endsWith(".bad")).length,
    };
  }

  async #drainAll(): Promise<void> {
    const names = this.#names().sort();
    for (const name of names) {
      if (name.startsWith(".tmp-")) this.#removeAbandoned(name);
      if (!name.endsWith(".json") || name.startsWith(".")) continue;
      const wire = this.#read(name);
      if (wire === null) continue;
      await this.#deliver(wire);
      unlinkSync(join(this.#folder, name));
    }
  }

  /** A file that is no DEL is put aside for a person to look at; it must not hold up the others. */
  #read(name: string): CniWireRequest | null {
    const path = join(this.#folder, name);
    try {
      const wire = readWireRequest(JSON.parse(readFileSync(path, "utf8")));
      if (wire.command !== "DEL") throw new Error(`${wire.command} does not belong into the spool`);
      return wire;
    } catch (error) {
      this.#log.error({ file: path, err: error }, "a spooled request is not understood; kept as .bad");
      renameSync(path, `${path}.bad`);
      return null;
    }
  }

  #removeAbandoned(name: string): void {
    const path = join(this.#folder, name);
    const ageMs = Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
    if (ageMs > PARTIAL_KEEP_MS) rmSync(path, { force: true });
  }

  #names(): string[] {
    try {
      return readdirSync(this.#folder);
    } catch {
      // Removed by hand: the plugin binary makes it again when it needs it.
      return [];
    }
  }
}
