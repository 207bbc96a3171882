/** Whose name a machine has: the boot that the Node object reports must be its own before anything is settled. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { forgetBoot, TestDaemon } from "../harness/daemon.ts";
import type { NodeDaemon } from "../harness/node.ts";
import { pause, until } from "../harness/wait.ts";
import { added, addedInTheEnd, checked } from "../harness/world/guests.ts";
import { World } from "../harness/world/world.ts";

const NEXT_BOOT = "33333333-4444-4555-8666-777777777777";

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "memory", time: "machine", node: { process: true } });
});
afterAll(async () => {
  await world?.stop();
});

/** Starts the node's machine again, in its next boot, under a name. */
async function restartAs(node: NodeDaemon, name: string): Promise<void> {
  writeFileSync(join(node.daemon.directory, "boot-id"), `${NEXT_BOOT}\n`);
  forgetBoot(node.daemon.directory);
  await startAs(node, name);
}

/** Starts the node's daemon again under a name, in the boot that its file tells. */
async function startAs(node: NodeDaemon, name: string): Promise<void> {
  const file = join(node.daemon.directory, "boot-id");
  await node.daemon.end("SIGKILL");
  node.daemon = await TestDaemon.start({
    directory: node.daemon.directory,
    args: ["--kubeconfig", node.options.kubeconfig, "--node", name, "--boot-id-file", file],
    wait: false,
  });
  await until(
    () => node.log.includes("not ready yet"),
    () => `what it says of its name; log: ${node.log}`,
  );
}

async function whyNotReady(node: NodeDaemon): Promise<string> {
  const { status, body } = await node.daemon.get("/readyz");
  expect(status).toBe(503);
  return body;
}

test("a machine that starts under another node's name releases nothing, and names that node", async () => {
  const net = await world.network("names", { subnets: "10.72.0.0/24" });
  const [a, b] = [await world.startNode("node-a"), await world.startNode("node-b")];
  const guests = [await world.guest(net, b.name), await world.guest(net, b.name), await world.vmGuest(net, b.name)];
  for (const guest of guests) await added(b, guest);
  const own = await world.guest(net, a.name);
  await added(a, own);
  const bound = await world.bound(net);
  expect(bound).toHaveLength(4);

  await restartAs(a, b.name);
  const why = await whyNotReady(a);
  expect(why).toContain(`Node ${b.name} reports boot`);
  expect(why).toContain(NEXT_BOOT);
  const { code, stdout } = await a.daemon.cli("check");
  expect({ code, stdout }).toEqual({
    code: 1,
    stdout: expect.stringContaining(`Node ${b.name} reports boot`),
  });
  const other = await world.guest(net, b.name);
  expect((await a.add(other.pod, other.options)).json()).toMatchObject({ code: 11 });
  await a.restart("SIGKILL");
  expect(await world.bound(net)).toEqual(bound);
  await checked(a);
  await checked(b);
});

test("a node that was restarted waits until its kubelet has reported the new boot", async () => {
  const net = await world.network("waits", { subnets: "10.73.0.0/24" });
  const node = await world.startNode("node-c");
  const guest = await world.guest(net, node.name);
  const ips = await added(node, guest);
  await restartAs(node, node.name);
  expect(await whyNotReady(node)).toContain("its kubelet has not reported since a restart");
  await world.kubevirt.reportBoot(node.name, NEXT_BOOT);
  await node.daemon.ready();
  const answer = await node.daemon.cni("ADD", `sandbox-${guest.pod.metadata.uid}`, {
    config: net.config,
    ifname: "net1",
    args: `IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=${guest.pod.metadata.name};K8S_POD_UID=${guest.pod.metadata.uid}`,
  });
  expect(answer.json().ips.map(({ address }: { address: string }) => address)).toEqual(ips);
});

test("a daemon that gets another node's name within its boot is not ready, and records nothing", async () => {
  const net = await world.network("renamed", { subnets: "10.75.0.0/24" });
  const [a, b] = [await world.startNode("node-e"), await world.startNode("node-f")];
  await world.kubevirt.reportBoot(a.name, NEXT_BOOT);
  const guest = await world.guest(net, a.name);
  await added(a, guest);
  const bound = await world.bound(net);

  writeFileSync(join(b.daemon.directory, "boot-id"), readFileSync("/proc/sys/kernel/random/boot_id"));
  await startAs(b, a.name);
  expect(await whyNotReady(b)).toContain(`Node ${a.name} reports boot ${NEXT_BOOT}`);
  await b.restart("SIGKILL");
  expect(await world.bound(net)).toEqual(bound);
  await checked(b);
});

test("a cloned machine under its origin's name ends nothing of the copied journal, so nothing is released when the Node is deleted", async () => {
  const graceS = 2;
  const net = await world.network("cloned", { subnets: "10.76.0.0/24" });
  const node = await world.startNode("node-g");
  const guest = await world.guest(net, node.name);
  await added(node, guest);
  const bound = await world.bound(net);
  const directory = mkdtempSync(join(tmpdir(), "holdfast-test-"));
  cpSync(node.daemon.state, join(directory, "state"), { recursive: true });
  const bootId = join(directory, "boot-id");
  writeFileSync(bootId, `${NEXT_BOOT}\n`);
  const witness = ["--witness-interval-seconds", "1", "--witness-grace-seconds", `${graceS}`];
  const { kubeconfig, node: name } = node.options;
  const clone = await TestDaemon.start({
    directory,
    args: ["--kubeconfig", kubeconfig, "--node", name, "--boot-id-file", bootId, ...witness],
    wait: false,
  });
  try {
    await until(
      () => clone.log.includes("not ready yet"),
      () => clone.log,
    );
    // By force: its container runs on.
    await world.kubevirt.removePod(guest.pod);
    await pause((graceS + 2) * 1_000);
    expect(clone.log).not.toContain("no DEL came");
    await world.kubevirt.deleteNode(name);
    await clone.ready();
    expect(await world.bound(net)).toEqual(bound);
  } finally {
    await clone.end("SIGKILL");
    rmSync(directory, { recursive: true, force: true });
  }
});

test("a Node that reports no boot ID is served all the same", async () => {
  const net = await world.network("silent", { subnets: "10.74.0.0/24" });
  const node = await world.startNode("node-d");
  const guest = await world.guest(net, node.name);
  const ips = await added(node, guest);
  await world.kubevirt.reportBoot(node.name, "");
  await node.daemon.end("SIGKILL");
  await node.restart();
  expect(await addedInTheEnd(node, guest)).toEqual(ips);
});
