import { type ChildProcess, spawn } from "node:child_process";
import type { Clock, Timer } from "../../../platform/time.ts";
import { OFCTL_ARGS } from "./ofctl.ts";

/** Pause before the monitor is started again, ms: doubled each time. */
const RESTART_MS_MIN = 50;
const RESTART_MS_MAX = 1_000;
/** Characters of a line that is not complete yet. */
const LINE_CHARS_MAX = 1 << 16;

export interface FlowWatchEvents {
  /** Flows with the cookie were added, deleted or (`modified`) changed, by whomever. */
  readonly news: (modified: boolean) => void;
  /** The switch has ended, or does not answer. */
  readonly lost: () => void;
  /** The switch answers (again): its flows may be gone. */
  readonly found: () => void;
}

/**
 * Follows the flows of one bridge, by `ovs-ofctl monitor`: what is there at the start is on stdout, news are on stderr.
 */
export class FlowWatch {
  readonly #socket: string;
  readonly #cookie: string;
  readonly #clock: Clock;
  readonly #events: FlowWatchEvents;
  #child: ChildProcess | null = null;
  #timer: Timer | null = null;
  #pauseMs = RESTART_MS_MIN;

  constructor(bridge: { readonly socket: string; readonly cookie: string }, clock: Clock, events: FlowWatchEvents) {
    this.#socket = bridge.socket;
    this.#cookie = bridge.cookie;
    this.#clock = clock;
    this.#events = events;
  }

  start(): void {
    // It ends with us, however we end.
    const ofctl = ["ovs-ofctl", ...OFCTL_ARGS, "--unixctl=none", "monitor", this.#socket, "watch:"];
    const words = ["--pdeathsig", "SIGKILL", ...ofctl];
    const startedMs = this.#clock.monotonicMs();
    const child = spawn("setpriv", words, { stdio: ["ignore", "pipe", "pipe"] });
    this.#child = child;
    let answered = false;
    child.stdout.on("data", () => {
      if (answered || this.#child !== child) return;
      answered = true;
      this.#events.found();
    });
    let rest = "";
    child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
      const lines = (rest + chunk).split("\n");
      rest = (lines.pop() as string).slice(-LINE_CHARS_MAX);
      const ours = lines.filter((line) => line.includes(` cookie=${this.#cookie} `));
      if (ours.length > 0) this.#events.news(ours.some((line) => line.includes("event=MODIFIED")));
    });
    child.on("error", () => {});
    child.on("close", () => {
      if (this.#child !== child) return;
      if (this.#clock.monotonicMs() - startedMs > RESTART_MS_MAX) this.#pauseMs = RESTART_MS_MIN;
      this.#timer = this.#clock.timer(this.#pauseMs, () => this.start());
      this.#pauseMs = Math.min(2 * this.#pauseMs, RESTART_MS_MAX);
      if (answered) this.#events.lost();
    });
  }

  stop(): void {
    this.#timer?.cancel();
    const child = this.#child;
    this.#child = null;
    child?.kill("SIGKILL");
  }
}
