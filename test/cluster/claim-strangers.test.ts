/**
 * Whoever writes a claim's list, network or annotations moves no address, and gets none (docs/decisions/0093): with and
 * without a controller, with and without the policies of deploy/admission, on a network of each plugin.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { newAllocation } from "../../allocations/allocation-object.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { claimName, type Vm } from "../harness/kubevirt.ts";
import { CLAIMS, interfaceOf } from "../harness/world/kubevirt-objects.ts";
import type { MemoryCluster } from "../harness/world/memory-cluster.ts";
import { NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const LOGICAL = "nic";
const NIC = { ifname: interfaceOf(LOGICAL) };
/** Longer than the controller needs to see something twice, to write it, and to release what follows, ms. */
const PASSES_MS = 60_000;
const PLUGINS = ["bridge", "macvlan", "sriov", "ovs"] as const;

/** What a stranger writes; `own`: the claim's address, `other`: a free one, `taken`: another VM's. */
const WRITINGS: readonly {
  readonly what: string;
  readonly list?: (of: { own: string; other: string; taken: string }) => unknown[];
  readonly patch?: (of: { own: string; other: string }) => object;
}[] = [
  { what: "an empty list", list: () => [] },
  { what: "a free address", list: ({ other }) => [other] },
  { what: "another VM's address", list: ({ taken }) => [taken] },
  { what: "a free address before its own", list: ({ own, other }) => [other, own] },
  { what: "nonsense", list: () => ["nonsense", "", "10.0.0.0/99"] },
  { what: "far too many", list: ({ own }) => [...Array.from({ length: 40 }, (_, at) => `10.99.0.${at}/24`), own] },
  { what: "another prefix length", list: ({ own }) => [own.replace("/24", "/16")] },
  { what: "another network", patch: () => ({ spec: { network: "elsewhere" } }) },
  { what: "no network", patch: () => ({ spec: { network: "" } }) },
  {
    what: "the annotation of a former build",
    patch: ({ own, other }) => ({
      metadata: { annotations: { "ipam.holdfast.dev/followed": `home ${own} -> home ${other}` } },
    }),
  },
];

interface StartedVm {
  readonly vm: Vm;
  readonly pod: KubeObject;
  readonly ips: readonly string[];
}

