import { expect, test } from "vitest";
import { AllocationClient } from "../../allocations/allocation-client.ts";
import { newAllocation } from "../../allocations/allocation-object.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ApiAway, type KubeRequest } from "../../kube/kube-api.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { steadyContinuity } from "../harness/steady-continuity.ts";

/** A client of an ADD, whose server asks `unless` as the real one does. */
function admittedClient() {
  const api = new KubeInMemory();
  const continuity = steadyContinuity(api.clock);
  const cut = { once: () => {} };
  api.before = ({ unless }: KubeRequest) => {
    cut.once();
    const reason = unless?.() ?? null;
    if (reason !== null) throw new ApiAway(reason);
  };
  const client = new AllocationClient(api, "add", continuity).admitted(continuity.epoch);
  const create = (address: string) =>
    client.create(
      newAllocation("blue", parseInterfaceAddress(address), HOLDER, "2026-01-01T00:00:00Z"),
      api.clock.monotonicMs() + 60_000,
    );
  return { api, continuity, cut, create };
}

const HOLDER = {
  owner: { kind: "Pod", namespace: "shop", name: "web", uid: "u1", interface: "net1" },
  attachment: { containerID: "c1", interface: "net1", node: "node-a", since: "2026-01-01T00:00:00Z" },
  vm: undefined,
  mac: null,
} as never;

test("a write that meets a cut connection is not sent again, and neither is what follows from what was read before", async () => {
  const { api, continuity, cut, create } = admittedClient();
  expect((await create("10.0.0.1/24")).kind).toBe("done");
  cut.once = () => continuity.lose();
  await expect(create("10.0.0.2/24")).rejects.toThrow("contact with the API server was lost");
  cut.once = () => continuity.regain();
  await expect(create("10.0.0.3/24")).rejects.toThrow("contact with the API server was lost");
  expect(api.writes).toHaveLength(1);
});
