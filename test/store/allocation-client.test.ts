import { expect, test } from "vitest";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ApiAway, type KubeRequest } from "../../kube/kube-api.ts";
import { AllocationClient } from "../../store/cluster/allocations/allocation-client.ts";
import { newAllocation } from "../../store/cluster/allocations/allocation-object.ts";
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

test.each([
  ["goes on when the server was there all the time", true],
  ["is not sent when it may have been away", false],
])("a write that meets a cut connection %s", async (_what, served) => {
  const { api, continuity, cut, create } = admittedClient();
  expect((await create("10.0.0.1/24")).kind).toBe("done");
  continuity.noteWatched("1000");
  cut.once = () => {
    cut.once = () => {};
    continuity.lose();
    setImmediate(() => {
      continuity.regain();
      expect(continuity.inQuestion).not.toBeNull();
      continuity.noteServed(continuity.gap, served);
    });
  };
  const second = create("10.0.0.2/24");
  if (served) expect((await second).kind).toBe("done");
  else await expect(second).rejects.toThrow("contact with the API server was lost");
  expect(api.writes).toHaveLength(served ? 2 : 1);
});
