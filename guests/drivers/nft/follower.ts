import { type ChildProcess, spawn } from "node:child_process";
import type { Clock, Timer } from "../../../platform/time.ts";

/** Until it is tried again when it has ended, ms. */
const RESTART_MS = 2_000;
/** Of a line, which is passed on cut off. */
const LINE_CHARS_MAX = 1 << 12;

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
  constructor(words: readonly string[], clock: Clock, events: { heard: (line: string) => void; ended: () => void }) {
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
    let rest = "";
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
      const lines = (rest + chunk).split("\n");
      rest = (lines.pop() as string).slice(0, LINE_CHARS_MAX);
      for (const line of lines) if (!this.#closed) this.#heard(line);
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
