import { expect, test } from "vitest";
import type { ClaimOutcome } from "../../controller/capi/fulfilment.ts";
import { Machines } from "../../controller/capi/machines.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { type MachineClaimView, projectMachineClaim } from "../../kube/views/machine-claim-view.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { ManualClock } from "../harness/manual-clock.ts";

const SETTLED_LATER_MS = 3_000;

function claim(name: string): MachineClaimView {
  return projectMachineClaim({
    metadata: {
      ...{ name, namespace: "fleet", uid: `${name}-uid`, resourceVersion: "7" },
      creationTimestamp: "2026-01-01T00:00:00Z",
    },
    spec: { poolRef: { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "lan" } },
  });
}

test("a claim that meets what nobody expected holds up no other, and comes again later", async () => {
  const clock = new ManualClock();
  const claims = Array.from({ length: 30 }, (_, index) => claim(`m${String(index).padStart(2, "0")}`));
  const cache = <T>(items: readonly [string, T][]) => ({
    ...{ items: new Map(items), known: true, missing: false },
    path: "/apis/ipam.cluster.x-k8s.io/v1beta2/ipaddressclaims",
  });
  const settled: string[] = [];
  let isBad = true;
  const machines = new Machines({
    api: new KubeInMemory(clock),
    caches: {
      ...{ claims: cache(claims.map((one) => [one.key, one])), addresses: cache([]), pools: cache([]) },
      ...{ clusters: cache([]), doubt: null },
    },
    fulfilment: {
      settle: async ({ name }): Promise<ClaimOutcome> => {
        if (name === "m03" && isBad) throw new TypeError("no such thing");
        if (name === "m04" && isBad)
          throw new RefusalError(refuse("API_REFUSED", { what: "release it", problem: "a policy says no" }));
        settled.push(name);
        return { kind: "fulfilled", version: null };
      },
    },
    events: { warn: () => {} },
    passMs: 60_000,
    idle: () => null,
    onDue: () => {},
    log: { info: () => {}, warn: () => {} },
  });
  for (const one of claims) machines.claimSeen(one, undefined);
  const { signal } = new AbortController();
  await machines.runPass(signal);
  expect(settled).toHaveLength(28);
  expect(Object.fromEntries(machines.counts)).toEqual({ fulfilled: 28, later: 2 });
  isBad = false;
  clock.nowMs += SETTLED_LATER_MS;
  await machines.runPass(signal);
  expect(Object.fromEntries(machines.counts)).toEqual({ fulfilled: 30 });
});
