/**
 * A disk that fails on demand below the state directory of one daemon, or below another one (fault-injection.c says
 * how).
 */
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { StandaloneNode } from "./standalone-node.ts";

const LIBRARY = join(import.meta.dirname, "../../build/fault-injection.so");

export interface Fault {
  /**
   * `tear` writes the first half of the bytes, then fails; `kill` and `stop` are signals before a write, a sync or a
   * removal.
   */
  readonly call: "write" | "tear" | "sync" | "unlink" | "kill" | "stop";
  readonly errno?: "EIO" | "ENOSPC" | "EROFS";
  /** Fails each n-th such call only. */
  readonly every?: number;
  /** Fails only for files whose name ends so. */
  readonly ending?: string;
}

export class FaultyDisk {
  /** For the daemon: its writes and syncs go through the library. */
  readonly env: Readonly<Record<string, string>>;
  readonly #control: string;

  constructor(node: Pick<StandaloneNode, "path">, { below = node.path("state") } = {}) {
    if (!existsSync(LIBRARY)) throw new Error(`${LIBRARY} is missing: make build/fault-injection.so`);
    this.#control = node.path("fault");
    this.env = {
      LD_PRELOAD: LIBRARY,
      HOLDFAST_TEST_FAULT_DIRECTORY: below,
      HOLDFAST_TEST_FAULT_CONTROL: this.#control,
    };
  }

  fail({ call, errno = "EIO", every = 1, ending = "*" }: Fault): void {
    writeFileSync(`${this.#control}.new`, `${call} ${errno} ${every} ${ending}\n`);
    renameSync(`${this.#control}.new`, this.#control);
  }

  /** Whether a process stands still since `stop`. */
  hasStopped(pid: number): boolean {
    return / T /.test(readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\)/, ""));
  }

  mend(): void {
    rmSync(this.#control, { force: true });
  }
}
