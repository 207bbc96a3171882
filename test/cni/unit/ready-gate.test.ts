/** Requests that came before the daemon is ready: what comes is waited for, what does not come is refused at once. */
import { expect, test } from "vitest";
import { AddWaiters } from "../../../claims/add-waiters.ts";
import { ReadyGate } from "../../../cni/ready-gate.ts";
import { RefusalError } from "../../../ipam/refusals.ts";
import { sleep } from "../../../platform/time.ts";
import { StorageAway } from "../../../store/allocations.ts";
import type { StoreStatus } from "../../../store/node-store.ts";
import { Readiness, type Unready, whyAway } from "../../../store/readiness.ts";
import { VirtualTime } from "../../harness/virtual-time.ts";

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
      this.gate.changed();
    };
  }
}

test("a request is served as soon as the daemon is ready, and one that comes then at once", async () => {
  const door = new Door();
  door.after(3_000, door.become({ reason: "the definitions are not listed yet", outlook: "passes" }));
  door.after(5_000, door.become(null));
  const { what, atMs } = await door.time.run(door.ask());
  expect({ what, atMs }).toEqual({ what: "served", atMs: 5_000 });
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
  expect({ what, atMs }).toEqual({ what: "NOT_READY: holdfast is not ready: the disk is full", atMs: 1_000 });
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

test("a thousand wait, and nothing is looked at; the next is told at once, and all thousand are served", async () => {
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
  door.after(2_000, () => {
    expect(looks).toBe(0);
    door.unready = null;
    gate.changed();
  });
  expect(Math.max(...(await door.time.run(all)))).toBe(2_000);
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
  "a state that is %s, and what comes before and after it",
  (_kind, [store, expected]) => {
    const stopping: Unready = { reason: "it is stopping", outlook: "ends" };
    for (const first of [null, stopping])
      for (const last of [null, "the pods are not listed yet"]) {
        const readiness = new Readiness([
          { name: "process", whyNot: () => first },
          { name: "state", whyNot: () => whyAway(store) },
          { name: "pods", whyNot: () => last },
        ]);
        expect(readiness.whyNot("state")).toBe(first);
        expect(readiness.whyNot("pods")).toEqual(first ?? whyAway(store));
        expect(readiness.whyNot()?.outlook ?? null).toBe(first?.outlook ?? expected ?? (last && "passes"));
      }
  },
);

test("who waits for a condition is woken by the change that makes it hold, or when he is to wait no more", async () => {
  const missing = { whyNot: "not settled yet" as string | null };
  const readiness = new Readiness([{ name: "agreement", whyNot: () => missing.whyNot }]);
  const isReady = () => readiness.whyNot() === null;
  const [ends, goesOn] = [new AbortController(), new AbortController()];
  const given = readiness.until(isReady, ends.signal);
  const waited = readiness.until(isReady, goesOn.signal);
  readiness.changed();
  ends.abort();
  expect(await given).toBe(false);
  missing.whyNot = null;
  readiness.changed();
  expect(await waited).toBe(true);
  expect(await readiness.until(isReady, ends.signal)).toBe(false);
});
