import { newAllocation } from "../../allocations/allocation-object.ts";
import { type Caches, projectAllocation } from "../../claims/reasons/caches.ts";
import { ABSENT, type Cache } from "../../claims/reasons/facts.ts";
import { NO_MEMORY } from "../../claims/reasons/read-facts.ts";
import { Sweeper } from "../../controller/sweep/sweeper.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { API_VERSION, type IPAllocation } from "../../kube/objects.ts";
import type { Reflected } from "../../kube/reflected-items.ts";
import { projectCapiCluster, projectMachineAddress, projectMachineClaim } from "../../kube/views/machine-claim-view.ts";
import { makeLog } from "../../platform/log.ts";
import { systemClock } from "../../platform/time.ts";
import type { KubeObject } from "../../test/harness/kube-api.ts";
import { atMost, type Measurement, number } from "../line.ts";
import { quantile } from "../statistics.ts";
import { SINCE, tenth } from "./fill.ts";
import { NAMESPACE, NETWORK } from "./kube-bench.ts";

const MACHINES = 10_000;
const PASSES = 20;
/** Of so many machines one is gone, and its address is a candidate for release. */
const GONE_ONE_OF = 10;
const CLUSTER = "c";
const RULES = {
  ...{ graceSeconds: 3_600, podGoneReleaseSeconds: 0, clusterGoneReleaseSeconds: 0, coolingKeepSeconds: 600 },
  wallMs: () => 0,
  definitionOf: () => null,
};

/** How long every allocation of ten thousand machines is judged, in this process and from memory alone. */
export const kubeMachinesSweep: Measurement = async () => {
  const caches = cachesOf(MACHINES);
  const sweeper = new Sweeper({
    // Whatever is due would be read first: nothing is, before the grace is over.
    api: { clock: systemClock } as KubeApi,
    caches,
    rules: RULES,
    intervalSeconds: 10,
    doubt: () => null,
    idle: () => null,
    log: makeLog("error", systemClock),
  });
  const { signal } = new AbortController();
  const times: number[] = [];
  for (let pass = 0; pass < PASSES; pass += 1) {
    for (const one of caches.allocations.items.values()) sweeper.allocationChanged(one, one);
    const startMs = performance.now();
    await sweeper.runTurn(signal);
    times.push(performance.now() - startMs);
  }
  const verdicts = [...sweeper.counts].map(([verdict, found]) => `${verdict} ${number(found)}`).join(", ");
  const line = atMost(quantile(times, 1), 200, "ms", {
    what: `every allocation of ${number(MACHINES)} machines judged, from caches`,
    against: `in this process, the longest of ${PASSES} passes, median ${number(quantile(times, 0.5))} ms; ${verdicts}`,
  });
  return [line];
};

function cachesOf(count: number): Caches {
  const claims: KubeObject[] = [];
  const addresses: KubeObject[] = [];
  const allocations: IPAllocation[] = [];
  const poolRef = { apiGroup: API_VERSION.split("/")[0], kind: "AddressPool", name: "lan" };
  for (let index = 1; index <= count; index += 1) {
    const name = `machine-${index}`;
    const metadata = metadataOf(name, `uid-${index}`);
    const address = tenth(index);
    const owner = {
      kind: "IPAddressClaim",
      ...{ namespace: NAMESPACE, name, uid: `uid-${index}`, interface: "", cluster: CLUSTER },
    } as const;
    const object = newAllocation(NETWORK, { address, prefixLength: 8 }, { owner, attachment: null }, SINCE);
    const { metadata: own, ...rest } = object;
    allocations.push({
      ...rest,
      metadata: { ...own, uid: `a${index}`, resourceVersion: "1" },
    } as IPAllocation);
    addresses.push({
      metadata,
      spec: { claimRef: { name }, poolRef, address: formatAddress(address), prefix: 8 },
    });
    if (index % GONE_ONE_OF !== 0) claims.push({ metadata, spec: { poolRef, clusterName: CLUSTER } });
  }
  const clusters = [{ metadata: metadataOf(CLUSTER, "c"), spec: {} }];
  return {
    allocations: cacheOf(allocations, projectAllocation),
    ...{ claims: nothing(), pods: nothing(), nodes: nothing() },
    stoppedPods: { has: () => false },
    catalog: { networkOfNad: () => null },
    machines: {
      ...NO_MEMORY,
      claims: cacheOf(claims, projectMachineClaim),
      addresses: cacheOf(addresses, projectMachineAddress),
      clusters: cacheOf(clusters, projectCapiCluster),
      ...{ pools: nothing(), networks: nothing(), data: null },
      namespaceOf: () => ABSENT,
    },
  };
}

function metadataOf(name: string, uid: string): object {
  return { namespace: NAMESPACE, name, uid, resourceVersion: "1", creationTimestamp: SINCE };
}

function cacheOf<O, T extends Reflected>(objects: readonly O[], project: (object: O) => T): Cache<T> {
  return { known: true, items: new Map(objects.map(project).map((one) => [one.key, one])) };
}

function nothing<T>(): Cache<T> {
  return { known: true, items: new Map() };
}
