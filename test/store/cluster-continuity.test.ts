import pino from "pino";
import { expect, onTestFinished, test } from "vitest";
import { networkObjectName } from "../../kube/object-names.ts";
import { type IPNetwork, NETWORKS_PATH, objectPath } from "../../kube/objects.ts";
import { sleep } from "../../platform/time.ts";
import { VirtualTime } from "../../platform/virtual-time.ts";
import { ClusterContinuity } from "../../store/cluster/contact/cluster-continuity.ts";
import { recoveryMark } from "../../store/cluster/contact/recovery.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";

const PATH = objectPath(NETWORKS_PATH, networkObjectName("blue"));

function clusterContinuity({ recoveryMs = 4_000, compareMs = 0 } = {}) {
  const time = new VirtualTime();
  let comparisons = 0;
  const compare = async () => {
    const { gap } = contact.continuity;
    await sleep(api.clock, compareMs);
    contact.continuity.noteCompared(gap);
    comparisons += 1;
  };
  const api = new KubeInMemory(time.clock());
  api.put(NETWORKS_PATH, { metadata: { name: networkObjectName("blue") }, spec: { network: "blue" } });
  const contact: ClusterContinuity = new ClusterContinuity({
    api,
    node: "node-a",
    recoveryMs,
    log: pino({ level: "silent" }),
    readMark: async (network) => contact.seen(network, api.at(PATH) as IPNetwork),
    relist: () => {},
    compare: () => void compare(),
  });
  onTestFinished(() => contact.stop());
  return { time, api, contact, continuity: contact.continuity, comparisons: () => comparisons };
}

test("a node's own mark that is read again after another node's is removed, without any ADD", async () => {
  const { time, api, contact, continuity } = clusterContinuity({ recoveryMs: 100 });
  const marked = continuity.missing("blue", "node-a: it has put back 2");
  const own = "node-a: it has put back 2; for 1 s";
  // What was read before the mark was written, and the mark itself when its node would have taken it off already.
  continuity.noteMark("blue", "node-b: its allocations are missing");
  await marked;
  await time.pass(550);
  continuity.noteMark("blue", own);
  await time.until(() => recoveryMark(api.at(PATH)) === null, "the end of the recovery");
  expect(continuity.recovering).toEqual([]);
  contact.stop();
});

test.each([
  // A list heals a watch that was refused as expired: the state stays "away" until the next watch is there.
  ["the watch is there before any probe", ["watching"], 0],
  ["a probe is answered long before the watch is there", [], 3_000],
] as const)("after a gap a node compares and admits again where %s", async (_which, states, waitMs) => {
  const { time, contact, continuity, comparisons } = clusterContinuity({ compareMs: 200 });
  contact.noteState("watching");
  contact.noteState("away");
  expect(continuity.closed).not.toBeNull();
  await time.pass(waitMs);
  for (const state of states) contact.noteState(state);
  await time.until(() => continuity.closed === null, "the end of the gap");
  expect(comparisons()).toBe(1);
  contact.stop();
});
