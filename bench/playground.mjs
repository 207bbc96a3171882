// What the measurements run on: a temporary folder, a daemon of this tree, Debian's host-local, two small C drivers.
import { execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "..");
export const HOLDFAST = join(ROOT, "dist/bin/holdfast");
const SHIM = join(ROOT, "dist/bin/holdfast-ipam");
const HOST_LOCAL = "/usr/lib/cni/host-local";
const DRIVERS = join(ROOT, "build/bench");
const C_FLAGS = ["-std=c11", "-O2", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"];

export class Playground {
  folder = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
  #daemon = null;

  constructor() {
    mkdirSync(DRIVERS, { recursive: true });
    for (const name of ["exec-driver", "load-client"]) {
      execFileSync("cc", [...C_FLAGS, "-o", join(DRIVERS, name), join(import.meta.dirname, `${name}.c`)]);
    }
    writeFileSync(join(this.folder, "netns"), "");
  }

  get socket() {
    return join(this.folder, "s.sock");
  }

  get hostLocalFolder() {
    return join(this.folder, "host-local");
  }

  /** Starts the daemon as it is shipped. Milliseconds until it is ready. */
  async start(state = "state") {
    const startMs = performance.now();
    const args = [HOLDFAST, "daemon", "--state", join(this.folder, state), "--socket", this.socket];
    this.#daemon = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    await new Promise((resolve, reject) => {
      this.#daemon.on("exit", (code) => reject(new Error(`the daemon ended with ${code}`)));
      this.#daemon.stdout.on("data", (chunk) => String(chunk).includes('"msg":"ready"') && resolve());
    });
    return performance.now() - startMs;
  }

  async stop() {
    if (this.#daemon === null || this.#daemon.exitCode !== null) return;
    this.#daemon.removeAllListeners("exit");
    const ended = once(this.#daemon, "exit");
    this.#daemon.kill("SIGTERM");
    await ended;
  }

  async remove() {
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Resident memory of the daemon, MB. */
  residentMb() {
    const [, kb] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${this.#daemon.pid}/status`, "utf8"));
    return Number(kb) / 1024;
  }

  /** The same network for both: host-local's own configuration, with another `type`. */
  config(type, name = "bench") {
    const ipam = { type, subnet: "10.0.0.0/8", dataDir: this.hostLocalFolder };
    return JSON.stringify({ cniVersion: "1.0.0", name, type: "bridge", ipam });
  }

  /**
   * Executes both plugins in turn. Returns the microseconds of each execution (of each round, when several are in
   * flight), ours and host-local's.
   */
  async execute({ rounds, inFlight = 1, undo = true, sides = ["holdfast", "host-local"] }) {
    const plugin = { holdfast: SHIM, "host-local": HOST_LOCAL };
    const type = { holdfast: "holdfast-ipam", "host-local": "host-local" };
    const args = sides.flatMap((side) => {
      const stdin = join(this.folder, `${side}.json`);
      writeFileSync(stdin, this.config(type[side]));
      return ["--", stdin, plugin[side]];
    });
    this.executions = (this.executions ?? 0) + 1;
    const env = {
      PATH: process.env.PATH,
      CNI_NETNS: join(this.folder, "netns"),
      CNI_IFNAME: "eth0",
      CNI_PATH: "/usr/lib/cni",
      HOLDFAST_SOCKET: this.socket,
      HOLDFAST_SPOOL: join(this.folder, "state/spool"),
    };
    const how = [String(rounds), String(inFlight), `x${this.executions}-`, undo ? "each" : "none"];
    const stdout = await run(join(DRIVERS, "exec-driver"), [...how, ...args], env);
    const times = sides.map(() => []);
    for (const line of stdout.trim().split("\n")) {
      const [side, us] = line.split(" ").map(Number);
      times[side].push(us);
    }
    return times;
  }

  /** ADDs over the socket without any exec: what came of `count` of them with 64 in flight. */
  async load(count, { seed, name = "bench" }) {
    const netns = statSync(join(this.folder, "netns"));
    const body = JSON.stringify({
      command: "ADD",
      containerId: "@".repeat(64),
      netns: join(this.folder, "netns"),
      netnsId: `${netns.dev}:${netns.ino}`,
      ifname: "eth0",
      args: "",
      bootId: readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(),
      bootUs: 5_000_000,
      config: this.config("holdfast-ipam", name),
    });
    const head = `POST /cni HTTP/1.1\r\nHost: holdfast\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`;
    writeFileSync(join(this.folder, "request"), head + body);
    const args = [this.socket, join(this.folder, "request"), String(count), "64", String(seed)];
    const [seconds, p50, p99, max] = (await run(join(DRIVERS, "load-client"), args, {}))
      .trim()
      .split(" ")
      .map(Number);
    return { perSecond: count / seconds, p50Ms: p50 / 1000, p99Ms: p99 / 1000, maxMs: max / 1000 };
  }

  /** Fills host-local's folder in its own format up to `count` reservations. */
  fillHostLocal(from, count) {
    const folder = join(this.hostLocalFolder, "bench");
    mkdirSync(folder, { recursive: true });
    for (let index = from; index < count; index += 1) {
      // From the far end of the network, so that its search for a free address is as short as ours.
      const value = 0x0aff_ff00 - index;
      const ip = [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join(".");
      writeFileSync(join(folder, ip), `filled-${index}\r\neth0`);
    }
  }
}

function run(command, args, env) {
  return new Promise((resolve, reject) => {
    execFile(command, args, { env, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${command}: ${stderr || error.message}`));
      else resolve(stdout);
    });
  });
}

export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}

export const median = (values) => quantile(values, 0.5);
