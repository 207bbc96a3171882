import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { type DaemonOptions, HOLDFAST, SHIM, TestDaemon } from "../test/harness/daemon.ts";

const run = promisify(execFile);
const EXEC_DRIVER = "build/bench/exec-driver";
const LOAD_CLIENT = "build/bench/load-client";
/** Debian's containernetworking-plugins. */
const HOST_LOCAL = "/usr/lib/cni/host-local";
const NETWORK = "bench";

/** On a disk also where /tmp is kept in memory: what is measured is durable. */
export function newDirectory(): string {
  return mkdtempSync("/var/tmp/holdfast-bench-");
}

/** Something to execute again and again, with the file it gets as standard input. */
export interface Side {
  readonly stdin: string;
  readonly command: readonly string[];
}

/**
 * A daemon on an empty state directory, and host-local on an empty data directory, both with one and the same plugin
 * configuration but for its `type`: a /8, whose gateway is not given. Holdfast is not told of host-local's directory:
 * it would respect what is in it, as after a switch, and follow each change that host-local makes beside it.
 */
export class Workbench {
  readonly directory: string;
  readonly daemon: TestDaemon;
  readonly holdfast: Side;
  readonly hostLocal: Side;
  readonly #netns: string;
  readonly #hostLocalData: string;
  #loads = 0;

  private constructor(directory: string, daemon: TestDaemon) {
    this.directory = directory;
    this.daemon = daemon;
    this.#hostLocalData = join(directory, "host-local");
    mkdirSync(this.#hostLocalData);
    this.#netns = join(directory, "netns");
    writeFileSync(this.#netns, "");
    this.holdfast = { stdin: this.#configFile("holdfast-ipam"), command: [SHIM] };
    this.hostLocal = { stdin: this.#configFile("host-local"), command: [HOST_LOCAL] };
  }

  /** Runs work with a workbench of its own, of which nothing is left afterwards. */
  static async with<T>(work: (bench: Workbench) => Promise<T>, options: Pick<DaemonOptions, "args"> = {}): Promise<T> {
    const directory = newDirectory();
    try {
      const daemon = await TestDaemon.start({ directory, ...options });
      try {
        return await work(new Workbench(directory, daemon));
      } finally {
        await daemon.end();
      }
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  }

  /**
   * A round executes each side `count` times, `inFlight` of them at a time, one side after the other. Returns the
   * milliseconds of each round, by side.
   */
  async exec(
    sides: readonly Side[],
    options: {
      readonly rounds: number;
      readonly count?: number;
      readonly inFlight?: number;
      readonly undo: boolean;
    },
  ): Promise<number[][]> {
    const { rounds, count = 1, inFlight = 1, undo } = options;
    const prefix = `${process.pid}${this.#loads++}`.padEnd(16, "e");
    const commands = sides.flatMap(({ stdin, command }) => ["--", stdin, ...command]);
    const numbers = [rounds, count, inFlight].map(String);
    const args = [...numbers, prefix, undo ? "undo" : "keep", ...commands];
    const env = {
      ...process.env,
      HOLDFAST_SOCKET: this.daemon.socket,
      HOLDFAST_SPOOL: this.daemon.spool,
      CNI_NETNS: this.#netns,
      CNI_IFNAME: "eth0",
      CNI_PATH: "/opt/cni/bin",
    };
    const { stdout } = await run(EXEC_DRIVER, args, { env, maxBuffer: 1 << 26 });
    const times: number[][] = sides.map(() => []);
    for (const line of stdout.trim().split("\n")) {
      const [side, us] = line.split(" ").map(Number) as [number, number];
      times[side]?.push(us / 1_000);
    }
    return times;
  }

  /** Makes ADDs of new containers through a socket, `inFlight` at once, without executing anything. */
  async load(
    count: number,
    inFlight = 64,
    socket = this.daemon.socket,
  ): Promise<{ perSecond: number; p50Ms: number; p99Ms: number; maxMs: number }> {
    this.#loads += 1;
    const request = join(this.directory, "request");
    writeFileSync(request, this.#request());
    const args = [socket, request, String(count), String(inFlight), String(this.#loads)];
    const { stdout } = await run(LOAD_CLIENT, args);
    const [seconds, p50Us, p99Us, maxUs] = stdout.trim().split(" ").map(Number) as [number, number, number, number];
    return { perSecond: count / seconds, p50Ms: p50Us / 1_000, p99Ms: p99Us / 1_000, maxMs: maxUs / 1_000 };
  }

  emptyHostLocal(): void {
    rmSync(this.#hostLocalData, { recursive: true, force: true });
    mkdirSync(this.#hostLocalData);
  }

  /**
   * Writes reservations as host-local does, one file for each address, from 10.0.0.2 on
   * (plugins/ipam/host-local/backend/disk).
   */
  fillHostLocal(count: number): void {
    const directory = join(this.#hostLocalData, NETWORK);
    mkdirSync(directory, { recursive: true });
    const address = (index: number) => `10.${(index >>> 16) & 255}.${(index >>> 8) & 255}.${index & 255}`;
    for (let index = 2; index < count + 2; index += 1) {
      writeFileSync(join(directory, address(index)), `${String(index).padStart(64, "f")}\r\neth0`);
    }
    writeFileSync(join(directory, "last_reserved_ip.0"), address(count + 1));
  }

  /** A value of the daemon's /proc/PID/status, in bytes. */
  memoryBytes(field: "VmRSS" | "VmHWM"): number {
    return memoryBytesOf(this.daemon.process.pid, field);
  }

  #configFile(type: string): string {
    const path = join(this.directory, `${type}.conf`);
    writeFileSync(path, this.#config(type));
    return path;
  }

  #config(type: string): string {
    const ipam = {
      type,
      subnet: "10.0.0.0/8",
      ...(type === "host-local" && { dataDir: this.#hostLocalData }),
    };
    return JSON.stringify({ cniVersion: "1.0.0", name: NETWORK, type: "bridge", ipam });
  }

  /** What the plugin binary would send, with the place that load-client fills. */
  #request(): string {
    const { dev, ino } = statSync(this.#netns);
    const body = JSON.stringify({
      command: "ADD",
      containerId: "@".repeat(64),
      netns: this.#netns,
      netnsId: `${dev}:${ino}`,
      ifname: "eth0",
      args: "",
      bootId: readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(),
      bootUs: Math.round(performance.now() * 1_000),
      config: this.#config("holdfast-ipam"),
    });
    return `POST /cni HTTP/1.1\r\nHost: holdfast\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
  }
}

export function memoryBytesOf(pid: number | undefined, field: "VmRSS" | "VmHWM"): number {
  const found = new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Number(found?.[1]) * 1_024;
}

/** In a second (getconf CLK_TCK): every Linux that Node runs on has this. */
const CLOCK_TICKS = 100;

/** Processor time that a process has taken, in its own code and in the kernel, ms. */
export function processorMsOf(pid: number | undefined): number {
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The second field is the program's name in parentheses, which may have blanks; utime and stime are 14 and 15.
  const fields = text.slice(text.lastIndexOf(") ") + 2).split(" ");
  return ((Number(fields[11]) + Number(fields[12])) * 1_000) / CLOCK_TICKS;
}

export { HOLDFAST };
