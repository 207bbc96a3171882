/** A VM that asks for addresses, by the annotation that people and Forklift write into its template. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { claimName, type Vm } from "../harness/kubevirt.ts";
import { interfaceOf, KUBEVIRT, NETWORKS } from "../harness/world/kubevirt-objects.ts";
import { NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

/** The network's name in each VM. */
const LOGICAL = "nic";
const NIC = { ifname: interfaceOf(LOGICAL) };
const ANNOTATION = "network.kubevirt.io/addresses";

/** A little more than a network's cooldownSeconds. */
const COOLDOWN_MS = 61_000;

let world: World;
let blue: Network;

beforeAll(async () => {
  const controller = { coolingKeepSeconds: 3_600 };
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"], admission: true, controller });
  const subnets = "10.1.0.0/24,fd01::/64";
  blue = await world.network("blue", {
    subnets,
    excludeSubnets: "10.1.0.200/29",
    // What these tests ask for is never given to a VM that asks for nothing.
    reservedSubnets: "10.1.0.48/28,10.1.0.64/26",
    gateway: "10.1.0.254",
  });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

const claimOf = (vm: Vm): Promise<KubeObject> => world.readClaim(claimName(vm, LOGICAL));
/** Sooner or later: until the controller comes, what a claim has now is listed after what it had. */
const lists = (vm: Vm, ips: readonly string[]) => world.untilLists(claimName(vm, LOGICAL), ips);
const asking = (...addresses: readonly string[]) => ({ [LOGICAL]: addresses });

/** A VM on blue whose template has the annotation; a text is written as it is. */
async function vmThatAsks(name: string, asked: object | string, more: Partial<Vm> = {}): Promise<Vm> {
  const networks = [{ logical: LOGICAL, nad: "blue", network: "blue" }];
  const vm = await world.kubevirt.createVm(NAMESPACE, name, networks);
  return { ...again(vm, asked), ...more };
}

/** With another annotation from its next start on. */
function again(vm: Vm, asked: object | string): Vm {
  const text = typeof asked === "string" ? asked : JSON.stringify(asked);
  return { ...vm, annotations: { [ANNOTATION]: text } };
}

async function started(vm: Vm, node = "node-a") {
  const { vmi, pod } = await world.kubevirt.startVm(vm, node);
  return { vmi, pod, ips: await world.given(pod, blue, NIC) };
}

async function stopped(vm: Vm, pod: KubeObject, network = blue): Promise<void> {
  await world.kubevirt.stopVm(vm, { remove: false });
  await world.del(pod, network, NIC);
  await world.kubevirt.removePod(pod);
}

describe("a claim without addresses", () => {
  test("gets those of both families that are asked for, in the order of the subnets", async () => {
    const vm = await vmThatAsks("both", asking("fd01::50", "10.1.0.50"));
    const { pod, ips } = await started(vm);
    expect(ips).toEqual(["10.1.0.50/24", "fd01::50/64"]);
    expect((await claimOf(vm)).status.ips).toEqual(ips);
    const target = await world.kubevirt.migrate(vm, "node-b");
    expect(await world.given(target, blue, NIC)).toEqual(ips);
    await world.kubevirt.finishPod(pod);
    await world.del(pod, blue, NIC);
    await stopped(vm, target);
    expect((await started(vm, "node-b")).ips).toEqual(ips);
  });

  test("gets the rest allocated where one family is named", async () => {
    const vm = await vmThatAsks("one", asking("10.1.0.51"));
    const { ips } = await started(vm);
    expect(ips[0]).toBe("10.1.0.51/24");
    expect(ips[1]).toMatch(/^fd01::/);
    expect((await claimOf(vm)).status.ips).toEqual(ips);
  });

  test("gets them by the ordinal name of its interface too", async () => {
    const vm = await vmThatAsks("ordinal", asking("10.1.0.52"), { isOrdinal: true });
    const { pod } = await world.kubevirt.startVm(vm, "node-a");
    expect((await world.given(pod, blue, { ifname: "net1" }))[0]).toBe("10.1.0.52/24");
  });

  test("gets any where the annotation names another network of the VM only, or is empty", async () => {
    for (const [name, text] of [
      ["others", '{"default": ["10.1.0.253"]}'],
      ["empty", ""],
      ["none", '{"nic": []}'],
    ] as const) {
      const { ips } = await started(await vmThatAsks(name, text));
      expect(ips).not.toContain("10.1.0.253/24");
    }
  });
});

describe("a claim with other addresses", () => {
  test("moves at the next start; those it had cool down, and claim and VMI are told", async () => {
    const vm = await vmThatAsks("moves", asking("10.1.0.60", "fd01::60"));
    const first = await started(vm);
    await stopped(vm, first.pod);
    const changed = again(vm, asking("10.1.0.61", "fd01::61"));
    const second = await started(changed, "node-b");
    expect(second.ips).toEqual(["10.1.0.61/24", "fd01::61/64"]);
    await lists(changed, second.ips);
    const claim = await claimOf(vm);
    const text = "10.1.0.61/24, fd01::61/64 on network blue in place of 10.1.0.60/24, fd01::60/64, as the VM asks for";
    for (const object of [claim, second.vmi]) expect(await world.untilEvent(object, "AddressChanged")).toBe(text);
    for (const ip of first.ips) await world.becomes(blue, ip, "Cooling");
    await stopped(changed, second.pod);
    expect((await started(changed)).ips).toEqual(second.ips);
  });

  test("keeps the one of a family that is not named", async () => {
    const vm = await vmThatAsks("half", asking("10.1.0.62", "fd01::62"));
    const first = await started(vm);
    await stopped(vm, first.pod);
    const second = await started(again(vm, asking("10.1.0.63")));
    expect(second.ips).toEqual(["10.1.0.63/24", "fd01::62/64"]);
    await lists(vm, second.ips);
    await world.becomes(blue, "10.1.0.62/24", "Cooling");
    await world.untilUsers(blue, "fd01::62/64", second.pod);
  });

  test("moves right after the DEL, and back again", async () => {
    const vm = await vmThatAsks("hurries", asking("10.1.0.64"));
    const first = await started(vm);
    await stopped(vm, first.pod);
    const second = await started(again(vm, asking("10.1.0.65")), "node-b");
    expect(second.ips[0]).toBe("10.1.0.65/24");
    await stopped(vm, second.pod);
    const third = await started(vm);
    expect(third.ips).toEqual(first.ips);
    await lists(vm, first.ips);
    await world.becomes(blue, "10.1.0.65/24", "Cooling");
  });

  test("keeps what it has while its VM migrates, and the VM is told to restart", async () => {
    const vm = await vmThatAsks("edited", asking("10.1.0.66"));
    const { vmi, pod, ips } = await started(vm);
    const path = pathOf(NAMESPACE, "virtualmachineinstances", vm.name, KUBEVIRT);
    const annotations = { [ANNOTATION]: JSON.stringify(asking("10.1.0.67")) };
    await world.cluster.api.patch(path, { metadata: { annotations } });
    const target = await world.kubevirt.migrate(vm, "node-b");
    expect(await world.given(target, blue, NIC)).toEqual(ips);
    const told = `annotation ${ANNOTATION}, nic asks for 10.1.0.67, but the VM runs with ${ips
      .map((ip) => ip.split("/")[0])
      .join(", ")} and keeps it; stop and start the VM to give it what it asks for`;
    for (const object of [target, vmi]) expect(await world.untilEvent(object, "AddressKept")).toBe(told);
    expect((await claimOf(vm)).status.ips).toEqual(ips);
    await world.kubevirt.finishPod(pod);
    await world.del(pod, blue, NIC);
    await world.untilUsers(blue, ips[0] as string, target);
    const admin = world.cluster.kubeconfig("admin");
    const who = await world.cli("who", "--vm", vm.name, "--kubeconfig", admin);
    expect(who.stdout).toMatch(/ASKED FOR/);
    expect(who.stdout, "asked for and given").toMatch(/10\.1\.0\.66\/24,fd01::\S+ +10\.1\.0\.67 /);
    await stopped(vm, target);
    const next = await started(again(vm, asking("10.1.0.67")));
    expect(next.ips[0]).toBe("10.1.0.67/24");
  });

  test("stays as it is where what is asked for is taken, and the VM and its pod are told by whom", async () => {
    const holder = await started(await vmThatAsks("holder", asking("10.1.0.68")));
    expect(holder.ips[0]).toBe("10.1.0.68/24");
    const vm = await vmThatAsks("latecomer", asking("10.1.0.69"));
    const first = await started(vm);
    await stopped(vm, first.pod);
    const { vmi, pod } = await world.kubevirt.startVm(again(vm, asking("10.1.0.68")), "node-b");
    const message = "10.1.0.68 is held by claim shop/holder.nic on network blue";
    expect(await world.refused(pod, blue, 120, NIC)).toContain(message);
    for (const object of [pod, vmi]) expect(await world.untilEvent(object, "AddressTaken")).toContain(message);
    expect((await claimOf(vm)).status.ips).toEqual(first.ips);
    for (const ip of first.ips) await world.stays("blue", ip);
  });

  test("of a VM on a lost node: what it had is kept until that node is gone", async () => {
    const vm = await vmThatAsks("lost-node", asking("10.1.0.70"));
    const first = await started(vm);
    await world.kubevirt.stopVm(vm);
    const second = await started(again(vm, asking("10.1.0.171")), "node-b");
    expect(second.ips[0]).toBe("10.1.0.171/24");
    await world.advance(5_000);
    await world.stays("blue", "10.1.0.70/24");
    await world.del(first.pod, blue, NIC);
    await world.becomes(blue, "10.1.0.70/24", "Cooling");
  });
});

describe("what cannot be given is refused, and the VM and its pod are told", () => {
  test.each([
    ["outside", asking("10.9.0.5"), 121, "AddressOutside", "10.9.0.5 is not in 10.1.0.0/24, fd01::/64"],
    ["excluded", asking("10.1.0.201"), 122, "AddressExcluded", "10.1.0.201 is excluded in network blue"],
    ["gateway", asking("10.1.0.254"), 122, "AddressExcluded", "10.1.0.254 is excluded in network blue"],
    ["family", asking("fd99::5"), 121, "AddressOutside", "fd99::5 is not in 10.1.0.0/24, fd01::/64"],
    ["two", asking("10.1.0.80", "10.1.0.81"), 7, "ConfigInvalid", "asks for 10.1.0.80 already"],
    ["mask", asking("10.1.0.80/24"), 7, "ConfigInvalid", "expected an address without prefix length"],
    ["text", "10.1.0.80", 7, "ConfigInvalid", "expected the addresses of each network in JSON"],
    ["list", '{"nic": "10.1.0.80"}', 7, "ConfigInvalid", "expected a list of at most 32 addresses"],
    ["garbage", asking("10.1.0"), 7, "ConfigInvalid", `annotation ${ANNOTATION}, nic is`],
  ])("%s", async (name, asked, code, reason, message) => {
    const vm = await vmThatAsks(`refused-${name}`, asked);
    const { vmi, pod } = await world.kubevirt.startVm(vm, "node-a");
    expect(await world.refused(pod, blue, code, NIC)).toContain(message);
    for (const object of [pod, vmi]) expect(await world.untilEvent(object, reason)).toContain(message);
    expect((await claimOf(vm)).status?.ips ?? []).toEqual([]);
  });

  test("two sources that disagree, both named", async () => {
    const vm = await vmThatAsks("disagree", asking("10.1.0.82"));
    const { pod } = await world.kubevirt.startVm(vm, "node-a");
    const [element] = JSON.parse(pod.metadata.annotations[NETWORKS]);
    const annotations = { [NETWORKS]: JSON.stringify([{ ...element, ips: ["10.1.0.83"] }]) };
    await world.cluster.api.patch(pathOf(NAMESPACE, "pods", pod.metadata.name), {
      metadata: { annotations },
    });
    await world.advance(1_000);
    expect(await world.refused(pod, blue, 7, NIC)).toContain(
      `annotation ${ANNOTATION}, nic is 10.1.0.82: the network selection element's ips asks for 10.1.0.83 already`,
    );
  });
});

// Launcher and claim are made by two controllers at once: mostly in one second, and either may be the first.
test.each([
  [0, "10.1.0.91"],
  [1_100, "10.1.0.92"],
])("a launcher that is created %d ms before its new claim gets what the deleted one had", async (ms, ip) => {
  const name = `made-again-${ms}`;
  const before = await vmThatAsks(name, asking(ip));
  const { pod } = await started(before);
  await stopped(before, pod);
  await world.kubevirt.deleteVm(before);
  const next = await vmThatAsks(name, asking(ip));
  const launcher = await world.kubevirt.createLauncher(next, await world.kubevirt.createVmi(next), "node-a");
  await world.advance(ms);
  await world.kubevirt.createClaims(next);
  await world.becomes(blue, `${ip}/24`, "Cooling");
  expect((await world.given(launcher, blue, NIC))[0]).toBe(`${ip}/24`);
  await stopped(next, launcher);
  await world.kubevirt.deleteVm(next);
  await world.advance(COOLDOWN_MS);
});

test("a VM that is deleted and created again is told to wait for what the deleted one has", async () => {
  const before = await vmThatAsks("hasty", asking("10.1.0.90"));
  const { pod } = await started(before);
  await world.kubevirt.stopVm(before, { remove: false });
  await world.kubevirt.deleteVm(before);
  const next = await vmThatAsks("hasty", asking("10.1.0.90"));
  const vmi = await world.kubevirt.createVmi(next);
  await world.kubevirt.createClaims(next);
  // A pod of the very second in which the claim was created may be its predecessor's.
  await world.advance(1_000);
  const launcher = await world.kubevirt.createLauncher(next, vmi, "node-a");
  expect(await world.refused(launcher, blue, 11, NIC)).toContain(
    `10.1.0.90 of network blue is not released yet from the deleted IPAMClaim ${NAMESPACE}/${claimName(next, LOGICAL)}, the predecessor of this one; annotation ${ANNOTATION}, nic asks for it; the controller releases it about a minute after`,
  );
  await world.del(pod, blue, NIC);
  await world.kubevirt.removePod(pod);
  await world.becomes(blue, "10.1.0.90/24", "Cooling");
  expect((await world.given(launcher, blue, NIC))[0]).toBe("10.1.0.90/24");
});

test("two interfaces of a VM exchange their addresses by way of a third one, as docs/choosing-addresses.md says", async () => {
  const both = ["a", "b"].map((logical) => ({ logical, nad: "blue", network: "blue" }));
  let vm = await world.kubevirt.createVm(NAMESPACE, "swaps", both);
  const nic = (logical: string) => ({ ifname: interfaceOf(logical) });
  const start = async (a: string, b: string) => {
    vm = again(vm, { a: [a], b: [b] });
    return (await world.kubevirt.startVm(vm, "node-a")).pod;
  };
  const end = async (pod: KubeObject) => {
    await world.kubevirt.stopVm(vm, { remove: false });
    for (const logical of ["a", "b"]) await world.del(pod, blue, nic(logical));
    await world.kubevirt.removePod(pod);
  };
  /** `left`: what one of them had before is free once the VM runs without it. */
  const startsWith = async (a: string, b: string, left: string | null = null) => {
    const pod = await start(a, b);
    expect((await world.given(pod, blue, nic("a")))[0]).toBe(`${a}/24`);
    expect((await world.given(pod, blue, nic("b")))[0]).toBe(`${b}/24`);
    if (left !== null) await world.becomes(blue, `${left}/24`, "Cooling");
    await end(pod);
  };
  await startsWith("10.1.0.91", "10.1.0.92");
  const stuck = await start("10.1.0.92", "10.1.0.91");
  expect(await world.refused(stuck, blue, 120, nic("a"))).toContain(
    `10.1.0.92 is held by claim ${NAMESPACE}/${claimName(vm, "b")}`,
  );
  await end(stuck);
  await startsWith("10.1.0.93", "10.1.0.92", "10.1.0.91");
  const early = await start("10.1.0.93", "10.1.0.91");
  expect(await world.refused(early, blue, 11, nic("b"))).toContain("10.1.0.91");
  await end(early);
  await world.advance(COOLDOWN_MS);
  await startsWith("10.1.0.93", "10.1.0.91", "10.1.0.92");
  await world.advance(COOLDOWN_MS);
  await startsWith("10.1.0.92", "10.1.0.91");
});

test("a network that the VM does not have is told to pod and VM, which starts", async () => {
  const vm = await vmThatAsks("typo", { nick: ["10.1.0.90"] });
  const { vmi, pod } = await started(vm);
  const told = `annotation ${ANNOTATION} asks for addresses of nick, which the VM has no interface for: it has nic; write the names of the VM's networks, spec.template.spec.networks[].name`;
  for (const object of [pod, vmi]) expect(await world.untilEvent(object, "UnknownNetwork")).toBe(told);
});

test("a pod that runs no VM asks for nothing by it", async () => {
  const networks = [{ name: "blue", namespace: NAMESPACE, interface: NIC.ifname }];
  const annotations = { [ANNOTATION]: "no JSON" };
  const pod = await world.kubevirt.createPod(NAMESPACE, "no-vm", { node: "node-a", networks, annotations });
  expect(await world.given(pod, blue, NIC)).toHaveLength(2);
});

test("an interface with a MAC that something is reserved for has that, and its VM keeps it", async () => {
  const mac = "02:00:00:00:00:61";
  const network = await world.network("reserving", {
    subnets: "10.6.0.0/24",
    reservations: [{ mac, ips: ["10.6.0.61"] }],
  });
  const networks = [{ logical: LOGICAL, nad: "reserving", network: "reserving", mac }];
  const vm = await world.kubevirt.createVm(NAMESPACE, "reserved", networks);
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  expect(await world.given(pod, network, NIC)).toEqual(["10.6.0.61/24"]);
  expect((await claimOf(vm)).status.ips).toEqual(["10.6.0.61/24"]);
  const target = await world.kubevirt.migrate(vm, "node-b");
  expect(await world.given(target, network, NIC)).toEqual(["10.6.0.61/24"]);
  const thief = await world.pod("thief", "node-b", network, { ips: ["10.6.0.61"] });
  expect(await world.refused(thief, network, 132)).toContain(`10.6.0.61 of network reserving is reserved for ${mac}`);
  const other = await world.pod("other", "node-b", network);
  expect(await world.given(other, network)).not.toContain("10.6.0.61/24");
});

test("a VM that was about to move to what is reserved for it goes on", async () => {
  const mac = "02:00:00:00:00:62";
  const network = await world.network("half-moved", {
    subnets: "10.7.0.0/24",
    reservations: [{ mac, ips: ["10.7.0.62"] }],
  });
  const nic = { logical: LOGICAL, nad: "half-moved", network: "half-moved" };
  const vm = await world.kubevirt.createVm(NAMESPACE, "half-moved", [nic]);
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const [before] = await world.given(pod, network, NIC);
  await world.kubevirt.stopVm(vm, { remove: false });
  await world.del(pod, network, NIC);
  await world.kubevirt.removePod(pod);
  // As after the reservation of a daemon that has gone since.
  const { name, uid } = (await claimOf(vm)).metadata;
  const owner = { kind: "IPAMClaim" as const, namespace: NAMESPACE, name, uid, interface: "" };
  await world.allocate("half-moved", "10.7.0.62/24", owner);
  // It lists the allocations before it serves anybody.
  await world.startNode("node-c");
  const moved = { ...vm, networks: [{ ...nic, mac }] };
  const next = await world.kubevirt.startVm(moved, "node-c");
  expect(await world.given(next.pod, network, NIC)).toEqual(["10.7.0.62/24"]);
  await lists(vm, ["10.7.0.62/24"]);
  await world.becomes(network, before as string, "Cooling");
});

test("holdfast free names what nobody has, from the cluster's objects", async () => {
  const { ips } = await started(await vmThatAsks("last", asking("10.1.0.2")));
  expect(ips[0]).toBe("10.1.0.2/24");
  const free = async (...args: string[]) =>
    world.cli("free", "blue", "--kubeconfig", world.cluster.kubeconfig("admin"), ...args);
  const answer = JSON.parse((await free("-n", "20", "-o", "json")).stdout);
  expect(answer).toMatchObject({ network: "blue", isNext: false });
  const held = new Set((await world.allocations(blue)).map(({ spec }) => spec.address));
  expect(held.size).toBeGreaterThan(10);
  for (const range of answer.ranges) {
    expect(range.next).toHaveLength(20);
    for (const ip of range.next) expect(held).not.toContain(ip);
  }
  // 10.1.0.2 is held, so no two of the others are beside each other. A VM of another test may have got one by chance.
  const others = ["10.1.0.1", "10.1.0.3"].filter((ip) => !held.has(`${ip}/24`));
  const rows = others.map((ip) => `10.1.0.0/30   ${ip}   ${ip}   1\n`).join("");
  const [header, ...lines] = (await free("--subnet", "10.1.0.0/30")).stdout.split(/^/m);
  expect(header?.split(/\s+/, 4)).toEqual(["SUBNET", "FIRST", "LAST", "FREE"]);
  expect(lines.join("")).toContain(rows);
  for (const ip of others) expect(lines.at(-1)).toContain(`${ip}/24`);
  expect(await free("--subnet", "10.2.0.0/30")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("there is no subnet 10.2.0.0/30 of network blue"),
  });
});

/** As Forklift writes it. */
const manifestOf = (name: string, asked: object, nad = "blue") => ({
  apiVersion: KUBEVIRT,
  kind: "VirtualMachine",
  metadata: { name, namespace: NAMESPACE },
  spec: {
    template: {
      metadata: { annotations: { [ANNOTATION]: JSON.stringify(asked) } },
      spec: {
        domain: { devices: { interfaces: [{ name: LOGICAL, bridge: {} }] } },
        networks: [{ name: LOGICAL, multus: { networkName: nad } }],
      },
    },
  },
});

test("holdfast plan says before a start what the start then does", async () => {
  await started(await vmThatAsks("planned-holder", asking("10.1.0.120")));
  const own = await vmThatAsks("planned-own", asking("10.1.0.121"));
  const { pod } = await started(own);
  await stopped(own, pod);
  const asked: Readonly<Record<string, readonly string[]>> = {
    "planned-free": ["10.1.0.122", "fd01::122"],
    "planned-taken": ["10.1.0.120"],
    "planned-outside": ["10.9.0.5"],
    "planned-excluded": ["10.1.0.201"],
    "planned-gateway": ["10.1.0.254"],
    "planned-two": ["10.1.0.123", "10.1.0.124"],
    "planned-own": ["10.1.0.121"],
  };
  const objects = Object.entries(asked).map(([name, addresses]) => manifestOf(name, asking(...addresses)));
  const directory = mkdtempSync(join(tmpdir(), "holdfast-plan-"));
  try {
    const file = join(directory, "vms.json");
    writeFileSync(file, JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }));
    const admin = world.cluster.kubeconfig("admin");
    const plan = await world.cli("plan", "--kubeconfig", admin, "-f", file, "-o", "json");
    expect(plan.code).toBe(1);
    const said = new Map<string, string>();
    for (const { vm, state, message } of JSON.parse(plan.stdout).items)
      said.set(vm.split("/")[1], state === "fits" ? "fits" : message);
    for (const [name, addresses] of Object.entries(asked)) {
      const vm = name === "planned-own" ? own : await vmThatAsks(name, asking(...addresses));
      const { pod: launcher } = await world.kubevirt.startVm(vm, "node-b");
      const answer = await world.add(launcher, blue, NIC);
      expect(said.get(name), answer.stdout).toBe(answer.code === 0 ? "fits" : answer.json().msg);
    }
    // A node knows the definition that counts, and none of the others that lead VMs to the network.
    expect(await world.node("node-a").daemon.cli("plan", "-f", file)).toMatchObject({
      code: 1,
      stdout: "",
      stderr:
        "error: there is no plan on a node of a cluster\nhint: its definitions say which networks VMs ask on: holdfast plan --kubeconfig FILE\n",
    });
    // The template of a VM in the cluster.
    const path = pathOf(NAMESPACE, "virtualmachines", "planned-holder", KUBEVIRT);
    await world.cluster.api.patch(path, { spec: objects[1]?.spec });
    const there = await world.cli("plan", "--kubeconfig", admin, "-n", NAMESPACE);
    expect(there).toMatchObject({ code: 0, stdout: expect.stringContaining("shop/planned-holder") });
    expect(there.stdout).toMatch(/10\.1\.0\.120 +blue +fits/);
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test("claims and show tell what is asked for beside what is given", async () => {
  const network = await world.network("told", { subnets: "10.9.0.0/24,fd09::/64" });
  const nic = { logical: LOGICAL, nad: "told", network: "told" };
  const vm = again(await world.kubevirt.createVm(NAMESPACE, "told-of", [nic]), asking("10.9.0.130"));
  const { vmi, pod } = await world.kubevirt.startVm(vm, "node-a");
  await world.given(pod, network, NIC);
  const path = pathOf(NAMESPACE, "virtualmachineinstances", vmi.metadata.name, KUBEVIRT);
  const annotations = { [ANNOTATION]: JSON.stringify(asking("10.9.0.131", "fd09::131")) };
  await world.cluster.api.patch(path, { metadata: { annotations } });
  await world.given(await world.kubevirt.migrate(vm, "node-b"), network, NIC);
  const admin = ["--kubeconfig", world.cluster.kubeconfig("admin")];
  const line = async (...args: string[]) =>
    (await world.cli(...args, ...admin, "-o", "wide")).stdout.split("\n").find((one) => one.includes("told-of"));
  expect(await line("claims", "-n", NAMESPACE)).toMatch(/ 10\.9\.0\.130\/24,fd09::\S+ +10\.9\.0\.131,fd09::131 /);
  expect(await line("show", "told")).toMatch(/^10\.9\.0\.130\/24 .* 10\.9\.0\.131 /);
  const object = JSON.parse(
    (await world.cli("claims", `${NAMESPACE}/told-of.${LOGICAL}`, ...admin, "-o", "json")).stdout,
  );
  expect(object).not.toHaveProperty("asked");
});

test("a full subnet is no reason against a VM that has its address there", async () => {
  const network = await world.network("narrow", { subnets: "10.8.0.0/30,fd08::/64" });
  const nic = { logical: LOGICAL, nad: "narrow", network: "narrow" };
  const vm = await world.kubevirt.createVm(NAMESPACE, "narrow", [nic]);
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const [ipv4] = await world.given(pod, network, NIC);
  await stopped(vm, pod, network);
  while (
    (await world.add(await world.pod(`fills${(await world.allocations(network)).length}`, "node-a", network), network))
      .code === 0
  );
  const file = join(mkdtempSync(join(tmpdir(), "holdfast-plan-")), "vms.json");
  try {
    const items = ["narrow", "stranger"].map((name) => manifestOf(name, asking("fd08::77"), "narrow"));
    writeFileSync(file, items.map((one) => JSON.stringify(one)).join("\n---\n"));
    const plan = await world.cli("plan", "--kubeconfig", world.cluster.kubeconfig("admin"), "-f", file, "-o", "json");
    expect(JSON.parse(plan.stdout).items).toMatchObject([
      { vm: `${NAMESPACE}/narrow`, state: "fits" },
      {
        vm: `${NAMESPACE}/stranger`,
        state: "refused",
        message: expect.stringContaining("no free address in 10.8.0.0/30"),
      },
    ]);
    const next = await world.kubevirt.startVm(again(vm, asking("fd08::77")), "node-b");
    expect(await world.given(next.pod, network, NIC)).toEqual([ipv4, "fd08::77/64"]);
  } finally {
    rmSync(dirname(file), { recursive: true });
  }
});
