import { describe, expect, test } from "vitest";
import { closedAfterEach, detachWant, type Subject, said, want } from "./subjects.ts";

const RETAIN_SECONDS = 600;
const ipam = { subnets: "10.0.0.0/29", cooldownSeconds: 0, retainSeconds: RETAIN_SECONDS };
const of = (id: string, claim = "vm") => want(id, { ipam, claim });

/** What a deleted claim had is kept for a claim of its name, whatever the store (docs/decisions/0068). */
export function describeRetention(name: string, create: () => Promise<Subject>): void {
  describe(`Retention: ${name}`, () => {
    const subject = closedAfterEach(create);

    /** A claim that had an address and is deleted. */
    async function deleted() {
      const given = await subject();
      given.retaining?.(RETAIN_SECONDS);
      await given.createClaim("shop", "vm", "blue");
      const first = said(await given.allocations.attach(of("run1")));
      await given.allocations.detach(detachWant("run1"));
      await given.deleteClaim("shop", "vm");
      return { ...given, given, first };
    }

    test("nobody else gets it, also when it is all that is left, or asked for", async () => {
      const { allocations, first, clock } = await deleted();
      const [item, ...more] = (await allocations.list({}, { limit: 10 })).items;
      expect(more).toEqual([]);
      expect(item).toMatchObject({ state: "Retained", owner: { namespace: "shop", name: "vm" } });
      expect(Date.parse(item?.retainedUntil ?? "") - Date.parse(item?.since ?? "")).toBe(600_000);
      clock.nowMs += 300_000;
      const others = await Promise.all([1, 2, 3, 4, 5, 6].map((n) => allocations.attach(want(`c${n}`, { ipam }))));
      expect(others.map(said)).not.toContain(first);
      expect(others.map(said)).toContain("POOL_FULL");
      const asked = want("taker", { ipam, requested: [first.split("/")[0] as string] });
      expect(said(await allocations.attach(asked))).toBe("ADDRESS_TAKEN");
    });

    test("a claim of the name gets it, and keeps it like any other", async () => {
      const { allocations, createClaim, first } = await deleted();
      await createClaim("shop", "vm2", "blue");
      expect(said(await allocations.attach(of("other", "vm2")))).not.toBe(first);
      await createClaim("shop", "vm", "blue");
      expect(said(await allocations.attach(of("run2")))).toBe(first);
      expect(said(await allocations.attach(of("run2")))).toBe(first);
      await allocations.detach(detachWant("run2"));
      expect(said(await allocations.attach(of("run3")))).toBe(first);
      const { items } = await allocations.list({ claim: "shop/vm" }, { limit: 10 });
      expect(items).toMatchObject([{ state: "Bound" }]);
      expect(items[0]).not.toHaveProperty("retainedUntil");
    });

    test("it is kept over a restart", async () => {
      const { given, first } = await deleted();
      await given.reopen();
      await given.createClaim("shop", "vm", "blue");
      expect(said(await given.allocations.attach(of("run2")))).toBe(first);
    });

    test("a claim whose other family is full keeps what is retained for it for its next try", async () => {
      const both = { ...ipam, subnets: "10.0.0.0/29,fd00::/127" };
      const { allocations, createClaim, first } = await deleted();
      const blocker = await allocations.attach(want("blocker", { ipam: { ...ipam, subnets: "fd00::/127" } }));
      expect(said(blocker)).toMatch(/^fd00::/);
      const second = await allocations.attach(want("blocker2", { ipam: { ...ipam, subnets: "fd00::/127" } }));
      await createClaim("shop", "vm", "blue");
      const wanted = (id: string) => want(id, { ipam: both, claim: "vm" });
      if (said(second).startsWith("fd00::")) {
        expect(said(await allocations.attach(wanted("run2")))).toBe("POOL_FULL");
        await allocations.detach(detachWant("blocker"));
      }
      expect(said(await allocations.attach(wanted("run3")))).toContain(first);
    });
  });
}
