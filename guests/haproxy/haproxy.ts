import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { type Clock, sleep } from "../../platform/time.ts";
import { run } from "../kernel/run.ts";
import { ask, type HaproxyProcesses, parseShowProc } from "./command-socket.ts";
import { findHaproxy, runsHaproxy } from "./haproxy-process.ts";
import { WAITING_SOCKET } from "./haproxy-text.ts";

/** Until a new worker serves. */
const RELOAD_MS_MAX = 8_000;
/** Until a stopped haproxy has answered what it had begun. */
const STOP_MS_MAX = 5_000;
/** Of what haproxy prints; then from the beginning again. */
const LOG_BYTES_MAX = 1 << 18;

export type ReloadOutcome = "ok" | "refused" | "failed";

/** The one haproxy of this node: it outlives us, and the next one of us takes it over. */
export class Haproxy {
  readonly #command: string;
  readonly #configPath: string;
  readonly #masterSocket: string;
  readonly #logPath: string;
  /** Which process runs with which configuration. */
  readonly #runningPath: string;
  readonly #clock: Clock;
  #pid: number | null = null;
  /** Whether the one that was started here has ended; null: it was adopted, and is looked at. */
  #childHasEnded: boolean | null = null;
  /** What it runs with; null: not known to run with what is written. */
  #running: string | null = null;
  #changes = 0;

  constructor(command: string, runDir: string, clock: Clock) {
    this.#command = command;
    this.#configPath = join(runDir, "haproxy.cfg");
    this.#masterSocket = join(runDir, "master.sock");
    this.#logPath = join(runDir, "haproxy.log");
    this.#runningPath = join(runDir, "haproxy.running");
    this.#clock = clock;
  }

  /** Takes over one that an earlier process of ours has left. */
  adopt(): number | null {
    this.#pid = findHaproxy(this.#configPath).master;
    this.#childHasEnded = null;
    this.#running = this.#pid === null ? null : this.#recorded(this.#pid);
    return this.#pid;
  }

  get alive(): boolean {
    return this.#pid !== null && runsHaproxy(this.#pid, this.#configPath);
  }

  get wanted(): boolean {
    return this.#pid !== null;
  }

  /** It has ended by itself: not while it is being started, loaded again or stopped, when it may look like nothing. */
  get died(): boolean {
    return this.wanted && this.#changes === 0 && !this.alive;
  }

  runsWith(text: string): boolean {
    return this.alive && this.#running === text;
  }

