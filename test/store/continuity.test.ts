import { describe, expect, test } from "vitest";
import { Continuity } from "../../store/kubernetes/continuity.ts";

const SETTLE_MS = 4_000;
const RECOVERY_MS = 30_000;

/** Marks and clock in the test's hand; deadlines are far, so that a wait shows as a refusal of what does not fit. */
function stage() {
  let nowMs = 1_000;
  const told: string[] = [];
  const looked: string[] = [];
  let mark: string | null = null;
  const continuity: Continuity = new Continuity({
    settleMs: SETTLE_MS,
    recoveryMs: RECOVERY_MS,
    monotonicMs: () => nowMs,
    look: async (network) => {
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
    pass: (ms: number) => {
      nowMs += ms;
    },
    setMark: (text: string | null) => {
      mark = text;
    },
    /** Whether somebody new may have an address now. */
    open: async (network = "blue") => (await continuity.admit(network, performance.now() + 1_050)) === null,
    reason: async () => (await continuity.admit("blue", performance.now() + 1_050))?.message,
  };
}

test("a server that can be heard: everybody is served after one look at the network's mark", async () => {
  const { open, looked } = stage();
  expect(await open()).toBe(true);
  expect(await open()).toBe(true);
  expect(looked).toEqual(["blue"]);
});

describe("a gap in contact", () => {
  test("nobody new until this node has compared, the others had time, and no mark is there", async () => {
    const { continuity, open, reason, pass, looked } = stage();
    await open();
    const { epoch } = continuity;
    continuity.lose();
    expect(continuity.whyNot(epoch)).toContain("lost");
    expect(await reason()).toContain("is not compared with it yet");
    continuity.regain();
    pass(SETTLE_MS);
    expect(await open(), "not compared").toBe(false);
    continuity.noteCompared(continuity.gap);
    expect(await open()).toBe(true);
    expect(looked, "the mark is read again").toEqual(["blue", "blue"]);
  });

  test("compared, but the others had no time yet", async () => {
    const { continuity, open, reason, pass } = stage();
    continuity.lose();
    continuity.regain();
    continuity.noteCompared(continuity.gap);
    expect(await reason()).toContain("other nodes compare what they hold with it, 4 s more");
    pass(SETTLE_MS);
    expect(await open()).toBe(true);
  });

  test("a comparison that began before another gap proves nothing", async () => {
    const { continuity, open, pass } = stage();
    continuity.lose();
    continuity.regain();
    const { gap } = continuity;
    continuity.lose();
    continuity.regain();
    continuity.noteCompared(gap);
    pass(SETTLE_MS);
    expect(await open()).toBe(false);
  });

  test("a mark of another node that is found afterwards is waited out, and again when it is renewed", async () => {
    const { continuity, open, reason, pass, setMark } = stage();
    continuity.lose();
    continuity.regain();
    continuity.noteCompared(continuity.gap);
    pass(SETTLE_MS);
    setMark("node-b, 10:00");
    expect(await reason()).toContain("the nodes put back what their containers use, 30 s more");
    pass(RECOVERY_MS - 1);
    expect(await open()).toBe(false);
    continuity.noteMark("blue", "node-c, 10:01");
    pass(RECOVERY_MS - 1);
    expect(await open()).toBe(false);
    expect(continuity.recovering).toEqual(["blue"]);
    pass(1);
    expect(await open()).toBe(true);
    setMark(null);
    expect(await open("red"), "another network").toBe(true);
  });
});

test("something of this node's is missing: the network is closed here before anybody is told", async () => {
  const { continuity, open, told, setMark } = stage();
  await open();
  const { epoch } = continuity;
  const telling = continuity.missing("blue", "gone");
  expect(continuity.whyNot(epoch)).not.toBeNull();
  setMark("gone");
  expect(await open()).toBe(false);
  await telling;
  expect(told).toEqual(["blue: gone"]);
});

describe("versions", () => {
  test("one that is older than what was seen before the question tells of a restored server", async () => {
    const { continuity, open, told, pass } = stage();
    continuity.noteVersion("200");
    const before = continuity.newest;
    continuity.noteVersion("300");
    continuity.noteCurrent("250", before);
    expect(told, "answers may come in another order than their questions").toEqual([]);
    continuity.noteCurrent("299", continuity.newest);
    expect(told).toEqual(["went back"]);
    continuity.noteCompared(continuity.gap);
    expect(await open()).toBe(false);
    pass(RECOVERY_MS);
    expect(await open()).toBe(true);
    continuity.noteCurrent("300", continuity.newest);
    expect(told, "said once").toEqual(["went back"]);
  });

  test.each([[undefined], [""], ["0"], ["not-a-number"]])("%j says nothing", (version) => {
    const { continuity, told } = stage();
    continuity.noteVersion("5");
    continuity.noteCurrent(version, continuity.newest);
    expect(told).toEqual([]);
  });
});
