import { expect, test } from "vitest";
import { sleep } from "../../../platform/time.ts";
import type { ActionKind } from "../world.ts";
import { run } from "./run.ts";
import { historyOf, replay, shrink } from "./shrink.ts";
import { toyParts } from "./toy-parts.ts";
import { Violation } from "./violation.ts";

/** Somebody leaves a door open, a gust comes, and later the lamp falls: only in this order. */
function house() {
  let [isOpen, isBlown, hasFallen, doors] = [false, false, false, 0];
  const act = (run: ActionKind["run"]): ActionKind => ({ weight: 1, run });
  const parts = toyParts(
    {
      "door-open": act(({ faults, story }) => {
        doors += 1;
        if (!faults.decide(`door ${doors} left open`, 0.3)) return;
        isOpen = true;
        story.tell("alice", "leaves the door open");
      }),
      gust: act(({ story }) => {
        if (!isOpen) return;
        isBlown = true;
        story.tell("the wind", "comes in");
      }),
      "lamp-fall": act(async ({ clock }) => {
        await sleep(clock, 100);
        hasFallen ||= isBlown;
      }),
      walk: act(({ story }) => story.tell("bob", "walks past")),
      sing: act(({ faults }) => void faults.decide(`bob sings wrong ${doors}`, 0.5)),
    },
    () => {
      if (hasFallen) throw new Violation("fire", "the lamp fell over");
    },
    () => {
      [isOpen, isBlown, hasFallen, doors] = [false, false, false, 0];
    },
  );
  return parts;
}

test.each([1, 2, 3, 4, 5])("a history that fails is made as short as it can be (seed %d)", async (seed) => {
  const parts = house();
  const failed = await run(parts, { seed, nodes: 5, steps: 5_000 });
  expect(failed.violation?.kind).toBe("fire");
  const shrunk = await shrink(failed, 5, { parts, seed, isTimeUp: () => false, progress: () => {} });
  const kinds = shrunk?.history.actions.map(({ kind }) => kind) ?? [];
  const doors = kinds.filter((kind) => kind === "door-open").length;
  expect(kinds.filter((kind) => kind !== "door-open").sort()).toEqual(["gust", "lamp-fall"]);
  expect(shrunk?.history.faults).toEqual([`door ${doors} left open`]);
  expect(shrunk?.history.nodes).toBe(1);

  const lines: string[] = [];
  const again = await replay(parts, seed, shrunk?.history ?? historyOf(5, failed), 5_000, {
    onLine: (line) => lines.push(line.replace(/^ +[\d.]+ s {2}/, "")),
  });
  expect(again.violation?.message).toBe("the lamp fell over");
  expect(lines).toEqual(["alice: leaves the door open", "the wind: comes in"]);
});

test("a history that its seed does not determine is reported as such", async () => {
  let runs = 0;
  const act: ActionKind = { weight: 1, run: () => {} };
  const isWrong = () => {
    if (runs === 1) throw new Violation("once", "only the first time");
  };
  const parts = toyParts({ act }, isWrong, () => {
    runs += 1;
  });
  const failed = await run(parts, { seed: 1, nodes: 1, steps: 100 });
  const options = { parts, seed: 1, isTimeUp: () => false, progress: () => {} };
  expect(failed.violation?.kind).toBe("once");
  expect(await shrink(failed, 1, options)).toBeNull();
});

test("an unhandled error is a violation, with the place where it was thrown", async () => {
  const kinds = (run: ActionKind["run"]) => ({ act: { weight: 1, run } });
  const outcome = (run: ActionKind["run"]) => {
    const parts = toyParts(
      kinds(run),
      () => {},
      () => {},
    );
    return replay(
      parts,
      1,
      { nodes: 1, actions: [{ kind: "act", afterMs: 1, seed: 1 }], faults: [], tailMs: 100 },
      50,
      {},
    );
  };
  const rejected = await outcome(() => void Promise.reject(new TypeError("rejected")));
  const thrown = await outcome(
    ({ clock }) =>
      void clock.timer(1, () => {
        throw new RangeError("in a timer");
      }),
  );
  const acting = await outcome(async () => {
    throw new Error("acting");
  });
  expect([rejected, thrown, acting].map(({ violation }) => [violation?.kind, violation?.message])).toEqual([
    ["thrown TypeError", "nobody handles it: rejected"],
    ["thrown RangeError", "in a step: in a timer"],
    ["thrown Error", "act: acting"],
  ]);
  expect(rejected.violation?.stack).toContain("shrink.test");
});

test("actions and their times depend on the seed alone, not on their outcomes", async () => {
  const plan = async (seed: number, throwing: boolean) => {
    const kinds = Object.fromEntries(
      ["a", "b"].map((name): [string, ActionKind] => [
        name,
        { weight: 1, run: (_, chance) => void (throwing && chance.number()) },
      ]),
    );
    const { actions } = await run(
      toyParts(
        kinds,
        () => {},
        () => {},
      ),
      { seed, nodes: 1, steps: 300 },
    );
    return actions;
  };
  expect(await plan(1, true)).toEqual(await plan(1, false));
  expect(await plan(1, true)).not.toEqual(await plan(2, true));
});
