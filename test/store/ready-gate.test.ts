/** Requests that came before the daemon is ready: what comes is waited for, what does not come is refused at once. */
import { expect, test } from "vitest";
import { AddWaiters } from "../../claims/add-waiters.ts";
import { ReadyGate, type Unready } from "../../cni/ready-gate.ts";
import { type ReadinessFacts, whyUnready } from "../../daemon/readiness.ts";
import { RefusalError } from "../../ipam/refusals.ts";
import { sleep } from "../../platform/time.ts";
import { StorageAway } from "../../store/allocations.ts";
import type { StoreStatus } from "../../store/node-store.ts";
import { VirtualTime } from "../harness/virtual-time.ts";

const DEADLINE_MS = 9_000;
const WAITING_MAX = 1_000;

/** A gate in front of a daemon that a test makes ready. */
class Door {
  readonly time = new VirtualTime();
  readonly clock = this.time.clock();
  readonly waiting = new AddWaiters(this.clock);
  unready: Unready | null = { reason: "the pods are not listed yet", outlook: "passes" };
  readonly gate = new ReadyGate(this.clock, this.waiting, () => this.unready);

  /** "served" or the code of the refusal, and when. */
  ask(attempt: (unready: Unready | null) => "served" | null = (unready) => (unready ? null : "served")) {
    const asked = this.gate.serve({ keys: ["container c"], deadlineMs: DEADLINE_MS }, async (unready) =>
      attempt(unready),
    );
    const outcome = asked.catch((error: unknown) => {
      if (error instanceof RefusalError) return `${error.refusal.code}: ${error.message}`;
      throw error;
    });
    return outcome.then((what) => ({ what, atMs: this.clock.monotonicMs() }));
  }

  after(ms: number, change: () => void): void {
    this.clock.timer(ms, change);
  }

  become(unready: Unready | null): () => void {
    return () => {
      this.unready = unready;
    };
  }
}

test("a request is served soon after the daemon is ready, and one that comes then at once", async () => {
  const door = new Door();
  door.after(3_000, door.become({ reason: "the definitions are not listed yet", outlook: "passes" }));
  door.after(5_000, door.become(null));
  const { what, atMs } = await door.time.run(door.ask());
  expect(what).toBe("served");
  expect(atMs).toBeGreaterThanOrEqual(5_000);
  expect(atMs).toBeLessThan(5_100);
  expect(await door.time.run(door.ask())).toEqual({ what: "served", atMs });
  expect(door.waiting.count).toBe(0);
});

test("what does not come before the deadline is refused then, with what it waited for last", async () => {
  const door = new Door();
  door.after(8_000, door.become({ reason: "the definitions are not listed yet", outlook: "passes" }));
  expect(await door.time.run(door.ask())).toEqual({
    what: "NOT_READY: holdfast is not ready: the definitions are not listed yet",
    atMs: DEADLINE_MS,
  });
});

test("what stays is refused at once, also when it shows only later", async () => {
  const door = new Door();
  const full: Unready = { reason: "the disk is full", outlook: "stays" };
  door.after(1_000, door.become(full));
  const { what, atMs } = await door.time.run(door.ask());
  expect(what).toBe("NOT_READY: holdfast is not ready: the disk is full");
  expect(atMs).toBeLessThan(1_100);
  expect(await door.time.run(door.ask())).toMatchObject({ what, atMs });
});

test("a daemon that ends leaves those who wait, and those who come, to the next one", async () => {
  const door = new Door();
  door.after(1_000, () => {
    door.unready = { reason: "it is stopping", outlook: "ends" };
    door.waiting.close();
  });
  expect(await door.time.run(door.ask())).toEqual({
    what: expect.stringMatching(/^DAEMON_ENDING/),
    atMs: 1_000,
  });
  expect(await door.time.run(door.ask())).toEqual({
    what: expect.stringMatching(/^DAEMON_ENDING/),
    atMs: 1_000,
  });
});

