import { existsSync } from "node:fs";
import { join } from "node:path";
import { type CniAnswer, run, type ServedDaemon, SHIM } from "../harness/daemon.ts";
import { skippedFor } from "../harness/needs.ts";
import { pause } from "../harness/wait.ts";

export const PLUGINS = ["/usr/lib/cni", "/opt/cni/bin"].find((directory) => existsSync(join(directory, "bridge")));

/** Why real namespaces and plugins cannot be used; null when they can. In CI they must be there. */
export function whyNotReal(): string | null {
  return skippedFor(
    process.getuid?.() !== 0 ? "not root" : PLUGINS === undefined ? "no bridge plugin installed" : null,
  );
}

let lastNumber = 0;

/** Containers that are network namespaces, attached through real plugins. Everything is removed by `remove`. */
export class Containers {
  readonly #daemon: ServedDaemon;
  readonly #namespaces = new Set<string>();
  readonly #links = new Set<string>();

  constructor(daemon: ServedDaemon) {
    this.#daemon = daemon;
  }

  /** An interface name nobody else on this machine uses. */
  link(prefix: string): string {
    lastNumber += 1;
    const name = `${prefix}${process.pid % 100_000}n${lastNumber}`;
    this.#links.add(name);
    return name;
  }

  async create(container: string): Promise<string> {
    lastNumber += 1;
    const name = `hft-${process.pid}-${lastNumber}-${container}`;
    await mustRun("ip", ["netns", "add", name]);
    await mustRun("ip", ["-n", name, "link", "set", "lo", "up"]);
    this.#namespaces.add(name);
    return name;
  }

  /** Runs the main plugin of `config` (bridge, macvlan, …), which runs holdfast-ipam. */
  async cni(
    verb: string,
    container: string,
    namespace: string,
    config: Readonly<Record<string, unknown>>,
    args = "",
    ifname = "eth0",
    stdin = JSON.stringify(config),
  ): Promise<CniAnswer> {
    const answer = await run(
      join(PLUGINS as string, String(config.type)),
      [],
      {
        CNI_COMMAND: verb,
        CNI_CONTAINERID: container,
        CNI_NETNS: `/var/run/netns/${namespace}`,
        CNI_IFNAME: ifname,
        CNI_PATH: `${join(SHIM, "..")}:${PLUGINS}`,
        ...(args === "" ? {} : { CNI_ARGS: args }),
        HOLDFAST_SOCKET: this.#daemon.socket,
        HOLDFAST_SPOOL: this.#daemon.spool,
      },
      stdin,
    );
    return { ...answer, json: () => JSON.parse(answer.stdout) };
  }

  /** Addresses the kernel has on the interface, global ones. */
  async kernelAddresses(namespace: string, device = "eth0"): Promise<string[]> {
    const { stdout } = await mustRun("ip", [
      "-n",
      namespace,
      "-json",
      "address",
      "show",
      "dev",
      device,
      "scope",
      "global",
    ]);
    const [link] = JSON.parse(stdout) as { addr_info: { local: string; prefixlen: number }[] }[];
    return (link?.addr_info ?? []).filter((one) => one.local).map((one) => `${one.local}/${one.prefixlen}`);
  }

  async reaches(namespace: string, address: string): Promise<boolean> {
    for (let attempt = 0; attempt < 8; attempt += 1) {
      const { code } = await run("ip", ["netns", "exec", namespace, "ping", "-c", "1", "-W", "2", address]);
      if (code === 0) return true;
      // IPv6 addresses answer after duplicate address detection.
      await pause(300);
    }
    return false;
  }

  async destroy(namespace: string): Promise<void> {
    this.#namespaces.delete(namespace);
    await run("ip", ["netns", "delete", namespace]);
  }

  async remove(): Promise<void> {
    for (const namespace of [...this.#namespaces]) await this.destroy(namespace);
    for (const link of this.#links) await run("ip", ["link", "delete", link]);
  }
}

export async function mustRun(command: string, args: readonly string[]): Promise<{ stdout: string }> {
  const answer = await run(command, args);
  if (answer.code !== 0) throw new Error(`${command} ${args.join(" ")}: ${answer.stderr}`);
  return answer;
}
