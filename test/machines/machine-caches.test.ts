/** What the copies of machines' objects are worth while one of the kinds cannot be read. */
import { expect, onTestFinished, test } from "vitest";
import { MachineCaches } from "../../controller/capi/machine-caches.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { capiDefinitions } from "../harness/machines/definitions.ts";
import { VirtualTime } from "../harness/virtual-time.ts";

const LOG = { info() {}, warn() {} };
const NOTHING = () => {};

test.each([
  ["/ippools", null],
  ["/ipaddressclaims", "the ipaddressclaims are not listed yet"],
])("copies without %s", async (part, doubt) => {
  const time = new VirtualTime();
  const api = new KubeInMemory(time.clock());
  api.define(capiDefinitions("v1beta2"));
  let refused = 0;
  api.before = ({ path }) => {
    if (!path.includes(part)) return;
    refused += 1;
    throw new ApiAway("the test says so");
  };
  const caches = new MachineCaches(
    api,
    {
      ...{ claim: NOTHING, claimGone: NOTHING, address: NOTHING, addressGone: NOTHING, pool: NOTHING },
      ...{ poolGone: NOTHING, cluster: NOTHING, clusterGone: NOTHING, metal3Pool: NOTHING },
      ...{ poolsInterrupted: NOTHING, changed: NOTHING },
    },
    LOG,
  );
  expect(caches.doubt, "nothing is known before the first answer").not.toBeNull();
  onTestFinished(() => caches.stop());
  caches.start();
  let isListed = false;
  void caches.listed().then(() => {
    isListed = true;
  });
  const others = [caches.claims, caches.addresses, caches.pools, caches.clusters, caches.metal3Pools];
  const isSettled = () => others.filter(({ known, missing }) => known || missing).length === others.length - 1;
  await time.until(() => refused > 0 && isSettled(), "the lists");
  expect(caches.doubt).toBe(doubt);
  // Own mode waits for it: what is dispensable keeps nobody waiting.
  if (doubt === null) await time.until(() => isListed, "everything that is needed");
  else expect(isListed).toBe(false);
});
