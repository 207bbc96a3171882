import { expect, test } from "vitest";
import { Lease } from "../../controller/lease.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";

const LEASE = "/apis/coordination.k8s.io/v1/namespaces/system/leases/holdfast-controller";

/** A controller on one clock; walls disagree by a year. */
class Candidate {
  nowMs = 0;
  readonly lease: Lease;

  constructor(api: KubeInMemory, identity: string) {
    this.lease = new Lease({
      api,
      namespace: "system",
      identity,
      monotonicMs: () => this.nowMs,
      // A renewal that changes nothing is none.
      time: () => new Date(Date.UTC(identity === "a" ? 2026 : 2027, 0, 1) + 123 + this.nowMs).toISOString(),
      log: { info() {}, warn() {} },
    });
  }

  /** Turns every two seconds. */
  async turnFor(seconds: number): Promise<void> {
    for (let passed = 0; passed < seconds; passed += 2) {
      await this.lease.turn();
      this.nowMs += 2_000;
    }
  }
}

test("the first acquires and renews; times have six digits", async () => {
  const api = new KubeInMemory();
  const a = new Candidate(api, "a");
  expect(a.lease.leads).toBe(false);
  await a.turnFor(60);
  expect(a.lease.held).toBe(true);
  expect(api.at(LEASE).spec).toMatchObject({
    holderIdentity: "a",
    leaseDurationSeconds: 15,
    renewTime: "2026-01-01T00:00:58.123000Z",
    leaseTransitions: 0,
  });
});

test("another one takes over only when it has seen no renewal for long, whatever the wall clocks say", async () => {
  const api = new KubeInMemory();
  const a = new Candidate(api, "a");
  const b = new Candidate(api, "b");
  for (let i = 0; i < 30; i++) {
    await a.turnFor(2);
    await b.turnFor(2);
  }
  expect([a.lease.held, b.lease.held]).toEqual([true, false]);
  await b.turnFor(14);
  expect(b.lease.held).toBe(false);
  await b.turnFor(6);
  expect(b.lease.held).toBe(true);
  expect(api.at(LEASE).spec).toMatchObject({ holderIdentity: "b", leaseTransitions: 1 });
  await a.turnFor(2);
  expect(a.lease.held).toBe(false);
});

test("a holder that cannot renew stops leading before another one begins", async () => {
  const api = new KubeInMemory();
  const a = new Candidate(api, "a");
  await a.turnFor(2);
  api.away = true;
  await a.turnFor(10);
  expect(a.lease.held).toBe(false);
});

test("stepping down lets the next one in at once", async () => {
  const api = new KubeInMemory();
  const a = new Candidate(api, "a");
  const b = new Candidate(api, "b");
  await a.turnFor(2);
  await a.lease.stepDown();
  await b.turnFor(2);
  expect([a.lease.held, b.lease.held]).toEqual([false, true]);
});

test("where leases are refused everybody works", async () => {
  const api = new KubeInMemory();
  api.missing.add("/apis/coordination.k8s.io");
  const a = new Candidate(api, "a");
  await a.turnFor(2);
  expect([a.lease.held, a.lease.leads]).toEqual([false, true]);
  api.missing.clear();
  await a.turnFor(2);
  expect(a.lease.held).toBe(true);
});
