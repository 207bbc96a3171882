import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Clock, Timer } from "../../../../platform/time.ts";

/** Until it is tried again when it has ended, ms. */
const RESTART_MS = 2_000;

/** Follows what a command prints, line by line, until `close`. It ends with this process, however that ends. */
export class Follower {
  readonly #words: readonly string[];
  readonly #clock: Clock;
  readonly #heard: (line: string) => void;
  readonly #ended: () => void;
  #child: ChildProcess | null = null;
  #timer: Timer | null = null;
  #closed = false;

  /** `ended`: it has ended by itself; what happens until it runs again is not heard. */
  constructor(
    words: readonly string[],
    clock: Clock,
    events: { heard: (line: string) => void; ended: () => void },
  ) {
    this.#words = words;
    this.#clock = clock;
    this.#heard = events.heard;
    this.#ended = events.ended;
    this.#start();
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#child?.kill("SIGKILL");
  }

  #start(): void {
    const child = spawn("setpriv", ["--pdeathsig", "SIGKILL", ...this.#words], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    this.#child = child;
    createInterface({ input: child.stdout }).on("line", (line) => {
      if (!this.#closed) this.#heard(line);
    });
    child.on("error", () => {});
    child.on("close", () => {
      if (this.#closed) return;
      this.#timer = this.#clock.timer(RESTART_MS, () => {
        this.#start();
        this.#ended();
      });
    });
  }
}