  /** What is wrong with a configuration; null: nothing. */
  async check(text: string): Promise<string | null> {
    // Somebody may have emptied /run.
    mkdirSync(dirname(this.#configPath), { recursive: true, mode: 0o711 });
    const path = `${this.#configPath}.check`;
    writeFileSync(path, text, { mode: 0o600 });
    const checked = await run(this.#command, ["-c", "-f", path]);
    if (checked.code === 0) return null;
    return alertsIn(checked.stderr) || checked.stderr.trim() || "haproxy -c failed without a word";
  }

  /** Makes it run with a checked configuration. `fresh`: as another process; connections end. Resolves when served. */
  serve(text: string, { fresh = false } = {}): Promise<{ outcome: ReloadOutcome; problem?: string }> {
    return this.#change(async () => {
      if (fresh) await this.#end(["SIGTERM", "SIGKILL"]);
      return this.#load(text);
    });
  }

  /** What the process was last seen to run with, of which it was written down; null: not known. */
  #recorded(pid: number): string | null {
    try {
      const text = readFileSync(this.#configPath, "utf8");
      return readFileSync(this.#runningPath, "utf8") === recordOf(pid, text) ? text : null;
    } catch {
      return null;
    }
  }

  async #change<T>(work: () => Promise<T>): Promise<T> {
    this.#changes += 1;
    try {
      return await work();
    } finally {
      this.#changes -= 1;
    }
  }

  async #load(text: string): Promise<{ outcome: ReloadOutcome; problem?: string }> {
    const before = this.alive ? await this.#processes() : null;
    // One that cannot be asked, because its socket was taken away, cannot be verified either.
    if (before === null) await this.stop();
    writeFileSync(`${this.#configPath}.new`, text, { mode: 0o600 });
    renameSync(`${this.#configPath}.new`, this.#configPath);
    this.#trimLog();
    this.#running = null;
    rmSync(this.#runningPath, { force: true });
    if (before === null) this.#start();
    else tell(this.#pid as number, "SIGUSR2");
    const problem = await this.#untilServing(before);
    if (problem !== null) return { outcome: "failed", problem };
    this.#running = text;
    writeFileSync(this.#runningPath, recordOf(this.#pid as number, text), { mode: 0o600 });
    return { outcome: "ok" };
  }

  /** Ends it when what it has begun is answered, after some seconds at most, and all else with our configuration. */
  stop(): Promise<void> {
    return this.#change(() => this.#end());
  }

  async #end(signals: readonly NodeJS.Signals[] = ["SIGUSR1", "SIGTERM", "SIGKILL"]): Promise<void> {
    for (const signal of signals) {
      const waitMs = signal === "SIGUSR1" ? STOP_MS_MAX : 1_000;
      const { master, all } = findHaproxy(this.#configPath);
      if (all.length === 0) break;
      // The master tells its workers; without one they are told by us.
      for (const pid of master === null || signal === "SIGKILL" ? all : [master]) tell(pid, signal);
      const deadline = this.#clock.monotonicMs() + waitMs;
      while (findHaproxy(this.#configPath).all.length > 0 && this.#clock.monotonicMs() < deadline)
        await sleep(this.#clock, 20);
    }
    this.#pid = null;
    this.#running = null;
    for (const path of [this.#masterSocket, this.#configPath, this.#logPath, this.#runningPath])
      rmSync(path, { force: true });
    for (const name of ["haproxy.cfg.check", "stats.sock", WAITING_SOCKET])
      rmSync(join(dirname(this.#configPath), name), { force: true });
  }

  #start(): void {
    const log = openSync(this.#logPath, "a", 0o600);
    // Of its own session, so that it goes on when we do not.
    const child = spawn(this.#command, ["-W", "-S", `${this.#masterSocket},mode,600`, "-f", this.#configPath], {
      detached: true,
      stdio: ["ignore", log, log],
      cwd: "/",
    });
    closeSync(log);
    child.on("error", () => {});
    this.#childHasEnded = false;
    child.once("exit", () => {
      if (child.pid === this.#pid) this.#childHasEnded = true;
    });
    child.unref();
    this.#pid = child.pid ?? null;
  }

  async #untilServing(before: HaproxyProcesses | null): Promise<string | null> {
    const deadline = this.#clock.monotonicMs() + RELOAD_MS_MAX;
    while (this.#clock.monotonicMs() < deadline) {
      if (this.#pid === null) return `${this.#command} cannot be started`;
      const now = await this.#processes();
      if (now !== null && before !== null && now.failedReloads > before.failedReloads) return this.#lastAlerts();
      if (now !== null && now.workerPid !== null && now.workerPid !== before?.workerPid) return null;
      await sleep(this.#clock, 20);
      // While it is executed, at its start and at every reload, a process does not look like haproxy for a moment.
      const looksEnded = !this.alive && this.#clock.monotonicMs() > deadline - RELOAD_MS_MAX + 500;
      if (this.#childHasEnded ?? looksEnded) return this.#lastAlerts();
    }
    return `haproxy did not serve within ${RELOAD_MS_MAX} ms: ${this.#lastAlerts()}`;
  }

  async #processes(): Promise<HaproxyProcesses | null> {
    try {
      return parseShowProc(await ask(this.#masterSocket, "show proc"));
    } catch {
      // While it executes itself anew, nobody answers.
      return null;
    }
  }

  #lastAlerts(): string {
    const text = existsSync(this.#logPath) ? readFileSync(this.#logPath, "utf8") : "";
    return alertsIn(text.slice(-4_000)) || "it ended without a word";
  }

  #trimLog(): void {
    const size = statSync(this.#logPath, { throwIfNoEntry: false })?.size ?? 0;
    if (size > LOG_BYTES_MAX) writeFileSync(this.#logPath, "");
  }
}

function recordOf(pid: number, text: string): string {
  return `${pid} ${createHash("sha256").update(text).digest("hex")}\n`;
}

/** haproxy's alerts in one line, without those that only say that there were some. */
function alertsIn(text: string): string {
  const alerts = [...text.matchAll(/^\[ALERT\]\s+\(\d+\) : (.*)$/gm)].map((match) => match[1] as string);
  return alerts
    .filter((alert) => !/Error\(s\) found|Fatal errors found/.test(alert))
    .join("; ")
    .slice(0, 500);
}

function tell(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended meanwhile.
  }
}
