/** The table of what a node believes of a use: every combination of facts. */
import { expect, test } from "vitest";
import { type Facts, judge, ROWS, type Row } from "../../store/cluster/agreement/relations.ts";

const VALUES: { readonly [F in keyof Facts]: readonly Facts[F][] } = {
  phase: ["none", "taking", "held", "leaving", "gone"],
  container: ["runs", "ended", "learnt", "unseen"],
  pod: ["living", "completed", "gone", "unseen", "none", "unknown"],
  object: ["with-use", "without-use", "cooling", "freed", "others", "absent"],
  waited: ["no", "long-enough", "longest"],
  needed: ["no", "held", "adding"],
  followed: [true, false],
  firstInBoot: [true, false],
};
const NAMES = Object.keys(VALUES) as (keyof Facts)[];

function* combinations(names = NAMES): Generator<Facts> {
  const [name, ...others] = names;
  if (name === undefined) return yield {} as Facts;
  for (const rest of combinations(others)) for (const value of VALUES[name]) yield { ...rest, [name]: value };
}

function rowFor(facts: Partial<Facts>): Row {
  const judgement = judge(facts);
  if (judgement.kind === "ask") throw new Error(`${judgement.fact} is known`);
  return judgement.row;
}

/** What is in one of these phases is found because the API server has it. */
const LISTED: readonly Facts["phase"][] = ["none", "gone"];
/** All of them, with the row that decides. */
const ALL = [...combinations()]
  .filter(({ phase, object }) => object === "with-use" || !LISTED.includes(phase))
  .map((facts) => ({ facts, row: rowFor(facts) }));

function those(is: (facts: Facts, row: Row) => boolean): Facts[] {
  return ALL.filter(({ facts, row }) => is(facts, row)).map(({ facts }) => facts);
}

test("each combination has a row, and each row decides the combinations that it decided before", () => {
  const counts = Object.fromEntries(ROWS.map(({ name }) => [name, 0]));
  for (const { row } of ALL) counts[row.name] = (counts[row.name] ?? 0) + 1;
  expect(Object.keys(counts)).toHaveLength(ROWS.length);
  expect(counts).toMatchInlineSnapshot(`
    {
      "about-to-be-used": 576,
      "completed": 420,
      "cut-short-by-power": 72,
      "ended-with-pod": 60,
      "forgotten": 1728,
      "in-agreement": 708,
      "learnt-and-given-back": 12,
      "learnt-completed": 216,
      "learnt-pod-gone": 144,
      "lost": 516,
      "may-be-repeated": 2880,
      "no-container": 576,
      "nobody-lost-it": 96,
      "not-ours": 3456,
      "not-repeated": 576,
      "of-former-container": 432,
      "over": 576,
      "returned": 864,
      "taken-away": 2436,
      "unknown-here": 360,
      "used-again": 576,
    }
  `);
});

test("whoever asks for one fact after the other comes to the same row, and is asked for nothing twice", () => {
  for (const { facts, row } of ALL) {
    let known: Partial<Facts> = { phase: facts.phase };
    for (;;) {
      const judgement = judge(known);
      if (judgement.kind === "decided") {
        expect(judgement.row.name).toBe(row.name);
        break;
      }
      expect(known).not.toHaveProperty(judgement.fact);
      known = { ...known, [judgement.fact]: facts[judgement.fact] };
    }
  }
});

test("an address is given back only where it is the owner's", () => {
  const own = ["with-use", "without-use"];
  expect(those(({ object }, { verdict }) => verdict === "release" && !own.includes(object))).toEqual([]);
});

test("what is held and the API server has is over only without a container, and with a pod that certainly ended", () => {
  const over = those(
    ({ phase, object }, { verdict }) => phase === "held" && object === "with-use" && verdict === "leave",
  );
  expect(over).not.toEqual([]);
  for (const { container, pod, waited } of over) {
    expect(["ended", "learnt"]).toContain(container);
    expect(["living", "unknown", ...(container === "learnt" ? ["unseen", "none"] : [])]).not.toContain(pod);
    expect(waited !== "no" || (container === "learnt" && pod === "completed")).toBe(true);
  }
});

test("a living pod, and one that nobody can tell of, ends nothing that its container may use", () => {
  const ended = those(
    ({ phase, pod, container }, { verdict }) =>
      phase === "held" && verdict === "leave" && ["living", "unknown"].includes(pod) && container !== "ended",
  );
  expect(ended).toEqual([]);
});

test("an ADD that may be repeated is left alone", () => {
  expect(
    those(({ phase, waited }, { verdict }) => phase === "taking" && verdict === "abandon" && waited === "no"),
  ).toEqual([]);
});

test("without an answer of the API server nothing is given back, lost, taken or ended by it", () => {
  for (const phase of ["held", "leaving"] as const)
    for (const { object: _, ...facts } of combinations()) {
      const judgement = judge({ ...facts, phase });
      if (judgement.kind === "decided") expect(judgement.row.when).not.toHaveProperty("object");
      else expect(judgement.fact).toBe("object");
    }
});

test("what another row of the owner needs is not given back", () => {
  expect(
    those(({ phase, needed }, { verdict }) => phase === "leaving" && needed !== "no" && verdict === "release"),
  ).toEqual([]);
});

test("a phase that there is not has no row", () => {
  expect(() => judge({ phase: "lost" as never })).toThrow("no row for a use that is lost");
});
