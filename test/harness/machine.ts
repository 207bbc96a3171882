import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { run } from "./daemon.ts";
import { skippedFor } from "./needs.ts";
import { until } from "./wait.ts";

const PROJECT = join(import.meta.dirname, "../..");
/** A boot takes three seconds on a quiet machine. */
const BOOT_MS_MAX = 180_000;

/** Why no machine can be booted here; null when one can. In CI one must. */
export function whyNoMachine(): string | null {
  return skippedFor(process.getuid?.() === 0 ? null : "needs root: it boots systemd in namespaces of its own");
}

/**
 * A machine with systemd as PID 1, on a copy in memory of this system's root, with no network but loopback. The project
 * is where it is here, read-only. Nothing of it is left when it is stopped, or when this process ends in whatever way.
 */
export class Machine {
  readonly name: string;
  readonly #directory: string;
  readonly #holder: ChildProcess;
  #init = 0;
  #console = "";

  private constructor(directory: string, holder: ChildProcess) {
    this.#directory = directory;
    this.name = basename(directory);
    this.#holder = holder;
    for (const stream of [holder.stdout, holder.stderr]) {
      stream?.on("data", (chunk: Buffer) => {
        this.#console += chunk.toString();
      });
    }
  }

  /**
   * `bootId`: "kernel" (default), as a real or virtual machine sees it, though a crash does not change it; "own": a
   * system container's, which nspawn and LXC mount over the kernel's, new at every boot. `root`: a system's; default:
   * this one's.
   */
  static async start({
    bootId = "kernel",
    root = "/",
  }: {
    bootId?: "kernel" | "own";
    root?: string;
  } = {}): Promise<Machine> {
    const directory = mkdtempSync(join(tmpdir(), "holdfast-machine-"));
    const script = join(import.meta.dirname, "machine.sh");
    const namespaces = ["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"];
    const holder = spawn(
      "unshare",
      [...namespaces, "bash", script, basename(directory), directory, PROJECT, bootId, root],
      {
        stdio: ["pipe", "pipe", "pipe"],
      },
    );
    holder.stdin?.on("error", () => {});
    const machine = new Machine(directory, holder);
    try {
      await machine.#boot();
    } catch (error) {
      await machine.stop();
      throw error;
    }
    return machine;
  }

  /** What its console has shown. */
  get console(): string {
    return this.#console;
  }

  /** Runs a command of the shell in the machine, as root. */
  sh(command: string): Promise<{ code: number; stdout: string; stderr: string }> {
    const inside = ["--target", String(this.#init), "--all", "--root", "--wd"];
    const path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    return run("nsenter", [...inside, "env", "-i", path, "HOME=/root", "bash", "-c", command]);
  }

  /** The output of a command that must succeed. */
  async out(command: string): Promise<string> {
    const { code, stdout, stderr } = await this.sh(command);
    if (code !== 0) throw new Error(`${command}: code ${code}\n${stdout}${stderr}`);
    return stdout;
  }

  /** The power goes, and comes back: the disk is as it was, every process is gone. */
  async crash(): Promise<void> {
    process.kill(this.#init, "SIGKILL");
    await until(() => !isRunning(this.#init), "the machine to be down");
    await this.#boot();
  }

  /** Ends everything, and removes what was made for it. */
  async stop(): Promise<void> {
    if (this.#holder.exitCode === null && this.#holder.signalCode === null) {
      const ended = once(this.#holder, "close");
      this.#holder.kill("SIGKILL");
      await ended;
    }
    rmSync(this.#directory, { recursive: true, force: true });
    await removeControlGroup(this.name);
  }

  async #boot(): Promise<void> {
    const seen = this.#console.length;
    this.#holder.stdin?.write("boot\n");
    const gone = () => this.#holder.exitCode !== null || this.#holder.signalCode !== null;
    await until(
      () => {
        if (gone()) throw new Error(`the machine did not start: ${this.#console.slice(seen)}`);
        this.#init = findInit(this.#holder.pid as number) ?? 0;
        return this.#init !== 0;
      },
      "the machine's PID 1",
      BOOT_MS_MAX,
    );
    await until(
      async () => {
        const { stdout } = await this.sh("systemctl is-system-running");
        return /^(running|degraded)$/m.test(stdout);
      },
      `the machine to be up: ${this.#console.slice(seen)}`,
      BOOT_MS_MAX,
    );
  }
}

/** PID, as seen here, of the systemd that is PID 1 in the namespaces below a process. */
function findInit(pid: number): number | null {
  for (const child of childrenOf(pid)) {
    if (isInit(child)) return child;
    const below = findInit(child);
    if (below !== null) return below;
  }
  return null;
}

function isInit(pid: number): boolean {
  try {
    const levels = /^NSpid:\t(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]?.split("\t") ?? [];
    const executable = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")[0] ?? "";
    return levels.at(-1) === "1" && levels.length > 2 && executable.endsWith("/systemd");
  } catch {
    return false;
  }
}

function childrenOf(pid: number): number[] {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
    return text === "" ? [] : text.split(" ").map(Number);
  } catch {
    return [];
  }
}

function isRunning(pid: number): boolean {
  try {
    return !/^State:\t[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

/** Control groups outlive their processes. */
async function removeControlGroup(name: string): Promise<void> {
  const script = `mount -t cgroup2 cgroup2 /sys/fs/cgroup && find /sys/fs/cgroup/${name} -depth -type d -exec rmdir {} +`;
  await until(async () => {
    const { code, stderr } = await run("unshare", ["--mount", "--propagation", "private", "bash", "-c", script]);
    return code === 0 || stderr.includes("No such file");
  }, `control group ${name} to be empty`);
}