test("who can be answered before that is, as soon as that shows: a repeat, or a container that was deleted", async () => {
  const door = new Door();
  let isDeleted = false;
  door.after(2_000, () => {
    isDeleted = true;
    door.waiting.wake("container c");
  });
  const early = door.ask(() => (isDeleted ? "served" : null));
  expect(await door.time.run(early)).toEqual({ what: "served", atMs: 2_000 });
});

test("a thousand wait, the next is told at once, and all thousand are served with one look at a time", async () => {
  const door = new Door();
  let looks = 0;
  const gate = new ReadyGate(door.clock, door.waiting, () => {
    looks += 1;
    return door.unready;
  });
  const limits = { deadlineMs: DEADLINE_MS };
  const attempt = async (unready: Unready | null) => (unready === null ? door.clock.monotonicMs() : null);
  const all = Promise.all(Array.from({ length: WAITING_MAX }, () => gate.serve(limits, attempt)));
  door.after(1_000, () => {
    looks = 0;
  });
  const further = sleep(door.clock, 1_500).then(() => door.ask());
  let looksInASecond = 0;
  door.after(2_000, () => {
    looksInASecond = looks;
    door.unready = null;
  });
  expect(Math.max(...(await door.time.run(all)))).toBeLessThan(2_100);
  expect(looksInASecond).toBeGreaterThan(10);
  expect(looksInASecond).toBeLessThan(60);
  expect(await further).toEqual({ what: expect.stringMatching(/^TOO_MANY_WAITING/), atMs: 1_500 });
  expect(door.waiting.count).toBe(0);
});

test("a database that goes away under a request is waited for, and one that is gone for good is not", async () => {
  const door = new Door();
  door.unready = null;
  let attempts = 0;
  const attempt = () => {
    attempts += 1;
    if (attempts > 3) return "served" as const;
    door.unready = { reason: "a write failed", outlook: "passes" };
    door.after(500, door.become(null));
    throw new StorageAway("a write failed");
  };
  const { what, atMs } = await door.time.run(door.ask(attempt));
  expect(what).toBe("served");
  expect(atMs).toBeGreaterThanOrEqual(500);
  expect(atMs).toBeLessThan(DEADLINE_MS);
  const gone = () => {
    door.unready = { reason: "the disk fails", outlook: "stays" };
    throw new StorageAway("a write failed");
  };
  expect(await door.time.run(door.ask(gone))).toEqual({
    what: "NOT_READY: holdfast is not ready: the disk fails",
    atMs,
  });
  const other = door.gate.serve({ deadlineMs: DEADLINE_MS }, async () => {
    throw new Error("a fault");
  });
  await expect(other).rejects.toThrow("a fault");
});

const STORES: { readonly [kind: string]: readonly [StoreStatus, Unready["outlook"] | null] } = {
  ready: [{ kind: "ready" }, null],
  opening: [{ kind: "opening" }, "passes"],
  "reopening after a failed write": [{ kind: "faulted", reason: "EIO", isReopening: true }, "passes"],
  "full, or failing again": [{ kind: "faulted", reason: "the disk is full", isReopening: false }, "stays"],
  "to be rebuilt": [{ kind: "rebuild-required", reason: "put aside" }, "stays"],
  closed: [{ kind: "closed" }, "ends"],
};

test.each(Object.entries(STORES))(
  "a state that is %s, with everything else in every order",
  (_kind, [store, expected]) => {
    for (const isDrained of [true, false]) {
      for (const unlisted of [null, "the pods are not listed yet"]) {
        for (const unsettled of [null, "not settled yet"]) {
          const facts: ReadinessFacts = { store, isDrained, unlisted, unsettled, isStopping: false };
          const isMissing = !isDrained || unlisted !== null || unsettled !== null;
          expect(whyUnready(facts)?.outlook ?? null).toBe(expected ?? (isMissing ? "passes" : null));
          expect(whyUnready({ ...facts, isStopping: true })).toEqual({
            reason: "it is stopping",
            outlook: "ends",
          });
        }
      }
    }
  },
);
