import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { type DaemonOptions, TestDaemon } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";

/** Where a sync costs nothing: enough for tests that end processes and never the machine. */
const MEMORY = "/dev/shm";

/**
 * A node without a cluster: a directory, one daemon after another in it, mounts and namespaces; all gone when the test
 * ends.
 */
export class StandaloneNode {
  readonly directory: string;
  readonly #daemons: TestDaemon[] = [];
  readonly #mounts: string[] = [];
  readonly #namespaces: string[] = [];

  constructor({ inMemory = false } = {}) {
    this.directory = mkdtempSync(join(inMemory && existsSync(MEMORY) ? MEMORY : tmpdir(), "holdfast-test-"));
    onTestFinished(() => this.#clear());
  }

  /** Starts a daemon on this node's state directory; the next one finds what the last one left. */
  async daemon(options: DaemonOptions = {}): Promise<TestDaemon> {
    const daemon = await TestDaemon.start({ directory: this.directory, ...options, wait: false });
    this.#daemons.push(daemon);
    if (options.wait !== false) expect(await readyOrEnded(daemon), daemon.log).toBe("ready");
    return daemon;
  }

  path(...names: string[]): string {
    return join(this.directory, ...names);
  }

  /** Mounts a tmpfs of that size over a directory of this node, made if it is missing. */
  mountTmpfs(path: string, size: string): void {
    mkdirSync(path, { recursive: true });
    command("mount", "-t", "tmpfs", "-o", `size=${size},mode=0700`, "holdfast-test", path);
    this.#mounts.push(path);
  }

  unmount(path: string): void {
    command("umount", path);
    this.#mounts.splice(this.#mounts.indexOf(path), 1);
  }

  addNetns(name: string): string {
    command("ip", "netns", "add", name);
    this.#namespaces.push(name);
    return `/run/netns/${name}`;
  }

  async #clear(): Promise<void> {
    for (const daemon of this.#daemons) {
      daemon.process.kill("SIGCONT");
      await daemon.end("SIGKILL");
    }
    for (const path of this.#mounts.reverse()) command("umount", "-l", path);
    for (const name of this.#namespaces) {
      if (existsSync(`/run/netns/${name}`)) command("ip", "netns", "delete", name);
    }
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** Runs a system command that must succeed. */
export function command(name: string, ...args: string[]): void {
  const { status, stderr, error } = spawnSync(name, args);
  expect({ status, stderr: String(stderr ?? error) }, [name, ...args].join(" ")).toMatchObject({ status: 0 });
}

export function hasEnded(daemon: TestDaemon): boolean {
  return daemon.process.exitCode !== null || daemon.process.signalCode !== null;
}

export async function readyOrEnded(daemon: TestDaemon): Promise<"ready" | "ended"> {
  const isReady = async () => (await daemon.get("/readyz").catch(() => null))?.status === 200;
  await until(
    async () => hasEnded(daemon) || (await isReady()),
    () => `readiness; log: ${daemon.log}`,
  );
  return hasEnded(daemon) ? "ended" : "ready";
}

/** Waits for a daemon that ends by itself. */
export async function ended(daemon: TestDaemon): Promise<{ code: number | null; log: string }> {
  await until(
    () => hasEnded(daemon),
    () => `the daemon's end; log: ${daemon.log}`,
  );
  return { code: daemon.process.exitCode, log: daemon.log };
}
