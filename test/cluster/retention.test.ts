import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import type { Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

/** A VM that is deleted and created again, as GitOps and backup tools do: docs/decisions/0068. */

const RETAIN_SECONDS = 600;

let world: World;

beforeAll(async () => {
  const controller = { sweepIntervalSeconds: 1, sweepGraceSeconds: 1 };
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"], controller });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

function retaining(name: string, more: object = {}): Promise<Network> {
  return world.network(name, { subnets: "10.0.0.0/29,fd00::/64", retainSeconds: RETAIN_SECONDS, ...more });
}

function nic(network: Network): { ifname: string } {
  return { ifname: interfaceOf(network.name) };
}

/** Starts a VM and deletes it again; returns what it had. */
async function livedOnce(name: string, network: Network): Promise<readonly string[]> {
  const vm = await world.vm(name, network);
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const ips = await world.given(pod, network, nic(network));
  await world.del(pod, network, nic(network));
  await world.kubevirt.deleteVm(vm);
  return ips;
}

async function startAgain(name: string, network: Network): Promise<KubeObject> {
  const vm = await world.vm(name, network);
  return (await world.kubevirt.startVm(vm, "node-b")).pod;
}

async function untilRetained(network: Network, ips: readonly string[]): Promise<void> {
  for (const ip of ips) await world.becomes(network, ip, "Retained");
}

test("a VM that is created again gets exactly what it had, and nobody else does meanwhile", async () => {
  const network = await retaining("gitops");
  const ips = await livedOnce("gitops", network);
  await untilRetained(network, ips);
  const { status, spec, metadata } = await world.allocation(network, ips[0] as string);
  expect(spec.owner).toMatchObject({ kind: "IPAMClaim", namespace: "shop", name: "gitops.gitops" });
  expect(Date.parse(status.retainedUntil) - Date.parse(status.since)).toBe(RETAIN_SECONDS * 1_000);
  expect(metadata.finalizers).toContain("ipam.holdfast.dev/bound");

  // The IPv4 subnet has five others; a cool-down would have ended by now.
  await world.advance(120_000);
  for (let index = 0; index < 5; index += 1)
    await world.given(await world.pod(`gitops-${index}`, "node-b", network), network);
  const late = await world.pod("gitops-late", "node-b", network);
  expect(await world.refused(late, network, 11)).toContain("(1 retained for claims that were deleted)");
  const taker = await world.pod("gitops-taker", "node-b", network, { ips: [ips[0] as string] });
  expect(await world.refused(taker, network, 120)).toContain(
    `claim shop/gitops.gitops (retained until ${status.retainedUntil})`,
  );

  const pod = await startAgain("gitops", network);
  expect(await world.given(pod, network, nic(network))).toEqual(ips);
  for (const ip of ips) {
    await world.untilUsers(network, ip, pod);
    expect((await world.allocation(network, ip)).status.retainedUntil).toBeUndefined();
  }
});

test("one that comes before the controller has released its predecessor's addresses waits for them", async () => {
  const network = await retaining("hasty");
  const ips = await livedOnce("hasty", network);
  const pod = await startAgain("hasty", network);
  expect(await world.refused(pod, network, 11, nic(network))).toContain(
    "is not released yet from the deleted IPAMClaim shop/hasty.hasty, the predecessor of this one",
  );
  await untilRetained(network, ips);
  expect(await world.given(pod, network, nic(network))).toEqual(ips);
});

test("the pod that waits for the claim to be created again is no reason to hold its predecessor's addresses", async () => {
  const network = await retaining("waiting");
  const ips = await livedOnce("waiting", network);
  const vm = await world.vm("waiting", network);
  const pod = await world.kubevirt.createLauncher(vm, await world.kubevirt.createVmi(vm), "node-b");
  // In a later second than the pod: the claim is the younger one.
  await world.advance(1_100);
  await world.kubevirt.createClaims(vm);
  await untilRetained(network, ips);
  expect(await world.given(pod, network, nic(network))).toEqual(ips);
});

test("a claim of another name gets other addresses", async () => {
  const network = await retaining("elsewhere");
  await world.claim("elsewhere", "elsewhere");
  const user = { "ipam-claim-reference": "elsewhere" };
  const pod = await world.pod("elsewhere", "node-a", network, user);
  const ips = await world.given(pod, network);
  await world.del(pod, network);
  await world.kubevirt.removePod(pod);
  await world.deleteClaim("elsewhere");
  await untilRetained(network, ips);
  await world.claim("elsewhere-2", "elsewhere");
  const other = await world.pod("elsewhere-2", "node-a", network, { "ipam-claim-reference": "elsewhere-2" });
  for (const ip of await world.given(other, network)) expect(ips).not.toContain(ip);
});

test("it ends after its time, cools down, and is given to others then", async () => {
  const network = await retaining("over", { retainSeconds: 30, cooldownSeconds: 10 });
  const ips = await livedOnce("over", network);
  await untilRetained(network, ips);
  await world.advance(25_000);
  for (const ip of ips) expect((await world.allocation(network, ip)).status.state).toBe("Retained");
  await world.advance(5_000);
  for (const ip of ips) await world.becomes(network, ip, "Cooling");
  const taker = await world.pod("over-taker", "node-b", network, { ips: [ips[0] as string] });
  await world.until(async () => (await world.add(taker, network)).code === 0, "the address to be given");
});

test("another time in the definition concerns what ends later, and 0 ends all", async () => {
  const network = await retaining("lowered");
  const ips = await livedOnce("lowered", network);
  await untilRetained(network, ips);
  const { name, config } = network;
  const edited = (seconds: number) => config.replace(`"retainSeconds":${RETAIN_SECONDS}`, `"retainSeconds":${seconds}`);
  await world.editNad(name, edited(1));
  await world.advance(60_000);
  for (const ip of ips) expect((await world.allocation(network, ip)).status.state).toBe("Retained");
  await world.editNad(name, edited(0));
  for (const ip of ips) await world.becomes(network, ip, "Cooling");
});

test("a claim that is restored with its addresses has them, and no claim of another name can list them", async () => {
  const network = await retaining("restored");
  const ips = await livedOnce("restored", network);
  await untilRetained(network, ips);
  await world.claim("thief", "restored", { ips });
  await world.until(
    async () => (await world.readClaim("thief"))?.status.conditions?.[0]?.reason === "IPAddressConflict",
    "the other claim to be told",
  );
  const claim = await world.claim("restored.restored", "restored", { ips });
  for (const ip of ips) await world.becomes(network, ip, "Bound");
  for (const ip of ips) expect((await world.allocation(network, ip)).spec.owner.uid).toBe(claim.metadata.uid);
  await world.deleteClaim("thief");
});

test("release ends it early, and the network's counts and the command line show it", async () => {
  const network = await retaining("early");
  const ips = await livedOnce("early", network);
  await untilRetained(network, ips);
  await world.until(
    async () => (await world.networkObject("early"))?.status?.retained === "2",
    "the IPNetwork to count them",
  );
  const [v4 = ""] = ips.map((ip) => ip.split("/")[0]);
  const flags = ["--kubeconfig", world.cluster.kubeconfig("admin")];
  const list = await world.cli("list", "--network", "early", ...flags);
  expect(list.stdout).toMatch(/^early +10\.0\.0\.\d\/29 +claim shop\/early\.early .* Retained (9m\d*s?|10m) /m);
  const who = await world.cli("who", v4, "--network", "early", ...flags);
  expect(who).toMatchObject({ code: 0, stdout: expect.stringContaining("Retained") });
  const history = await world.cli("history", v4, "--network", "early", ...flags);
  expect(history.stdout).toMatch(/claim shop\/early\.early .* claim deleted/);
  const networks = await world.cli("networks", ...flags);
  expect(networks.stdout).toMatch(/ALLOCATED +RETAINED +COOLING/);
  const released = await world.cli("release", v4, "--network", "early", ...flags);
  expect(released.code, released.stderr).toBe(0);
  await world.becomes(network, ips[0] as string, "Cooling");
  // Its last holder has certainly ended: a request of the namespace for this very address need not wait.
  const taker = await world.pod("early-taker", "node-a", network, { ips: [ips[0] as string] });
  expect((await world.given(taker, network))[0]).toBe(ips[0]);
});
