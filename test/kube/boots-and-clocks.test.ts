/** Nodes that boot anew, and nodes whose wall clocks are minutes apart. */
import { cpSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newAllocation } from "../../allocations/allocation-object.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import { wireRequest } from "../faults/wire.ts";
import { forgetBoot, TestDaemon } from "../harness/daemon.ts";
import { cniArgs, type NodeDaemon } from "../harness/node.ts";
import { until } from "../harness/wait.ts";
import { added, addedInTheEnd, deleted, type Guest, optionsOf } from "../harness/world/guests.ts";
import { ipsOf, NAMESPACE } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const WITNESS = [
  ...["--witness-interval-seconds", "1", "--witness-grace-seconds", "1"],
  // What it uses is listed within as much time after a reboot.
  ...["--reassert-interval-seconds", "5"],
];
const NEXT_BOOT = "11111111-2222-4333-8444-555555555555";
const FIVE_MINUTES_MS = 300_000;

let world: World;
let directory: string;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "holdfast-test-"));
  world = await World.start({ api: "memory", time: "machine", node: { process: true } });
  await world.startController();
  await world.kubevirt.createNamespace("bank");
});
afterAll(async () => {
  await world?.stop();
  rmSync(directory, { recursive: true, force: true });
});

/** Starts the node's daemon again, on a machine that says it is in another boot. */
async function bootAnew(node: NodeDaemon): Promise<void> {
  const file = join(directory, "boot-id");
  writeFileSync(file, `${NEXT_BOOT}\n`);
  const { kubeconfig, node: name } = node.options;
  await world.kubevirt.reportBoot(name, NEXT_BOOT);
  forgetBoot(node.daemon.directory);
  node.daemon = await TestDaemon.start({
    directory: node.daemon.directory,
    args: ["--kubeconfig", kubeconfig, "--node", name, "--boot-id-file", file, ...WITNESS],
  });
}

let bootUs = 1_000;

/** A call of the new boot, whose clock began at zero: that of the plugin binary here goes on. */
async function inNewBoot(node: NodeDaemon, verb: "ADD" | "DEL", guest: Guest, containerId: string): Promise<string[]> {
  bootUs += 1;
  const { ifname = "net1", config } = guest.options;
  const args = cniArgs(guest.pod, containerId);
  const wire = { config: JSON.parse(config as string), ifname, args, bootId: NEXT_BOOT, bootUs };
  const answer = await node.daemon.post("/cni", wireRequest(verb, containerId, wire));
  expect(answer.status, answer.body).toBe(200);
  return verb === "ADD" ? answer.json().ips.map(({ address }: { address: string }) => address) : [];
}

/** A DEL of the boot before, which the plugin binary had left in the spool. */
async function deletedBefore(node: NodeDaemon, guest: Guest, containerId: string): Promise<void> {
  const { ifname = "net1", config } = guest.options;
  const wire = wireRequest("DEL", containerId, { ifname, config: JSON.parse(config as string) });
  const { spool } = node.daemon;
  writeFileSync(join(spool, ".tmp-late"), JSON.stringify(wire));
  renameSync(join(spool, ".tmp-late"), join(spool, "1-1-0.json"));
  await until(() => readdirSync(spool).length === 0, "the spool to be drained");
}

test("after a reboot addresses are kept until their pod has ended, and DELs of the old boot change nothing", async () => {
  const net = await world.network("reboot", { subnets: "10.65.0.0/24,fd65::/64" });
  const node = await world.startNode("node-a", { args: WITNESS });
  const [pod, gone, vm] = [
    await world.guest(net, node.name),
    await world.guest(net, node.name),
    await world.vmGuest(net, node.name),
  ];
  const [podIps, goneIps, vmIps] = [await added(node, pod), await added(node, gone), await added(node, vm)];
  await node.daemon.end("SIGKILL");
  await world.kubevirt.removePod(gone.pod);
  expect(await world.bound(net)).toEqual(
    [
      ...(await world.holding(pod, podIps)),
      ...(await world.holding(gone, goneIps)),
      ...(await world.holding(vm, vmIps)),
    ].sort(),
  );
  await bootAnew(node);
  const living = [
    [pod, podIps],
    [vm, vmIps],
  ] as const;
  await world.settledWith(net, living);
  // The kubelet makes new sandboxes for pods that live on.
  expect(await inNewBoot(node, "ADD", pod, "booted-pod")).toEqual(podIps);
  expect(await inNewBoot(node, "ADD", vm, "booted-vm")).toEqual(vmIps);
  for (const [guest, containerId] of [
    [pod, `sandbox-${pod.pod.metadata.uid}`],
    [pod, "booted-pod"],
    [vm, `sandbox-${vm.pod.metadata.uid}`],
    [vm, "booted-vm"],
  ] as const)
    await deletedBefore(node, guest, containerId);
  await world.settledWith(net, living);
  const keys = (await world.allocations(net)).map(({ status }) => Object.keys(status?.attachments ?? {}).join());
  expect(keys.filter((key) => key !== "").sort()).toEqual(
    ["booted-pod/net1", "booted-pod/net1", ...Array(2).fill(`booted-vm/${optionsOf(net).ifname}`)].sort(),
  );
  await inNewBoot(node, "DEL", pod, "booted-pod");
  await inNewBoot(node, "DEL", vm, "booted-vm");
  await world.settledWith(net, [[vm, vmIps]]);
});

