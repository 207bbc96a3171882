import { expect, test } from "vitest";
import { LeaderLease } from "../../controller/lease.ts";
import type { KubeApi, KubeRequest } from "../../kube/kube-api.ts";
import type { Clock } from "../../platform/time.ts";
import type { ApiServer } from "../harness/kube-fake/api-server.ts";
import { FakeKubeApi } from "../harness/kube-fake/client/fake-kube-api.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { ManualClock } from "../harness/manual-clock.ts";

const LEASE = "/apis/coordination.k8s.io/v1/namespaces/system/leases/holdfast-controller";

/** A controller on a clock of its own; walls disagree by a year. */
class Candidate {
  readonly clock = new ManualClock();
  readonly lease: LeaderLease;

  constructor(identity: "a" | "b", apiOf: (clock: Clock) => KubeApi) {
    this.clock.wallOffsetMs = Date.UTC(identity === "a" ? 2026 : 2027, 0, 1) + 123 - this.clock.nowMs;
    this.lease = new LeaderLease({
      api: apiOf(this.clock),
      namespace: "system",
      identity,
      log: { info() {}, warn() {} },
    });
  }

  /** Turns every two seconds. */
  async turnFor(seconds: number): Promise<void> {
    for (let passed = 0; passed < seconds; passed += 2) {
      await this.lease.turn();
      this.clock.nowMs += 2_000;
    }
  }
}

/** A controller alone, and the server's objects. */
function alone(): { api: KubeInMemory; a: Candidate } {
  let api!: KubeInMemory;
  const a = new Candidate("a", (clock) => {
    api = new KubeInMemory(clock);
    return api;
  });
  return { api, a };
}

/** Two controllers at one server. */
function both(): { server: ApiServer; a: Candidate; b: Candidate } {
  const { server } = new KubeInMemory();
  const clientOf = (clock: Clock) => new FakeKubeApi({ server: () => server, clock });
  return { server, a: new Candidate("a", clientOf), b: new Candidate("b", clientOf) };
}

test("the first candidate acquires and renews the lease, with times of six fractional digits", async () => {
  const { api, a } = alone();
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

test("another candidate takes over only after it has seen no renewal for the lease's duration, whatever the wall clocks say", async () => {
  const { server, a, b } = both();
  for (let i = 0; i < 30; i++) {
    await a.turnFor(2);
    await b.turnFor(2);
  }
  expect([a.lease.held, b.lease.held]).toEqual([true, false]);
  await b.turnFor(14);
  expect(b.lease.held).toBe(false);
  await b.turnFor(6);
  expect(b.lease.held).toBe(true);
  expect(server.at(LEASE)?.spec).toMatchObject({ holderIdentity: "b", leaseTransitions: 1 });
  await a.turnFor(2);
  expect(a.lease.held).toBe(false);
});

test("a holder that cannot renew stops leading before another candidate begins", async () => {
  const { api, a } = alone();
  await a.turnFor(2);
  api.away = true;
  await a.turnFor(10);
  expect(a.lease.held).toBe(false);
});

test("after a holder has stepped down the next candidate leads at once", async () => {
  const { a, b } = both();
  await a.turnFor(2);
  await a.lease.stepDown();
  await b.turnFor(2);
  expect([a.lease.held, b.lease.held]).toEqual([false, true]);
});

test("without leases in the API every controller leads", async () => {
  const { api, a } = alone();
  api.missing.add("/apis/coordination.k8s.io");
  await a.turnFor(2);
  expect([a.lease.held, a.lease.leads]).toEqual([false, true]);
  api.missing.clear();
  await a.turnFor(2);
  expect(a.lease.held).toBe(true);
});

test("a policy that refuses the lease is logged once, and does not stop the work", async () => {
  const { api, a } = alone();
  const logged: unknown[] = [];
  const refusing = new Proxy<KubeApi>(api, {
    get: (target, key) => {
      if (key !== "send") return Reflect.get(target, key, target);
      return async (request: KubeRequest) =>
        request.method === "GET"
          ? target.send(request)
          : { status: 422, body: { message: "the policy says no" }, serverMs: null };
    },
  });
  const log = { info() {}, warn: (fields: unknown) => void logged.push(fields) };
  const lease = new LeaderLease({ api: refusing, namespace: "system", identity: "a", log });
  for (let turn = 0; turn < 3; turn += 1) await lease.turn();
  expect([a.lease.held, lease.held, lease.leads]).toEqual([false, false, true]);
  expect(logged).toEqual([{ status: 422, problem: "the policy says no" }]);
});
