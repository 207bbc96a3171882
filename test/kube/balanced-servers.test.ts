/** A rolling upgrade of the control plane: two API servers behind a balancer, each restarted in turn under load. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { TestCluster } from "../harness/cluster.ts";
import { KubePods } from "../harness/kube-pods.ts";
import { switchServers } from "../harness/server-switches.ts";
import { NAMESPACE } from "../harness/world/network.ts";

const TIMES = Number(process.env.HOLDFAST_TEST_ROUNDS ?? 3);
/** How long a node may refuse what it could give, ms. */
const REFUSAL_MS_MAX = 10_000;
const LIMIT_MS = 600_000;

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await TestCluster.start({ controllers: false });
  await new KubePods(cluster.api).createNamespace(NAMESPACE);
});
afterAll(() => cluster?.stop());

test(
  "a node gives again within seconds, also where switches between two API servers and a cut follow each other",
  async () => {
    const { adds, refused, longestRefusalMs, worst, untrue } = await switchServers(cluster, TIMES);
    console.log(`${adds} ADDs, ${refused} refused, the longest refusal ${longestRefusalMs} ms: ${worst}`);
    expect(longestRefusalMs, worst).toBeLessThanOrEqual(REFUSAL_MS_MAX);
    expect(untrue).toBe(0);
    expect(adds).toBeGreaterThan(TIMES * 10);
  },
  LIMIT_MS,
);
