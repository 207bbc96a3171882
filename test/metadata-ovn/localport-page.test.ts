import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { network, run, TestDaemon } from "../harness/daemon.ts";
import { codeBlocks } from "../harness/documents.ts";
import { until } from "../harness/wait.ts";
import { type Pod, whyNoOvn, Zone } from "./zone.ts";

// The commands of docs/metadata-ovn.md, typed as they are written, on a real OVN with guests.

const PROJECT = join(import.meta.dirname, "../..");
const NETWORKS = ["red", "blue"];
const LEASE = `#!/bin/sh
[ "$1" = bound ] || exit 0
ip address add "$ip/$mask" dev "$interface"
set -- $staticroutes
while [ $# -ge 2 ]; do ip route add "$1" via "$2" dev "$interface"; shift 2; done
`;

describe.skipIf(whyNoOvn() !== null)("a localport for each network, as the page has it", () => {
  let zone: Zone;
  let daemon: TestDaemon;
  let servers: ChildProcess | null = null;
  const guests: Pod[] = [];
  /** What the servers have printed. */
  let said = "";
  const prefix = `hft-${process.pid}-metadata`;

  beforeAll(async () => {
    zone = await Zone.start("node-a");
    daemon = await TestDaemon.start();
    for (const name of NETWORKS) {
      const reserved = { gateway: "10.0.0.1", excludeSubnets: "10.0.0.2/31,10.0.0.4/32" };
      const config = network(name, { subnets: "10.0.0.0/24", cooldownSeconds: 0, ...reserved });
      const added = await daemon.cni("ADD", `vm-${name}`, { config });
      expect(added.json().ips[0].address).toBe("10.0.0.5/24");
    }
    const blocks = codeBlocks("docs/metadata-ovn.md", "A localport for each network");
    const last = blocks.pop() as string;
    for (const block of blocks) {
      const { code, stderr } = await finished(typing(block));
      expect(code, `${block}\n${stderr}`).toBe(0);
    }
    servers = typing(`${last}wait`);
    for (const stream of [servers.stdout, servers.stderr])
      stream?.on("data", (chunk: Buffer) => {
        said += chunk;
      });
    for (const name of NETWORKS) guests.push(await guestOf(name));
    await zone.central.settle();
  });
  afterAll(async () => {
    // With everything that it has started.
    if (servers?.pid !== undefined && servers.exitCode === null) {
      const exited = once(servers, "exit");
      process.kill(-servers.pid, "SIGTERM");
      await exited;
    }
    await daemon?.stop();
    for (const name of NETWORKS) await run("ip", ["netns", "delete", `${prefix}-${name}`]);
    await zone?.stop();
  });

  /** A shell on the node, with the northbound database and the switch where the tools look for them. */
  function typing(block: string): ChildProcess {
    const here = block
      .replaceAll("metadata-$network", `${prefix}-$network`)
      .replaceAll("/var/lib/", `${daemon.directory}/`);
    const env = {
      PATH: `${join(PROJECT, "dist/bin")}:${process.env.PATH}:/usr/sbin:/sbin`,
      OVN_NB_DB: `unix:${zone.central.northbound}`,
      OVS_RUNDIR: zone.chassis.ovs.directory,
      HOLDFAST_IDENTITY_SOCKET: join(daemon.directory, "identity.sock"),
    };
    const args = [`--net=/run/netns/${zone.namespace}`, "bash", "-euc", here];
    return spawn("nsenter", args, { env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  }

  /** A guest at its port, which takes its lease. */
  async function guestOf(name: string): Promise<Pod> {
    const guest = await zone.plug(`${name}-guest`, "10.0.0.5", "02:00:00:00:00:05");
    const script = join(zone.central.directory, "lease.sh");
    writeFileSync(script, LEASE);
    chmodSync(script, 0o755);
    const client = ["udhcpc", "-i", "eth0", "-s", script, "-q", "-n", "-t", "10", "-T", "1", "-O", "121"];
    const { code, stderr } = await guest.run("busybox", client);
    expect(code, stderr).toBe(0);
    return guest;
  }

  const nameOf = async (guest: Pod) => {
    const { status, body } = await guest.ask("/openstack/latest/meta_data.json", ["--max-time", "4"]);
    return status === 200 ? JSON.parse(body).name : `status ${status}`;
  };

  async function bothAnswered(): Promise<void> {
    for (const [i, guest] of guests.entries()) {
      const expected = `vm-${NETWORKS[i]}`;
      let last = "";
      const isRight = async () => {
        last = await nameOf(guest);
        return last === expected;
      };
      await until(isRight, () => `${expected}; the last answer was ${last}\n${said}`, 20_000);
    }
  }

  test("a lease has the route, and two guests with one address each get their own name", async () => {
    const { stdout } = await (guests[0] as Pod).run("ip", ["route"]);
    expect(stdout).toContain("169.254.169.254 via 10.0.0.2");
    await bothAnswered();
    const { body } = await (guests[0] as Pod).ask("/latest/meta-data/local-ipv4");
    expect(body).toBe("10.0.0.5");
  });

  test("a guest with a default route only is led there by its router", async () => {
    for (const guest of guests) await guest.run("ip", ["route", "delete", "169.254.169.254"]);
    await bothAnswered();
  });

  test("a guest with 169.254/16 on link and no other route is answered", async () => {
    for (const guest of guests) {
      await guest.run("ip", ["route", "delete", "default"]);
      await guest.run("ip", ["route", "add", "169.254.0.0/16", "dev", "eth0"]);
    }
    await bothAnswered();
  });

  test("a guest that takes another address is not answered", async () => {
    const [guest] = guests as [Pod];
    await guest.run("ip", ["address", "add", "10.0.0.6/24", "dev", "eth0"]);
    const { status } = await guest.ask("/latest/meta-data/", ["--interface", "10.0.0.6", "--max-time", "2"]);
    expect(status).toBe(0);
  });
});

async function finished(child: ChildProcess): Promise<{ code: number | null; stderr: string }> {
  let stderr = "";
  child.stderr?.on("data", (chunk: Buffer) => {
    stderr += chunk;
  });
  child.stdout?.resume();
  await once(child, "close");
  return { code: child.exitCode, stderr };
}
