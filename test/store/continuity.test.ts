import { describe, expect, test } from "vitest";
import { VirtualTime } from "../../platform/virtual-time.ts";
import { Continuity } from "../../store/cluster/allocations/continuity.ts";

const SETTLE_MS = 4_000;
const RECOVERY_MS = 30_000;
/** What is left of an ADD's time when it is not let in any more. */
const ADD_MS_MIN = 1_000;

/** Marks and time in the test's hand; deadlines leave no time to wait, so that a wait shows as a refusal. */
function manualContinuity() {
  const time = new VirtualTime();
  const clock = time.clock();
  const told: string[] = [];
  const looked: string[] = [];
  let mark: string | null = null;
  const continuity: Continuity = new Continuity({
    settleMs: SETTLE_MS,
    recoveryMs: RECOVERY_MS,
    clock,
    readMark: async (network) => {
      looked.push(network);
      continuity.noteMark(network, mark);
    },
    mark: async (network, what) => {
      told.push(`${network}: ${what}`);
    },
    onWentBack: () => told.push("went back"),
  });
  return {
    continuity,
    told,
    looked,
    time,
    pass: (ms: number) => time.pass(ms),
    /** An instant so much later, ms. */
    later: (ms: number) => clock.monotonicMs() + ms,
    setMark: (text: string | null) => {
      mark = text;
    },
    /** Whether somebody new may have an address now. */
    open: async (network = "blue") =>
      (await continuity.admit(network, clock.monotonicMs() + ADD_MS_MIN)) === null,
    reason: async () => (await continuity.admit("blue", clock.monotonicMs() + ADD_MS_MIN))?.message,
  };
}

test("without a gap addresses are given after one read of the network's mark", async () => {
  const { open, looked } = manualContinuity();
  expect(await open()).toBe(true);
  expect(await open()).toBe(true);
  expect(looked).toEqual(["blue"]);
});

describe("after a gap in contact", () => {
  test("no new address is given until this node has compared, the others had time, and no mark is there", async () => {
    const { continuity, open, reason, pass, looked } = manualContinuity();
    await open();
    const { epoch } = continuity;
    continuity.lose();
    expect(continuity.whyNot(epoch)).toContain("lost");
    expect(await reason()).toContain("is not compared with it yet");
    continuity.regain();
    await pass(SETTLE_MS);
    expect(await open(), "not compared").toBe(false);
    continuity.noteCompared(continuity.gap);
    expect(await open()).toBe(true);
    expect(looked, "the mark is read again").toEqual(["blue", "blue"]);
  });

  test("no new address is given while the others have had no time to compare", async () => {
    const { continuity, open, reason, pass } = manualContinuity();
    continuity.lose();
    continuity.regain();
    continuity.noteCompared(continuity.gap);
    expect(await reason()).toContain("other nodes compare what they hold with it, 4 s more");
    await pass(SETTLE_MS);
    expect(await open()).toBe(true);
  });

  test("a request whose deadline allows it waits for the others", async () => {
    const { continuity, time, later } = manualContinuity();
    continuity.lose();
    continuity.regain();
    continuity.noteCompared(continuity.gap);
    expect(await time.run(continuity.admit("blue", later(SETTLE_MS + ADD_MS_MIN)))).toBeNull();
    expect(time.nowMs).toBe(SETTLE_MS);
  });

  test("a comparison that began before another gap does not count", async () => {
    const { continuity, open, pass } = manualContinuity();
    continuity.lose();
    continuity.regain();
    const { gap } = continuity;
    continuity.lose();
    continuity.regain();
    continuity.noteCompared(gap);
    await pass(SETTLE_MS);
    expect(await open()).toBe(false);
  });

  test("a mark of another node that is found later is waited for, and again when it is renewed", async () => {
    const { continuity, open, reason, pass, setMark } = manualContinuity();
    continuity.lose();
    continuity.regain();
    continuity.noteCompared(continuity.gap);
    await pass(SETTLE_MS);
    setMark("node-b, 10:00");
    expect(await reason()).toContain("the nodes put back what their containers use, 30 s more");
    await pass(RECOVERY_MS - 1);
    expect(await open()).toBe(false);
    continuity.noteMark("blue", "node-c, 10:01");
    await pass(RECOVERY_MS - 1);
    expect(await open()).toBe(false);
    expect(continuity.recovering).toEqual(["blue"]);
    await pass(1);
    expect(await open()).toBe(true);
    setMark(null);
    expect(await open("red"), "another network").toBe(true);
  });
});

