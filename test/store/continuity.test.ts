import { describe, expect, test } from "vitest";
import { Continuity } from "../../store/cluster/contact/continuity.ts";
import { recoveryMark } from "../../store/cluster/contact/recovery.ts";
import { VirtualTime } from "../harness/virtual-time.ts";

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
  let mark: { readonly id: string } | null = null;
  const continuity: Continuity = new Continuity({
    settleMs: SETTLE_MS,
    recoveryMs: RECOVERY_MS,
    clock,
    readMark: async (network) => {
      looked.push(network);
      continuity.noteMark(network, mark);
    },
    mark: async (network, { message }) => {
      told.push(`${network}: ${message}`);
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
    setMark: (id: string | null) => {
      mark = id === null ? null : { id };
    },
    /** Whether somebody new may have an address now. */
    open: async (network = "blue") => (await continuity.admit(network, clock.monotonicMs() + ADD_MS_MIN)) === null,
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
    continuity.noteMark("blue", { id: "node-c, 10:01" });
    await pass(RECOVERY_MS - 1);
    expect(await open()).toBe(false);
    expect(continuity.recovering).toEqual(["blue"]);
    await pass(1);
    expect(await open()).toBe(true);
    setMark(null);
    expect(await open("red"), "another network").toBe(true);
  });
});

describe("what was written a moment before a gap", () => {
  const WRITTEN = { path: "/written", resourceVersion: "7", serverMs: 50_000 };

  /** It gives, writes, and loses contact a second later, for as long. */
  async function gap({ sentAgoMs = 2_000 } = {}) {
    const parts = manualContinuity();
    const { continuity, pass, later } = parts;
    await parts.open();
    await pass(10_000);
    const written = { ...WRITTEN, sentMs: later(-sentAgoMs) };
    continuity.noteWritten(written);
    continuity.lose();
    continuity.regain();
    continuity.noteCompared(continuity.gap);
    return { ...parts, written };
  }

  test("proves that nothing is lost: the others need no time, and the mark is read again", async () => {
    const { continuity, open, looked, written } = await gap();
    expect(await open()).toBe(false);
    expect(continuity.witness).toBe(written);
    continuity.noteProven(continuity.gap, written, 53_000);
    expect(await open()).toBe(true);
    expect(looked).toEqual(["blue", "blue"]);
  });

  test("proves nothing of an object that is being written again: the write before it does", async () => {
    const { continuity, written, later } = await gap();
    continuity.noteWritten({ ...written, path: "/later", sentMs: later(0) });
    continuity.noteWriting("/later");
    expect(continuity.witness).toBe(written);
  });

  test("proves the same of a second gap inside the first", async () => {
    const { continuity, open, pass, written } = await gap({ sentAgoMs: 500 });
    await pass(1_000);
    continuity.lose();
    continuity.regain();
    continuity.noteCompared(continuity.gap);
    continuity.noteProven(continuity.gap, written, 51_000);
    expect(await open()).toBe(true);
  });

  test.each([
    ["was sent longer ago than any backup is young", { sentAgoMs: 2_001 }, 50_000, () => {}],
    ["is older by the server's clock: this machine stood still", {}, 53_001, () => {}],
    ["was answered by a server whose clock is ahead", {}, 46_999, () => {}],
    [
      "was read before another gap",
      {},
      50_000,
      (one: Continuity) => {
        one.lose();
        one.regain();
      },
    ],
    [
      "is of before a restore that its versions showed",
      {},
      50_000,
      (one: Continuity) => {
        one.noteVersion("200");
        one.noteCurrent("100", one.newest);
      },
    ],
  ] as const)("proves nothing where it %s", async (_why, how, serverMs, meanwhile) => {
    const { continuity, open, pass, written } = await gap(how);
    const { gap: read } = continuity;
    meanwhile(continuity);
    continuity.noteProven(read, written, serverMs);
    continuity.noteCompared(continuity.gap);
    await pass(SETTLE_MS - 1);
    expect(await open()).toBe(false);
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

test("a mark whose number the installed definition drops is told from the next one by its message", async () => {
  const { continuity, pass } = manualContinuity();
  const marked = (message: string) => {
    const condition = { type: "Recovering", status: "True", reason: "AllocationsMissing", message } as const;
    const conditions = [{ ...condition, lastTransitionTime: "2026-01-01T00:00:00Z" }];
    return recoveryMark({ status: { conditions } });
  };
  continuity.noteMark("blue", marked("node a: its allocations are missing"));
  await pass(RECOVERY_MS - 1_000);
  expect(continuity.recoveryLeftMs("blue")).toBe(1_000);
  continuity.noteMark("blue", marked("node b: its allocations are missing"));
  expect(continuity.recoveryLeftMs("blue")).toBe(RECOVERY_MS);
});
