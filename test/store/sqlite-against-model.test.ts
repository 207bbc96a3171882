import fc from "fast-check";
import { expect, test } from "vitest";
import type { Subject } from "./subjects.ts";
import { detachWant, memorySubject, nextUs, said, sqliteSubject, want } from "./subjects.ts";

const seed = Number(process.env.HOLDFAST_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31));
/** Each seed has a test of its own, which has to end within the limit of one on a machine that others keep busy. */
const SEEDS = Array.from({ length: 8 }, (_, part) => (seed + part) % 2 ** 31);
/** Histories of one seed. */
const RUNS = 10;

const container = fc.constantFrom("c1", "c2", "c3", "c4", "c5");
const pod = fc.option(fc.constantFrom("p1", "p2"), { nil: undefined });
const claim = fc.constantFrom("vm1", "vm2");
const ipam = fc.constantFrom({}, { subnets: "10.0.0.0/29,fd00::/125" }, { subnets: "10.0.0.0/28", cooldownSeconds: 0 });

/** One step of a history; stamps are drawn so that requests may arrive out of order. */
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant("add" as const), container, pod, ipam, age: fc.nat(3) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant("add-claim" as const), container, pod, claim, age: fc.nat(3) }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant("del" as const),
      container,
      named: fc.boolean(),
      age: fc.nat(3),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("create-claim" as const), claim }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("delete-claim" as const), claim }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("vanish" as const), container }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("wait" as const), seconds: fc.constantFrom(1, 30, 61) }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

test.each(SEEDS)("SQLite and the model agree on every step and on the state after it (seed %i)", async (seed) => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40, size: "max" }), async (steps) => {
      const model = await memorySubject();
      const real = await sqliteSubject();
      try {
        const claims = new Set<string>();
        for (const one of steps) {
          // Claims' first addresses follow their UIDs, which differ; what is compared is whether they get one.
          const us = nextUs();
          const [expected, got] = [await play(model, one, us, claims), await play(real, one, us, claims)];
          if (one.kind === "create-claim") claims.add(one.claim);
          if (one.kind === "delete-claim") claims.delete(one.claim);
          expect(shapeOf(got), JSON.stringify(one)).toEqual(shapeOf(expected));
          expect(await real.store.check()).toEqual([]);
        }
        expect(await summary(real)).toEqual(await summary(model));
        await real.reopen();
        expect(await real.store.check()).toEqual([]);
        expect(await summary(real)).toEqual(await summary(model));
      } finally {
        await real.close();
      }
    }),
    { seed, numRuns: RUNS },
  );
});

async function play(subject: Subject, one: Step, us: number, claims: ReadonlySet<string>): Promise<string> {
  const { allocations } = subject;
  switch (one.kind) {
    case "add": {
      const options = { ipam: one.ipam, us: us - one.age * 1_500, ...(one.pod ? { pod: one.pod } : {}) };
      return said(await allocations.attach(want(one.container, options)));
    }
    case "add-claim": {
      const options = { claim: one.claim, us: us - one.age * 1_500, ...(one.pod ? { pod: one.pod } : {}) };
      return said(await allocations.attach(want(one.container, options)));
    }
    case "del": {
      const { ended } = await allocations.detach(
        detachWant(one.container, { us: us - one.age * 1_500, ...(one.named ? {} : { network: null }) }),
      );
      return `${ended.length} ended`;
    }
    case "create-claim":
      // Creating one that exists, or that is still terminating, is the API's affair.
      if (!claims.has(one.claim)) await subject.createClaim("shop", one.claim, "blue").catch(() => {});
      return "";
    case "delete-claim":
      await subject.deleteClaim("shop", one.claim);
      return "";
    case "vanish":
      subject.gone.add(`/run/netns/${one.container}`);
      return "";
    case "wait":
      subject.clock.nowMs += one.seconds * 1_000;
      return "";
  }
}

/** What must be equal although claims' UIDs, and with them the addresses they find, differ. */
function shapeOf(answer: string): string {
  return answer.includes("/") ? `${answer.split(" ").length} addresses` : answer;
}

async function summary(subject: Subject): Promise<string[]> {
  const { items } = await subject.allocations.list({}, { limit: 1_000 });
  return items
    .filter((item) => item.state === "Bound")
    .map(
      (item) =>
        `${item.owner.kind} ${item.owner.name || item.owner.uid} ${item.attachments.map((one) => one.containerID).join("+")}`,
    )
    .sort();
}