describe("after a cut connection to a server that was there", () => {
  const CREATED = { name: "blue-1", uid: "u1", resourceVersion: "100" };

  /** With a creation that the watch has outlived. */
  async function watched() {
    const all = manualContinuity();
    expect(await all.open()).toBe(true);
    all.continuity.noteCreated(CREATED);
    all.continuity.noteWatched("101");
    return all;
  }

  test("no request waits, and ADDs under way continue", async () => {
    const { continuity, open } = await watched();
    const { epoch } = continuity;
    continuity.lose();
    expect(continuity.inQuestion).toEqual({ name: "blue-1", uid: "u1", version: 100n });
    continuity.regain();
    expect(await open(), "in question").toBe(false);
    expect(continuity.whyNot(epoch)).not.toBeNull();
    expect(continuity.noteServed(continuity.gap, true)).toBe(true);
    expect(continuity.whyNot(epoch)).toBeNull();
    expect(await open()).toBe(true);
  });

  test("a request that arrived meanwhile is served, even with a short deadline", async () => {
    const { continuity, time, later } = await watched();
    continuity.lose();
    continuity.regain();
    const waiting = continuity.admit("blue", later(3_000));
    await time.pass(1_000);
    continuity.noteServed(continuity.gap, true);
    expect(await time.run(waiting)).toBeNull();
  });

  test("the API server has all that it had; after any other gap only when this node has looked for what it brought back", async () => {
    const { continuity } = await watched();
    expect(continuity.isUnbroken).toBe(true);
    continuity.lose();
    continuity.regain();
    expect(continuity.isUnbroken).toBe(false);
    continuity.noteServed(continuity.gap, true);
    expect(continuity.isUnbroken).toBe(true);
    continuity.lose();
    continuity.regain();
    const { gap } = continuity;
    continuity.noteServed(gap, false);
    continuity.lose();
    continuity.regain();
    continuity.noteServed(continuity.gap, true);
    continuity.noteRecovered(gap);
    expect(continuity.isUnbroken, "what was looked at before the last gap").toBe(false);
    continuity.noteRecovered(continuity.gap);
    expect(continuity.isUnbroken).toBe(true);
  });

  test("an answer that leaves it open is treated as any gap", async () => {
    const { continuity, open, reason, pass } = await watched();
    const { epoch } = continuity;
    continuity.lose();
    continuity.regain();
    continuity.noteCompared(continuity.gap);
    expect(continuity.noteServed(continuity.gap, false)).toBe(true);
    expect(continuity.whyNot(epoch)).toContain("lost");
    expect(await reason()).toContain("other nodes compare what they hold with it, 4 s more");
    await pass(SETTLE_MS);
    expect(await open()).toBe(true);
  });

  test("an answer that comes after contact was lost again does not count, and one later answer settles both gaps", async () => {
    const { continuity, open } = await watched();
    const { epoch } = continuity;
    continuity.lose();
    continuity.regain();
    const { gap } = continuity;
    continuity.lose();
    expect(continuity.noteServed(gap, true)).toBe(false);
    expect(continuity.noteServed(continuity.gap, true), "the watch is not there").toBe(false);
    continuity.regain();
    expect(continuity.noteServed(continuity.gap, true)).toBe(true);
    expect(continuity.whyNot(epoch)).toBeNull();
    expect(await open()).toBe(true);
  });

  test("an earlier gap for which others still need time is not undone", async () => {
    const { continuity, open, reason } = manualContinuity();
    continuity.lose();
    continuity.regain();
    const decided = continuity.epoch;
    continuity.noteCreated(CREATED);
    continuity.noteWatched("101");
    continuity.lose();
    continuity.regain();
    continuity.noteServed(continuity.gap, true);
    expect(continuity.whyNot(decided)).toBeNull();
    expect(await reason()).toContain("is not compared with it yet");
    continuity.noteCompared(continuity.gap);
    expect(await open()).toBe(false);
  });

  test.each<[string, (continuity: Continuity) => void]>([
    ["nothing was created by this node", () => {}],
    ["the watch may have been dead when it was created", (one) => one.noteCreated(CREATED)],
    [
      "the watch has brought only older news since",
      (one) => {
        one.noteCreated(CREATED);
        one.noteWatched("99");
      },
    ],
    [
      "the server went back meanwhile",
      (one) => {
        one.noteCreated(CREATED);
        one.noteWatched("101");
        one.noteVersion("101");
        one.noteCurrent("90", one.newest);
      },
    ],
    [
      "something of this node's was missing meanwhile",
      (one) => {
        one.noteCreated(CREATED);
        one.noteWatched("101");
        void one.missing("red", "gone");
      },
    ],
  ])("the question is not asked when %s", async (_why, prepare) => {
    const { continuity } = manualContinuity();
    prepare(continuity);
    continuity.lose();
    expect(continuity.inQuestion).toBeNull();
    continuity.regain();
    expect(continuity.noteServed(continuity.gap, true)).toBe(false);
  });

  test("an answer does not count when versions went back while it was open", async () => {
    const { continuity } = await watched();
    continuity.noteVersion("101");
    continuity.lose();
    continuity.regain();
    continuity.noteCurrent("90", continuity.newest);
    expect(continuity.noteServed(continuity.gap, true)).toBe(false);
  });

  test("writes wait for the answer until their deadline", async () => {
    const { continuity, time, later } = await watched();
    const { epoch } = continuity;
    expect(await continuity.untilKnown(epoch, later(60_000)), "no gap").toBe(false);
    continuity.lose();
    const beganMs = time.nowMs;
    await time.run(continuity.untilKnown(epoch, later(200)));
    expect(time.nowMs - beganMs).toBe(200);
    continuity.regain();
    const waiting = continuity.untilKnown(epoch, later(60_000));
    continuity.noteServed(continuity.gap, true);
    expect(await time.run(waiting)).toBe(true);
    expect(time.nowMs - beganMs, "it need not wait for the deadline").toBeLessThan(1_000);
    expect(continuity.whyNot(epoch)).toBeNull();
  });
});

