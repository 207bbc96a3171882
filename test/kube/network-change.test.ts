/**
 * A claim that follows its VM to another network over a real API server, with daemons that die or stand still in the
 * middle.
 */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { claimName, type Vm } from "../harness/kubevirt.ts";
import type { NodeDaemon } from "../harness/node.ts";
import { until } from "../harness/wait.ts";
import { died } from "../harness/world/guests.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import { ipsOf, NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const LOGICAL = "nic";
const NIC = { ifname: interfaceOf(LOGICAL) };
const ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/holdfast-node";

let world: World;
let blue: Network;
let red: Network;

beforeAll(async () => {
  world = await World.start({ api: "server", nodes: ["node-a", "node-b"], controller: {} });
  blue = await world.network("blue", { subnets: "10.1.0.0/24,fd01::/64" });
  red = await world.network("red", { subnets: "10.1.0.0/24,fd01::/64" });
});
afterAll(() => world?.stop());

const on = (network: Network) => [{ logical: LOGICAL, nad: network.name, network: network.name }];
const claimOf = (vm: Vm): Promise<KubeObject> => world.readClaim(claimName(vm, LOGICAL));
/** Networks may overlap, and a list has no networks: what is on both is listed once. */
const together = (...all: readonly (readonly string[])[]) => [...new Set(all.flat())];

/** Sooner or later: the controller brings list and network in line with what the claim has. */
async function lists(vm: Vm, network: Network, ips: readonly string[]): Promise<void> {
  const expected = JSON.stringify([network.name, ips]);
  let said = "";
  const isSaid = async () => {
    const { spec, status } = await claimOf(vm);
    said = JSON.stringify([spec.network, status?.ips]);
    return said === expected;
  };
  await until(isSaid, () => `the claim to say ${expected}; it says ${said}`);
}

/** A VM that runs on node-a with addresses of blue, and the launcher on node-b that its migration to red made. */
async function moving(name: string) {
  const vm = await world.kubevirt.createVm(NAMESPACE, name, on(blue));
  const { pod: source } = await world.kubevirt.startVm(vm, "node-a");
  const ips = await world.given(source, blue, NIC);
  const changed = await world.kubevirt.changeNetworks(vm, on(red));
  return { vm: changed, source, ips, target: await world.kubevirt.migrate(changed, "node-b") };
}

async function end(pod: KubeObject, network: Network): Promise<void> {
  await world.kubevirt.finishPod(pod);
  await world.del(pod, network, NIC);
}

test("the target has its address, and the source keeps its own until it ends", async () => {
  const { vm, source, target, ips } = await moving("follows");
  const given = await world.given(target, red, NIC);
  // A node appends; what was listed first stays so until the controller comes.
  const written = (await claimOf(vm)).status.ips;
  expect([together(ips, given), together(given, ips)]).toContainEqual(written);
  await lists(vm, red, together(given, ips));
  for (const ip of ips) await world.stays("blue", ip);
  await world.settled();
  await end(source, blue);
  for (const ip of ips) await world.becomes(blue, ip, "Cooling");
  await lists(vm, red, given);
  await world.settled();
});

describe("a daemon that is killed", () => {
  const POINTS = ["after-reserve", "before-publish", "after-publish", "before-answer"];

  test.each(POINTS)("at %s: the repeated ADD goes on with what is reserved", async (point) => {
    const b = world.node("node-b");
    await b.restart("SIGTERM", { env: { HOLDFAST_KILL_POINT: point } });
    const { vm, source, target, ips } = await moving(`killed-${point}`);
    await killed(b, target);
    const reserved = await reservedFor(vm);
    expect(reserved).toHaveLength(2);
    await b.restart();
    const given = await world.given(target, red, NIC);
    expect(given.toSorted()).toEqual(reserved);
    await lists(vm, red, together(given, ips));
    await world.settled();
    await end(source, blue);
    for (const ip of ips) await world.becomes(blue, ip, "Cooling");
    await lists(vm, red, given);
    for (const ip of reserved) await world.untilUsers(red, ip, target);
    await world.settled();
  });

  test.each(POINTS)("at %s, and the migration is given up: back on blue with what it had", async (point) => {
    const b = world.node("node-b");
    await b.restart("SIGTERM", { env: { HOLDFAST_KILL_POINT: point } });
    const { vm, source, target, ips } = await moving(`given-up-${point}`);
    await killed(b, target);
    const reserved = await reservedFor(vm);
    await b.restart();
    await world.kubevirt.failMigration(target);
    await world.del(target, red, NIC);
    const back = await world.kubevirt.changeNetworks(vm, on(blue));
    const next = await world.kubevirt.migrate(back, "node-b");
    expect(await world.given(next, blue, NIC)).toEqual(ips);
    await end(source, blue);
    for (const ip of reserved) await world.becomes(red, ip, "Cooling");
    await lists(vm, blue, ips);
    for (const ip of ips) await world.untilUsers(blue, ip, next);
    await world.settled();
  });
});

