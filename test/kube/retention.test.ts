/**
 * A VM that is deleted and created again, with a real API server: its definitions, rights and clock
 * (docs/decisions/0068).
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { NodeDaemon } from "../harness/node.ts";
import { until } from "../harness/wait.ts";
import { added, deleted, died, type VmGuest } from "../harness/world/guests.ts";
import type { Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const RETAIN_SECONDS = 3_600;

let world: World;
let node: NodeDaemon;

beforeAll(async () => {
  world = await World.start({ api: "server" });
  await world.startController();
  node = await world.startNode("node-a");
});
afterAll(() => world?.stop());

/** A VM that had addresses of a network with room for two, and is deleted. */
async function deletedVm(network: Network): Promise<{ readonly guest: VmGuest; readonly ips: readonly string[] }> {
  const guest = await world.vmGuest(network, node.name);
  const ips = await added(node, guest);
  await deleted(node, guest);
  await world.kubevirt.deleteVm(guest.vm);
  for (const ip of ips) await world.becomes(network, ip, "Retained");
  return { guest, ips };
}

test.each(["after-intent", "after-reserve", "before-publish", "after-publish", "before-answer"])(
  "what is retained is given back although the daemon is killed at %s",
  async (point) => {
    const network = await world.network(`again-${point}`, {
      subnets: "10.30.0.0/29,fd30::/64",
      retainSeconds: RETAIN_SECONDS,
    });
    const { guest, ips } = await deletedVm(network);
    const again = await world.vmGuest(network, node.name, guest.vm.name);
    await node.restart("SIGTERM", { wait: false, env: { HOLDFAST_KILL_POINT: point } });
    await until(
      async () => {
        const answer = await node.add(again.pod, again.options);
        expect(answer.code, `answered although killed: ${answer.stdout}`).not.toBe(0);
        return node.process.signalCode !== null;
      },
      () => `the kill at ${point}; log: ${node.log}`,
    );
    await died(node);
    await node.restart();
    expect(await added(node, again)).toEqual(ips);
    for (const ip of ips) {
      const { status, spec } = await world.allocation(network, ip);
      expect(status).toMatchObject({ state: "Bound" });
      expect(status).not.toHaveProperty("retainedUntil");
      expect(spec.owner.uid).not.toBe(guest.vm.uid);
    }
    await deleted(node, again);
  },
);

test("kubectl shows the state and its end, and deleting the object frees nothing", async () => {
  const network = await world.network("shown", { subnets: "10.30.0.0/29", retainSeconds: RETAIN_SECONDS });
  const { guest, ips } = await deletedVm(network);
  const [ip = ""] = ips;
  const { metadata, status } = await world.allocation(network, ip);
  expect(Date.parse(status.retainedUntil) - Date.parse(status.since)).toBe(RETAIN_SECONDS * 1_000);
  await world.cluster.api.delete(`/apis/ipam.holdfast.dev/v1alpha1/ipallocations/${metadata.name}`);
  expect((await world.allocation(network, ip)).status.state).toBe("Retained");
  expect(await added(node, await world.vmGuest(network, node.name, guest.vm.name))).toEqual(ips);
});
