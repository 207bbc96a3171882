import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { claimName } from "../harness/kubevirt.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "server", nodes: ["node-a", "node-b"] });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

test("two interfaces of a VM on one network definition keep their addresses, each by its own claim", async () => {
  const network = await world.network("double", { subnets: "10.7.0.0/24,fd07::/64" });
  const nics = ["left", "right"].map((logical) => ({ logical, nad: "double", network: "double" }));
  const vm = await world.kubevirt.createVm(NAMESPACE, "double", nics);
  let first: string[][] | null = null;
  for (const node of ["node-a", "node-b"]) {
    const { pod } = await world.kubevirt.startVm(vm, node);
    const ask = ({ logical }: (typeof nics)[number]) => world.given(pod, network, { ifname: interfaceOf(logical) });
    const given = await Promise.all(nics.map(ask));
    first ??= given;
    expect(given).toEqual(first);
    expect(new Set(given.flat()).size).toBe(4);
    await world.kubevirt.stopVm(vm, {
      meanwhile: async () => {
        for (const { logical } of nics) await world.del(pod, network, { ifname: interfaceOf(logical) });
      },
    });
  }
  for (const [index, { logical }] of nics.entries())
    expect((await world.readClaim(claimName(vm, logical)))?.status.ips).toEqual(first?.[index]);
});

test("a claim that is made again while its VM runs is filled with the VM's addresses, and they stay at the next start", async () => {
  await world.startController();
  const network = await world.network("again", { subnets: "10.8.0.0/24,fd08::/64" });
  const vm = await world.vm("again", network);
  const ifname = interfaceOf("again");
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const ips = await world.given(pod, network, { ifname });
  await world.deleteClaim("again.again");
  await world.kubevirt.releaseClaims(vm);
  await world.kubevirt.createClaims(vm);
  await world.until(async () => ((await world.readClaim("again.again"))?.status?.ips ?? []).length > 0, "the claim");
  expect((await world.readClaim("again.again"))?.status).toMatchObject({
    ips,
    ownerPod: { name: pod.metadata.name },
    conditions: [{ type: "IPsAllocated", status: "True", reason: "SuccessfulAllocation" }],
  });
  await world.kubevirt.stopVm(vm, { remove: false });
  await world.del(pod, network, { ifname });
  await world.kubevirt.removePod(pod);
  const next = await world.kubevirt.startVm(vm, "node-b");
  expect(await world.given(next.pod, network, { ifname })).toEqual(ips);
});