describe.each([
  { controller: false, admission: true },
  { controller: true, admission: true },
  { controller: true, admission: false },
])("a controller: $controller, policies: $admission", ({ controller, admission }) => {
  let world: World;
  const homes = new Map<string, Network>();

  beforeAll(async () => {
    world = await World.start({
      ...{ api: "memory", nodes: ["node-a", "node-b"], admission },
      ...(controller ? { controller: { coolingKeepSeconds: 1 } } : {}),
    });
    await world.network("elsewhere", { subnets: "10.8.0.0/24" });
    for (const [at, type] of PLUGINS.entries())
      homes.set(
        type,
        await world.network(
          type,
          { subnets: `10.${at}.0.0/24`, gateway: `10.${at}.0.1`, cooldownSeconds: 0 },
          { type },
        ),
      );
  });
  afterAll(() => world?.stop());

  const homeOf = (plugin: string) => homes.get(plugin) as Network;
  const claimPath = (vm: Vm) => pathOf(NAMESPACE, "ipamclaims", claimName(vm, LOGICAL), CLAIMS);
  const settle = () => (controller ? world.advance(PASSES_MS) : Promise.resolve());

  async function started(vm: Vm, network: Network, node = "node-a"): Promise<StartedVm> {
    const { pod } = await world.kubevirt.startVm(vm, node);
    return { vm, pod, ips: await world.given(pod, network, NIC) };
  }

  async function stopped({ vm, pod }: StartedVm, network: Network): Promise<void> {
    await world.kubevirt.stopVm(vm, { remove: false });
    await world.del(pod, network, NIC);
    await world.kubevirt.removePod(pod);
  }

  const created = (name: string, network: Network) =>
    world.kubevirt.createVm(NAMESPACE, name, [{ logical: LOGICAL, nad: network.name, network: network.name }]);

  async function write(
    vm: Vm,
    { list, patch }: (typeof WRITINGS)[number],
    of: { own: string; other: string; taken: string },
  ): Promise<void> {
    if (list) await world.publish(claimName(vm, LOGICAL), { ips: list(of) });
    if (patch) await world.cluster.api.patch(claimPath(vm), patch(of));
  }

  describe.each(PLUGINS)("%s", (plugin) => {
    // What is not about the plugin is tried on one.
    test.each(plugin === "bridge" ? WRITINGS : WRITINGS.slice(0, 1))(
      "$what: the next start and the target of its migration get what the VM had",
      async (writing) => {
        const network = homeOf(plugin);
        const index = WRITINGS.indexOf(writing);
        const name = `${plugin}-${index}`;
        const neighbour = await started(await created(`${name}-neighbour`, network), network);
        const first = await started(await created(name, network), network);
        const { vm, ips } = first;
        const [own = "", taken = ""] = [ips[0], neighbour.ips[0]];
        const used = new Set((await world.bound(network)).map((line) => line.split(" ")[0]));
        const candidates = Array.from({ length: 200 }, (_, at) => own.replace(/\.\d+\/24$/, `.${at + 20}/24`));
        const other = candidates.find((one) => !used.has(one)) as string;
        const of = { own, other, taken };
        // While it runs: its migration.
        await write(vm, writing, of);
        await settle();
        const target = await world.kubevirt.migrate(vm, "node-b");
        expect(await world.given(target, network, NIC)).toEqual(ips);
        await world.kubevirt.finishPod(first.pod);
        await world.del(first.pod, network, NIC);
        await world.kubevirt.removePod(first.pod);
        // While it is stopped: its next start.
        await stopped({ ...first, pod: target }, network);
        await write(vm, writing, of);
        await settle();
        const again = await started(vm, network, "node-a");
        expect(again.ips).toEqual(ips);
        await settle();
        const uid = (await world.readClaim(claimName(vm, LOGICAL)))?.metadata.uid;
        if (controller) {
          const all = (await world.bound(network)).filter((line) => line.endsWith(` ${uid}`));
          expect(all).toEqual(ips.map((ip) => `${ip} ${uid}`));
          const { spec, status } = (await world.readClaim(claimName(vm, LOGICAL))) as KubeObject;
          expect({ network: spec.network, ips: status.ips }).toEqual({ network: network.name, ips });
        }
        await stopped(again, network);
        await stopped(neighbour, network);
      },
    );
  });

  test("a tenant's claim takes nothing of a network that it may not use, and one address of one that it may", async () => {
    const network = homeOf("bridge");
    const before = (await world.bound(network)).length;
    await world.kubevirt.createNamespace("evil");
    const list = Array.from({ length: 254 }, (_, at) => `10.0.0.${at + 1}/24`);
    const claims = [
      ["evil", "evil"],
      [NAMESPACE, "greedy"],
    ] as const;
    for (const [namespace, name] of claims) {
      await world.cluster.api.create(pathOf(namespace, "ipamclaims", "", CLAIMS), {
        ...{ apiVersion: CLAIMS, kind: "IPAMClaim", spec: { network: network.name, interface: "" } },
        metadata: { name, namespace },
      });
      await world.cluster.api.patch(`${pathOf(namespace, "ipamclaims", name, CLAIMS)}/status`, {
        status: { ips: list },
      });
    }
    await settle();
    const bound = await world.bound(network);
    expect(bound.length - before).toBeLessThanOrEqual(1);
    expect(bound.some((line) => line.startsWith("10.0.0.1/"))).toBe(false);
    for (const [namespace, name] of claims)
      await world.cluster.api.delete(pathOf(namespace, "ipamclaims", name, CLAIMS));
  });

  test.runIf(admission)("a node's token only appends, and what it appends is no address of the VM", async () => {
    const network = homeOf("macvlan");
    const first = await started(await created("victim", network), network);
    await stopped(first, network);
    const thief = (world.cluster as MemoryCluster).connectThief("node-b")("", world.cluster.time.clock);
    const send = async (method: "POST" | "PATCH", path: string, body: object) => {
      const deadlineMs = thief.clock.monotonicMs() + 5_000;
      const patch = method === "PATCH" ? ({ patch: "merge" } as const) : {};
      const sent = thief.send({ method, path, body, priority: "add", deadlineMs, ...patch });
      return (await world.cluster.time.run(sent)).status;
    };
    const { vm, ips } = first;
    const [own = ""] = ips;
    const claim = (await world.readClaim(claimName(vm, LOGICAL))) as KubeObject;
    const status = `${claimPath(vm)}/status`;
    const planted = own === "10.1.0.66/24" ? "10.1.0.67/24" : "10.1.0.66/24";
    expect(await send("PATCH", claimPath(vm), { spec: { network: "elsewhere" } })).toBe(403);
    expect(await send("PATCH", claimPath(vm), { metadata: { annotations: { any: "thing" } } })).toBe(403);
    for (const list of [[], [planted], [planted, own], [`${own},`, planted]])
      expect(await send("PATCH", status, { status: { ips: list } })).toBe(403);
    const { uid, name, namespace } = claim.metadata;
    const owner = { kind: "IPAMClaim", namespace, name, uid, interface: "" } as const;
    const forged = newAllocation(network.name, parseInterfaceAddress(planted), { owner, attachment: null }, "");
    await send("POST", ALLOCATIONS_PATH, forged);
    expect(await send("PATCH", status, { status: { ips: [own, planted] } })).toBe(200);
    await settle();
    const again = await started(vm, network, "node-b");
    expect(again.ips).toEqual(ips);
    await settle();
    await stopped(again, network);
  });
});