test("when an allocation of this node is missing, its network is closed here before the mark is written", async () => {
  const { continuity, open, told, setMark } = manualContinuity();
  await open();
  const { epoch } = continuity;
  const telling = continuity.missing("blue", "gone");
  expect(continuity.whyNot(epoch)).not.toBeNull();
  setMark("gone");
  expect(await open()).toBe(false);
  await telling;
  expect(told).toEqual(["blue: gone; for 30 s"]);
});

describe("versions", () => {
  test("a version that is older than one seen before the request shows that the server was restored", async () => {
    const { continuity, open, told, pass } = manualContinuity();
    continuity.noteVersion("200");
    const before = continuity.newest;
    continuity.noteVersion("300");
    continuity.noteCurrent("250", before);
    expect(told, "answers may come in another order than their questions").toEqual([]);
    continuity.noteCurrent("299", continuity.newest);
    expect(told).toEqual(["went back"]);
    continuity.noteCompared(continuity.gap);
    expect(await open()).toBe(false);
    await pass(RECOVERY_MS);
    expect(await open()).toBe(true);
    continuity.noteCurrent("300", continuity.newest);
    expect(told, "said once").toEqual(["went back"]);
  });

  test.each([[undefined], [""], ["0"], ["not-a-number"]])("the version %j is ignored", (version) => {
    const { continuity, told } = manualContinuity();
    continuity.noteVersion("5");
    continuity.noteCurrent(version, continuity.newest);
    expect(told).toEqual([]);
  });
});
