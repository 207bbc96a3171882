import { type ChildProcess, spawn } from "node:child_process";
import { PeriodicTask } from "../../../platform/periodic-task.ts";
import type { Clock, Timer } from "../../../platform/time.ts";
import { type BridgePlan, bridgeFlows, changeText, type Flows, flowsText, repairText } from "./flow-text.ts";
import { OFCTL_ARGS, Ofctl } from "./ofctl.ts";

/** Pause after news before flows are counted, ms: a bundle of our own makes many. */
const SETTLE_MS = 30;

/** Pause before the monitor is started again, ms: doubled each time. */
const RESTART_MS_MIN = 50;
const RESTART_MS_MAX = 1_000;
/** Characters of a line that is not complete yet. */
const LINE_CHARS_MAX = 1 << 16;

/** One call after the other. */
export class BridgeFlows {
  readonly #cookie: string;
  readonly #ofctl: Ofctl;
  readonly #lost: () => void;
  readonly #watch: FlowWatch;
  /** null: nothing was written yet. */
  #written: Flows | null = null;
  /** Must what was written be compared before the next change? */
  #isSuspect = false;
  #isWriting = false;
  /** Has `write` changed anything since news were last looked into? */
  #hasWritten = false;
  #modified = false;
  readonly #checking: PeriodicTask;
  #closed = false;

  /** `lost`: somebody else has changed the flows, or they are gone with the switch. */
  constructor(bridge: { readonly socket: string; readonly cookie: string }, clock: Clock, lost: () => void) {
    this.#cookie = bridge.cookie;
    this.#ofctl = new Ofctl(bridge.socket, bridge.cookie);
    this.#lost = lost;
    this.#checking = new PeriodicTask({ clock, settleMs: SETTLE_MS, work: () => this.#check() });
    this.#checking.start();
    this.#watch = new FlowWatch(bridge, clock, {
      news: (modified) => this.#hear(modified),
      lost: () => this.#forget(),
      found: () => this.#forget(),
    });
  }

  watch(): void {
    this.#watch.start();
  }

  close(): void {
    this.#closed = true;
    void this.#checking.stop();
    this.#watch.stop();
  }

  /** Names of the bridge's ports and their numbers, as the switch has them. */
  ports(): Promise<ReadonlyMap<string, number>> {
    return this.#ofctl.ports();
  }

  /** One transaction; `again`: compares with what the switch has. Returns whether somebody else had changed it. */
  async write(plan: BridgePlan, again: boolean): Promise<boolean> {
    // Also while it compares: what somebody changes behind its back then is looked into afterwards.
    this.#isWriting = true;
    try {
      return await this.#write(plan, again);
    } finally {
      this.#isWriting = false;
    }
  }

  async #write(plan: BridgePlan, again: boolean): Promise<boolean> {
    const flows = bridgeFlows(plan);
    const written = this.#written;
    const compares = again || this.#isSuspect || written === null;
    const change = compares
      ? repairText(this.#cookie, await this.#ofctl.diff(flowsText(this.#cookie, flows)))
      : changeText(this.#cookie, { from: written, to: flows });
    this.#isSuspect = true;
    if (change !== "") {
      this.#hasWritten = true;
      await this.#ofctl.change(change);
    }
    this.#written = flows;
    this.#isSuspect = false;
    return compares && written !== null && change !== "" && sameFlows(flows, written);
  }

  /** Also of an earlier process. */
  async areThere(): Promise<boolean> {
    return (await this.#ofctl.count()) > 0;
  }

  /** Also those of an earlier process. */
  async clear(): Promise<void> {
    this.#written = null;
    await this.#ofctl.clear();
  }

  #forget(): void {
    if (this.#closed) return;
    this.#isSuspect = true;
    this.#lost();
  }

  #hear(modified: boolean): void {
    this.#modified ||= modified;
    this.#checking.trigger();
  }

  /** Our own changes make news, too: only what is not as written counts. Without any, what is told of is compared. */
  async #check(): Promise<void> {
    if (this.#isWriting) return this.#hear(false);
    const compares = this.#modified || !this.#hasWritten;
    this.#modified = false;
    this.#hasWritten = false;
    const written = this.#written;
    if (written === null || this.#isSuspect) return;
    try {
      const isSame =
        (await this.#ofctl.count()) === written.size &&
        !(compares && repairText(this.#cookie, await this.#ofctl.diff(flowsText(this.#cookie, written))) !== "");
      if (isSame) return;
      if (this.#isWriting || written !== this.#written) this.#hear(true);
      else this.#lost();
    } catch {
      // Its end is heard by the watch.
    }
  }
}

function sameFlows(one: Flows, other: Flows): boolean {
  return one.size === other.size && [...one].every(([match, actions]) => other.get(match) === actions);
}

interface FlowWatchEvents {
  /** Flows with the cookie were added, deleted or (`modified`) changed, by whomever. */
  readonly news: (modified: boolean) => void;
  /** The switch has ended, or does not answer. */
  readonly lost: () => void;
  /** The switch answers (again): its flows may be gone. */
  readonly found: () => void;
}

/** Follows a bridge's flows by `ovs-ofctl monitor`: what is there at the start comes on stdout, news on stderr. */
class FlowWatch {
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
