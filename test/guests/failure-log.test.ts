import { expect, test } from "vitest";
import { FailureLog } from "../../guests/failure-log.ts";
import type { FailedPort } from "../../guests/ports/wire.ts";
import { type Clock, systemClock } from "../../platform/time.ts";

const GONE: FailedPort = {
  containerId: "c1",
  interface: "eth0",
  kind: "pending",
  problem: "its link is gone",
};

/** Time that passes by `pass` alone. */
function standing() {
  let nowMs = 0;
  const timers = new Set<{ atMs: number; fire: () => void }>();
  const clock: Clock = {
    ...systemClock,
    monotonicMs: () => nowMs,
    timer: (ms, fire) => {
      const one = { atMs: nowMs + ms, fire };
      timers.add(one);
      return { cancel: () => timers.delete(one) } as unknown as ReturnType<Clock["timer"]>;
    },
  };
  const pass = (ms: number) => {
    nowMs += ms;
    for (const one of [...timers]) if (one.atMs <= nowMs && timers.delete(one)) one.fire();
  };
  return { clock, pass, timers };
}

function logged() {
  const told: string[] = [];
  let failed: readonly FailedPort[] = [];
  const { clock, pass, timers } = standing();
  const log = new FailureLog(
    { warn: (about: unknown) => told.push((about as FailedPort).problem) } as never,
    clock,
    () => failed,
  );
  const look = (now: readonly FailedPort[]) => {
    failed = now;
    log.look();
  };
  return { told, look, pass, timers, log };
}

test("a link that is gone for a moment before its DEL is not reported", () => {
  const { told, look, pass, timers } = logged();
  look([GONE]);
  pass(1_000);
  look([]);
  pass(10_000);
  expect(told).toEqual([]);
  expect(timers.size).toBe(0);
});

test("a guest that is not served for seconds is reported once for each reason", () => {
  const { told, look, pass } = logged();
  look([GONE]);
  expect(told).toEqual([]);
  pass(3_000);
  expect(told).toEqual(["its link is gone"]);
  look([GONE]);
  pass(10_000);
  look([{ ...GONE, problem: "another" }]);
  expect(told).toEqual(["its link is gone", "another"]);
});

test("a guest that can never be served is reported at once", () => {
  const { told, look } = logged();
  look([{ ...GONE, kind: "final", problem: "macvlan" }]);
  expect(told).toEqual(["macvlan"]);
});

test("nothing is reported after stop", () => {
  const { told, look, pass, log } = logged();
  look([GONE]);
  log.stop();
  pass(10_000);
  expect(told).toEqual([]);
});