test("a DEL that could not tell its boot ends what its container had in the boot before", async () => {
  const net = await world.network("untold", { subnets: "10.66.0.0/24" });
  const node = await world.startNode("node-untold", { args: WITNESS });
  const [ended, running] = [await world.guest(net, node.name), await world.guest(net, node.name)];
  await added(node, ended);
  const ips = await added(node, running);
  await node.daemon.end("SIGKILL");
  // The kubelet begins with what ran before, and the plugin binary finds neither the daemon's word nor the kernel's.
  const { ifname = "net1", config } = ended.options;
  const wire = { ifname, config: JSON.parse(config as string), bootId: "", bootUs: 500 };
  const del = wireRequest("DEL", `sandbox-${ended.pod.metadata.uid}`, wire);
  writeFileSync(join(node.daemon.spool, "1-1-0.json"), JSON.stringify(del));
  await bootAnew(node);
  await world.settledWith(net, [[running, ips]]);
});

test("after a power loss during an ADD the allocation that the journal does not know is released", async () => {
  const net = await world.network("power", { subnets: "10.67.0.0/24" });
  const node = await world.startNode("node-b", { args: WITNESS });
  const living = await world.guest(net, node.name);
  const ips = await added(node, living);
  const ghost = { namespace: NAMESPACE, name: "ghost", uid: "ghost-uid" };
  const since = "2026-01-01T00:00:00Z";
  const reserved = newAllocation(
    net.name,
    parseInterfaceAddress("10.67.0.200/24"),
    {
      owner: { kind: "Pod", interface: "net1", ...ghost },
      attachment: { containerID: "ghost", interface: "net1", node: node.name, pod: ghost, since },
    },
    since,
  );
  await world.cluster.api.create(ALLOCATIONS_PATH, reserved);
  await node.daemon.end("SIGKILL");
  await bootAnew(node);
  await world.settledWith(net, [[living, ips]]);
});

test("with a journal copied in an earlier boot running pods keep their addresses", async () => {
  const net = await world.network("copied", { subnets: "10.68.0.0/24" });
  const node = await world.startNode("node-copied", { args: WITNESS });
  const former = await world.guest(net, node.name);
  const formerIps = await added(node, former);
  await node.daemon.end("SIGTERM");
  const copy = join(directory, "copy");
  cpSync(node.daemon.state, copy, { recursive: true });
  await bootAnew(node);
  const now = await world.guest(net, node.name);
  const nowIps = await inNewBoot(node, "ADD", now, "now");
  await node.daemon.end("SIGTERM");
  rmSync(node.daemon.state, { recursive: true });
  cpSync(copy, node.daemon.state, { recursive: true });
  await bootAnew(node);
  await until(() => node.log.includes("is recorded again"), "what runs to be recorded");
  await world.settledWith(net, [
    [former, formerIps],
    [now, nowIps],
  ]);
  await inNewBoot(node, "DEL", now, "now");
  await world.settledWith(net, [[former, formerIps]]);
});

/** A daemon whose wall clock is off by so much. */
function clockOff(ms: number): Readonly<Record<string, string>> {
  const script = join(directory, `clock${ms}.cjs`);
  writeFileSync(
    script,
    `const RealDate = Date;
     const now = () => RealDate.now() + ${ms};
     globalThis.Date = class extends RealDate {
       constructor(...parts) { parts.length === 0 ? super(now()) : super(...parts); }
       static now() { return now(); }
     };`,
  );
  return { NODE_OPTIONS: `--require=${script}` };
}

test("with node clocks ten minutes apart cool-downs have their length and no address is given twice", async () => {
  const cooldownSeconds = 4;
  const net = await world.network("clocks", { subnets: "10.66.0.0/24,fd66::/64", cooldownSeconds });
  const slow = await world.startNode("node-slow", { env: clockOff(-FIVE_MINUTES_MS) });
  const fast = await world.startNode("node-fast", { env: clockOff(FIVE_MINUTES_MS) });
  const vm = await world.vmGuest(net, slow.name);
  const vmIps = await added(slow, vm);
  const target = await world.target(vm, fast.name);
  expect(await added(fast, target)).toEqual(vmIps);
  await deleted(slow, vm);

  for (const [leaves, takes] of [
    [slow, fast],
    [fast, slow],
  ] as const) {
    const former = await world.guest(net, leaves.name);
    const ips = await added(leaves, former);
    await deleted(leaves, former);
    const endedMs = performance.now();
    await world.settledWith(net, [[vm, vmIps]], [leaves]);
    // Of another namespace: a request of the same one need not wait.
    const networks = [{ name: net.name, namespace: NAMESPACE }];
    const pod = await world.kubevirt.createPod("bank", `next-${takes.name}`, { node: takes.name, networks });
    const next = { pod, network: net, options: { config: net.config }, vm: null };
    const moreArgs = `;IP=${ips[0]?.split("/")[0]}`;
    const early = await takes.add(next.pod, { ...next.options, moreArgs });
    // On a machine so slow that the rest is over nothing can be said about it.
    if (performance.now() - endedMs < cooldownSeconds * 1_000) {
      expect(early.code, `given at once: ${early.stdout}`).not.toBe(0);
    }
    let taken: string[] = early.code === 0 ? ipsOf(early) : [];
    await until(async () => {
      if (taken.length > 0) return true;
      const answer = await takes.add(next.pod, { ...next.options, moreArgs });
      if (answer.code === 0) taken = ipsOf(answer);
      return answer.code === 0;
    }, `the rest's end on ${takes.name}`);
    expect(taken[0]).toBe(ips[0]);
    await world.settledWith(net, [
      [vm, vmIps],
      [next, taken],
    ]);
    await deleted(takes, next);
    await world.settledWith(net, [[vm, vmIps]]);
  }
  expect(await addedInTheEnd(slow, await world.target(vm, slow.name))).toEqual(vmIps);
});
