import { setTimeout as sleep } from "node:timers/promises";
import { ALLOCATIONS_PATH, namespacedPath } from "../../kube/objects.ts";
import type { TestCluster } from "../../test/harness/cluster.ts";
import { atMost, type Line, type Measurement, number } from "../line.ts";
import { BenchController } from "./bench-controller.ts";
import { KubeBench, NAMESPACE } from "./kube-bench.ts";
import {
  ADDRESS_CLAIMS_PATH,
  ADDRESSES_PATH,
  claimNames,
  createClaims,
  createMachinePool,
  createPool,
  defineMachines,
  isAnswered,
  POOL,
  timed,
  untilCount,
} from "./machine-objects.ts";
import { describeWrites, QUIET_MS, restLines, writesOf } from "./machine-writes.ts";

const AT_ONCE = 1_000;
/** Shorter than by default: what is measured comes after it. */
const GRACE_SECONDS = 5;
const FULL_POOL = "few";
const FULL_SUBNET = "192.168.0.0/29";
/** All addresses of that. */
const FULL_HOLDERS = 6;

/** Claims of machines: many at once, many that are deleted, and many that wait for one address. */
export const kubeMachinesClaims: Measurement = () =>
  KubeBench.with("10.0.0.0/8", async ({ cluster }) => {
    await defineMachines(cluster);
    const flags = ["--sweep-grace-seconds", String(GRACE_SECONDS)];
    return BenchController.with(cluster, flags, async (controller) => {
      await createMachinePool(cluster);
      return [
        ...(await claimLines(cluster, controller)),
        ...(await waitingLines(cluster)),
        ...(await restLines(cluster, `${number(AT_ONCE)} waiting claims`)),
      ];
    });
  });

async function claimLines(cluster: TestCluster, controller: BenchController): Promise<Line[]> {
  const claims = claimNames("claim", AT_ONCE);
  const against = `${number(AT_ONCE)} created, 32 at a time; API server and etcd on the same cores`;
  await controller.longestTurnMs();
  const given = await timed(async () => {
    await createClaims(cluster, claims, POOL);
    const createdMs = performance.now();
    await untilCount(cluster, ADDRESS_CLAIMS_PATH, AT_ONCE, isAnswered);
    return createdMs;
  });
  const givenTurnMs = await controller.longestTurnMs();
  const freed = await timed(async () => {
    await cluster.api.delete(namespacedPath(ADDRESS_CLAIMS_PATH, NAMESPACE));
    const deletedMs = performance.now();
    await untilCount(cluster, ALLOCATIONS_PATH, AT_ONCE, ({ status }) => status?.state === "Cooling");
    await untilCount(cluster, ADDRESSES_PATH, 0, () => true);
    return deletedMs;
  });
  const freedTurnMs = await controller.longestTurnMs();
  return [
    atMost(given.ms / 1_000, 30, "s", {
      what: `${number(AT_ONCE)} machine claims at once, all answered`,
      against,
      beside: `${number(given.restMs / 1_000)} s after the last was created`,
    }),
    atMost(givenTurnMs, 100, "ms", { what: "longest turn of the event loop meanwhile", against }),
    atMost(freed.restMs / 1_000, GRACE_SECONDS + 15, "s", {
      what: `${number(AT_ONCE)} machine claims deleted, all addresses cooling`,
      against: `one request, grace ${GRACE_SECONDS} s; from its answer on, which took ${number((freed.ms - freed.restMs) / 1_000)} s`,
    }),
    atMost(freedTurnMs, 100, "ms", {
      what: "longest turn of the event loop meanwhile",
      against: "the same",
    }),
  ];
}

/** Claims that wait for a pool that is full, and one address that is freed. */
async function waitingLines(cluster: TestCluster): Promise<Line[]> {
  await createPool(cluster, FULL_POOL, {
    network: FULL_POOL,
    definition: { subnets: FULL_SUBNET, cooldownSeconds: 0 },
  });
  const before = (await cluster.api.list(ADDRESS_CLAIMS_PATH)).length;
  await createClaims(cluster, claimNames("holder", FULL_HOLDERS), FULL_POOL);
  await untilCount(cluster, ADDRESS_CLAIMS_PATH, before + FULL_HOLDERS, isAnswered);
  const first = await cluster.writes();
  await createClaims(cluster, claimNames("waiting", AT_ONCE), FULL_POOL);
  const isWaiting = ({ status }: { status?: { conditions?: { reason?: string }[] } }) =>
    status?.conditions?.some(({ reason }) => reason === "PoolExhausted") ?? false;
  await untilCount(cluster, ADDRESS_CLAIMS_PATH, AT_ONCE, isWaiting);
  await sleep(QUIET_MS);
  const second = await cluster.writes();
  const patched = writesOf(first, second, "ipaddressclaims/status");
  await cluster.api.delete(`${namespacedPath(ADDRESS_CLAIMS_PATH, NAMESPACE)}/holder-0`);
  const freedMs = performance.now();
  await untilCount(cluster, ADDRESS_CLAIMS_PATH, AT_ONCE - 1, isWaiting);
  const servedMs = performance.now() - freedMs;
  await sleep(QUIET_MS);
  const third = await cluster.writes();
  const created = (third.ipallocations?.create ?? 0) - (second.ipallocations?.create ?? 0);

  return [
    atMost(patched / AT_ONCE, 1, "writes", {
      what: `a claim that waits for a full pool, one of ${number(AT_ONCE)}: writes of its status`,
      against: `until ${QUIET_MS / 1_000} s after the last was told`,
    }),
    atMost(created, 1, "creates", {
      what: "an address is freed for them: creates of an IPAllocation",
      against: `one claim of six deleted, no cool-down, grace ${GRACE_SECONDS} s; answered ${number(servedMs / 1_000)} s after the deletion; writes meanwhile: ${describeWrites(second, third)}`,
    }),
  ];
}
