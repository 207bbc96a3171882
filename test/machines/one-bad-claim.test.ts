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

const cache = <T>(items: readonly [string, T][]) => ({
  ...{ items: new Map(items), known: true, missing: false, onChange() {} },
  path: "/apis/ipam.cluster.x-k8s.io/v1beta2/ipaddressclaims",
});

/** The loop over some claims; `settle` tells what becomes of each. */
function loopOver(claims: readonly MachineClaimView[], settle: (claim: MachineClaimView) => Promise<ClaimOutcome>) {
  const clock = new ManualClock();
  const told: string[] = [];
  const machines = new Machines({
    api: new KubeInMemory(clock),
    caches: {
      ...{ claims: cache(claims.map((one) => [one.key, one])), addresses: cache([]), pools: cache([]) },
      ...{ clusters: cache([]), doubt: null },
    },
    fulfilment: { settle },
    status: {
      says: () => told.length > 0,
      write: async (_, desired) => {
        if (desired.kind === "failed") told.push(desired.message);
        return { kind: "unchanged" };
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
  const pass = async (laterMs: number) => {
    clock.nowMs += laterMs;
    await machines.runPass(signal);
  };
  return { machines, told, pass };
}

test("a claim that fails unexpectedly does not delay others, and is retried later", async () => {
  const claims = Array.from({ length: 30 }, (_, index) => claim(`m${String(index).padStart(2, "0")}`));
  const settled: string[] = [];
  let isBad = true;
  const { machines, pass } = loopOver(claims, async ({ name }) => {
    if (name === "m03" && isBad) throw new TypeError("no such thing");
    if (name === "m04" && isBad)
      throw new RefusalError(refuse("API_REFUSED", { what: "release it", problem: "a policy says no" }));
    settled.push(name);
    return { kind: "fulfilled", version: null };
  });
  await pass(0);
  expect(settled).toHaveLength(28);
  expect(Object.fromEntries(machines.counts)).toEqual({ fulfilled: 28, later: 2 });
  isBad = false;
  await pass(SETTLED_LATER_MS);
  expect(Object.fromEntries(machines.counts)).toEqual({ fulfilled: 30 });
});

test("a change of a claim is handled without waiting for its next attempt", async () => {
  let looks = 0;
  const { machines, pass } = loopOver([claim("m0")], async () => {
    looks += 1;
    return { kind: "later", problem: "the API server is away" };
  });
  await pass(0);
  await pass(0);
  expect(looks).toBe(1);
  machines.poolChanged("fleet/lan");
  await pass(0);
  expect(looks).toBe(2);
  machines.addressChanged({ key: "fleet/m0" });
  await pass(0);
  expect(looks).toBe(3);
});

test("a failure that is usually transient is reported after ten seconds", async () => {
  const outcome = { reason: "PoolNotReady", message: "it recovers", isBrief: true } as const;
  const { machines, told, pass } = loopOver([claim("m0")], async () => ({ kind: "failed", ...outcome }));
  await pass(0);
  for (let passedMs = 0; passedMs < 9_000; passedMs += 1_000) await pass(1_000);
  expect([told, Object.fromEntries(machines.counts)]).toEqual([[], { later: 1 }]);
  for (let passedMs = 0; passedMs < 20_000; passedMs += 1_000) await pass(1_000);
  expect([told, Object.fromEntries(machines.counts)]).toEqual([["it recovers"], { PoolNotReady: 1 }]);
});
