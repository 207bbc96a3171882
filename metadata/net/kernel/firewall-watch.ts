import { type ChildProcess, spawn } from "node:child_process";
import type { Log } from "../../../platform/log.ts";
import type { Clock, Timer } from "../../../platform/time.ts";

/** Until it is tried again when it has ended, ms. */
const RESTART_MS = 5_000;

/**
 * Hears of tables that are deleted: `nft flush ruleset`, which a firewall's restart does, would leave the listeners open
 * until the next look. Calls back at each, also at our own.
 */
export class FirewallWatch {
  readonly #clock: Clock;
  readonly #deleted: () => void;
  readonly #log: Log;
  #child: ChildProcess | null = null;
  #timer: Timer | null = null;

  constructor(clock: Clock, deleted: () => void, log: Log) {
    this.#clock = clock;
    this.#deleted = deleted;
    this.#log = log;
  }

  start(): void {
    // It ends with us, however we end.
    const child = spawn("setpriv", ["--pdeathsig", "SIGKILL", "nft", "monitor", "destroy", "tables"], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    this.#child = child;
    child.stdout.on("data", () => this.#deleted());
    child.on("error", () => {});
    child.on("close", (code) => {
      if (this.#child !== child) return;
      this.#log.warn({ code }, "nft monitor has ended; a firewall that is flushed is noticed later");
      this.#timer = this.#clock.timer(RESTART_MS, () => this.start());
    });
  }

  stop(): void {
    this.#timer?.cancel();
    const child = this.#child;
    this.#child = null;
    child?.kill("SIGKILL");
  }
}
