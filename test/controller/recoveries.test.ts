import { expect, test } from "vitest";
import { Recoveries } from "../../controller/recoveries.ts";
import { type IPNetwork, NETWORKS_PATH } from "../../kube/objects.ts";
import { markRecovering, recoveryMark } from "../../store/cluster/contact/recovery.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { VirtualTime } from "../harness/virtual-time.ts";

const PATH = `${NETWORKS_PATH}/blue`;

async function marked(id: string, seconds: number | null = 30) {
  const time = new VirtualTime();
  const api = new KubeInMemory(time.clock());
  api.put(NETWORKS_PATH, { metadata: { name: "blue" }, spec: { network: "blue" } });
  const networks = {
    known: true,
    get items() {
      return new Map([["blue", { object: api.at(PATH) as IPNetwork }]]);
    },
  };
  let idle: string | null = null;
  const recoveries = new Recoveries({ api, networks, idle: () => idle, log: { info: () => {} } });
  const mark = (by: string) =>
    time.run(markRecovering(api, "blue", { id: by, seconds, message: `${by}: its allocations are missing` }));
  const passes = async (seconds: number) => {
    for (let left = seconds; left > 0; left -= 1) {
      await time.run(recoveries.runPass(new AbortController().signal));
      await time.pass(1_000);
    }
  };
  await mark(id);
  return {
    mark,
    passes,
    present: () => recoveryMark(api.at(PATH) as IPNetwork)?.id ?? null,
    lead: (leads: boolean) => {
      idle = leads ? null : "another controller works";
    },
  };
}

test("a recovery mark that its daemon did not remove is removed some seconds after it has expired", async () => {
  const { passes, present } = await marked("node a");
  await passes(38);
  expect(present()).not.toBeNull();
  await passes(5);
  expect(present()).toBeNull();
});

test("marking a network again restarts the time for which it recovers", async () => {
  const { passes, present, mark } = await marked("node a");
  await passes(35);
  await mark("node b");
  await passes(35);
  expect(present()).toBe("node b");
  await passes(10);
  expect(present()).toBeNull();
});

test("a mark without a duration is not removed, nor any mark by a controller that does not lead", async () => {
  const older = await marked("node a", null);
  await older.passes(100);
  expect(older.present()).not.toBeNull();
  const follower = await marked("node a");
  follower.lead(false);
  await follower.passes(60);
  expect(follower.present()).not.toBeNull();
});
