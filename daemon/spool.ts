import { readdirSync, renameSync, rmSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { readWireRequest } from "../cni/request.ts";
import { CNI_BODY_BYTES_MAX, type CniWireRequest } from "../cni-shim/wire.ts";
import { parseBoundedJson } from "../ipam/definition/bounded-json.ts";
import type { Finding } from "../ipam/finding.ts";
import { ensureDirectory, readBounded } from "../platform/files.ts";
import type { Log } from "../platform/log.ts";
import { logFailure, PeriodicTask } from "../platform/periodic-task.ts";
import { SingleFlight } from "../platform/single-flight.ts";
import type { Clock } from "../platform/time.ts";
import { checkPrivate, makePrivate, type PrivateDirectory } from "./private-directory.ts";

/** How often the directory is checked: a DEL in it has been answered already, only its address waits. */
const DRAIN_INTERVAL_MS = 1_000;
/** Files delivered at once: they share a commit, so that thousands of them do not delay the first ADD by minutes. */
const TOGETHER_MAX = 100;
/** The body of a request; the plugin binary sends no longer one. */
const FILE_BYTES_MAX = CNI_BODY_BYTES_MAX;
/** A file still being written is renamed within milliseconds; older ones are left over from a crash. */
const PARTIAL_KEEP_MS = 3_600_000;

/** DELs that the plugin binary could not deliver. Drained before the first ADD, and regularly after it. */
export class Spool {
  readonly #directory: string;
  readonly #private: PrivateDirectory;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #deliver: (wire: CniWireRequest) => Promise<void>;
  /** When unfinished files were first seen, ms of the monotonic clock: the wall clock's jumps must remove none. */
  readonly #partials = new Map<string, number>();
  readonly #draining = new SingleFlight<void>();
  readonly #task: PeriodicTask;

  constructor(directory: string, clock: Clock, log: Log, deliver: (wire: CniWireRequest) => Promise<void>) {
    this.#directory = directory;
    this.#clock = clock;
    this.#log = log;
    this.#deliver = deliver;
    this.#task = new PeriodicTask({
      ...{ clock, intervalMs: DRAIN_INTERVAL_MS },
      work: () => this.drain(),
      onFailure: logFailure(log, "draining the spool"),
    });
    ensureDirectory(directory, "spool");
    this.#private = { path: directory, flag: "spool", isOurs: (name) => /^\.tmp-|\.(json|bad)$/.test(name) };
    makePrivate(this.#private, log);
  }

  /** Delivers every file, oldest first. Rejects when one could not be delivered: it stays, and so do later ones. */
  drain(): Promise<void> {
    return this.#draining.run(() => this.#drainAll());
  }

  keepDraining(): void {
    this.#task.start(DRAIN_INTERVAL_MS);
  }

  async stop(): Promise<void> {
    await this.#task.stop();
    await this.#draining.underWay()?.catch(() => {});
  }

  counts(): { waiting: number; bad: number } {
    const names = this.#names();
    return {
      waiting: names.filter((name) => name.endsWith(".json")).length,
      bad: names.filter((name) => name.endsWith(".bad")).length,
    };
  }

  findings(): Finding[] {
    return checkPrivate(this.#private);
  }

  async #drainAll(): Promise<void> {
    const names = this.#names().sort();
    const partials = names.filter((name) => name.startsWith(".tmp-"));
    for (const name of this.#partials.keys()) if (!partials.includes(name)) this.#partials.delete(name);
    for (const name of partials) this.#removeAbandoned(name);
    const waiting = names.filter((name) => name.endsWith(".json") && !name.startsWith("."));
    for (let from = 0; from < waiting.length; from += TOGETHER_MAX) {
      const read = waiting.slice(from, from + TOGETHER_MAX).map((name) => ({ name, wire: this.#read(name) }));
      await Promise.all(read.map(({ wire }) => wire && this.#deliver(wire)));
      for (const { name, wire } of read) if (wire) unlinkSync(join(this.#directory, name));
    }
  }

  /** A file that is not a DEL is put aside for an operator; it must not hold up the others. */
  #read(name: string): CniWireRequest | null {
    const path = join(this.#directory, name);
    try {
      const wire = readWireRequest(
        parseBoundedJson(readBounded(path, FILE_BYTES_MAX).toString("utf8"), FILE_BYTES_MAX),
      );
      if (wire.command !== "DEL") throw new Error(`${wire.command} does not belong into the spool`);
      return wire;
    } catch (error) {
      this.#log.error({ file: path, err: error }, "a spooled request is not understood; kept as .bad");
      renameSync(path, `${path}.bad`);
      return null;
    }
  }

  #removeAbandoned(name: string): void {
    const nowMs = this.#clock.monotonicMs();
    const firstSeenMs = this.#partials.get(name) ?? nowMs;
    this.#partials.set(name, firstSeenMs);
    if (nowMs - firstSeenMs < PARTIAL_KEEP_MS) return;
    this.#partials.delete(name);
    rmSync(join(this.#directory, name), { force: true });
  }

  #names(): string[] {
    try {
      return readdirSync(this.#directory);
    } catch {
      // Removed by hand: the plugin binary creates it again when it needs it.
      return [];
    }
  }
}