test.each(["after-reserve", "before-publish", "after-publish"])(
  "a daemon that stands still at %s, while the VM goes back: the late ADD changes nothing that another one has",
  async (point) => {
    const b = world.node("node-b");
    await b.restart("SIGTERM", { env: { HOLDFAST_KILL_POINT: `${point}:1:SIGSTOP` } });
    const { vm, source, target, ips } = await moving(`still-${point}`);
    const pending = world.add(target, red, NIC);
    await until(() => isStopped(b), `the stop at ${point}`);
    const back = await world.kubevirt.changeNetworks(vm, on(blue));
    const next = await world.kubevirt.migrate(back, "node-a");
    expect(await world.given(next, blue, NIC)).toEqual(ips);
    b.process.kill("SIGCONT");
    const late = await pending;
    // What it had published is answered, and kept for its pod.
    if (late.code === 0) for (const ip of ipsOf(late)) await world.untilUsers(red, ip, target);
    else expect(late.json().code, late.stdout).toBe(125);
    for (const ip of ips) await world.untilUsers(blue, ip, source, next);
    await world.settled();
    await end(target, red);
    await lists(vm, blue, ips);
    await world.settled();
    // The VM is to be on blue, and has there what it had.
    const { pod } = await restarted(back, [source, next]);
    expect(await world.given(pod, blue, NIC)).toEqual(ips);
    await lists(vm, blue, ips);
    await world.settled();
  },
);

test("without the right to write the claim, the refusal says which one is missing", async () => {
  const role = await world.cluster.api.get(ROLE);
  const without = role.rules.map((rule: KubeObject) =>
    rule.resources.includes("ipamclaims/status") ? { ...rule, verbs: ["get"] } : rule,
  );
  const { vm, source, target } = await moving("no-right");
  await world.cluster.api.patch(ROLE, { rules: without });
  const asked = () => world.add(target, red, NIC);
  const node = world.server.apiAs("holdfast-node");
  const claim = pathOf(NAMESPACE, "ipamclaims", claimName(vm, LOGICAL), "k8s.cni.cncf.io/v1alpha1");
  const merge = { "content-type": "application/merge-patch+json" };
  await until(
    async () => (await node.call("PATCH", `${claim}/status`, {}, merge)).status === 403,
    "the right to be missing",
  );
  node.close();
  const { code, msg } = (await asked()).json();
  expect(code).toBe(11);
  // A right that has just gone may be on its way: the write is tried again for as long as the ADD may take.
  expect(msg).toMatch(/IPAMClaim shop\/no-right\.nic|ipamclaims\/no-right\.nic\/status/);
  expect(msg).toMatch(/: 403 .*cannot patch resource "ipamclaims\/status"/);
  await world.cluster.api.patch(ROLE, { rules: role.rules });
  let given: string[] = [];
  await until(async () => {
    const answer = await asked();
    if (answer.code === 0) given = ipsOf(answer);
    return answer.code === 0;
  }, "the right to be back");
  await end(source, blue);
  await lists(vm, red, given);
  await world.settled();
});

/** What red has for the VM's claim, sorted. */
async function reservedFor(vm: Vm): Promise<string[]> {
  const { uid } = (await claimOf(vm)).metadata;
  const all = await world.bound(red);
  return all.flatMap((one) => (one.endsWith(uid) ? [one.split(" ")[0] as string] : [])).sort();
}

async function killed(node: NodeDaemon, target: KubeObject): Promise<void> {
  await until(
    async () => {
      const answer = await node.add(target, { config: red.config, ...NIC });
      expect(answer.code, `answered although killed: ${answer.stdout}`).not.toBe(0);
      return node.process.signalCode !== null;
    },
    () => `the kill; log: ${node.log}`,
  );
  await died(node);
}

async function restarted(vm: Vm, pods: readonly KubeObject[]) {
  await world.kubevirt.stopVm(vm, { remove: false });
  for (const pod of pods) {
    await world.del(pod, blue, NIC);
    await world.kubevirt.removePod(pod);
  }
  return world.kubevirt.startVm(vm, "node-b");
}

function isStopped({ process }: NodeDaemon): boolean {
  return /^State:\s+T/m.test(readFileSync(`/proc/${process.pid}/status`, "utf8"));
}
