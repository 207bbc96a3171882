import { describe, expect, test } from "vitest";
import { closedAfterEach, detachWant, nextUs, type Subject, said, want } from "./subjects.ts";

/** One behaviour of Allocations, whatever the store. `create` makes a store without anything in it. */
export function describeAllocations(name: string, create: () => Promise<Subject>): void {
  describe(`Allocations: ${name}`, () => {
    const subject = closedAfterEach(create);

    test("gives the next address to each new container, and the same one to a repeat", async () => {
      const { allocations } = await subject();
      expect(said(await allocations.attach(want("a")))).toBe("10.0.0.1/29");
      expect(said(await allocations.attach(want("b")))).toBe("10.0.0.2/29");
      const repeat = await allocations.attach(want("a"));
      expect(repeat).toMatchObject({ kind: "attached", repeat: true });
      expect(said(repeat)).toBe("10.0.0.1/29");
    });

    test("refuses when nothing is free, and serves again after a release", async () => {
      const { allocations } = await subject();
      for (let index = 0; index < 6; index += 1) await allocations.attach(want(`c${index}`));
      expect(said(await allocations.attach(want("late")))).toBe("POOL_FULL");
      await allocations.detach(detachWant("c3"));
      expect(said(await allocations.attach(want("late")))).toBe("10.0.0.4/29");
    });

    test("an attachment gets all of its addresses or none", async () => {
      const { allocations } = await subject();
      const ipam = { subnets: "10.0.0.0/24,fd00::/126" };
      for (let index = 0; index < 3; index += 1) await allocations.attach(want(`c${index}`, { ipam }));
      expect(said(await allocations.attach(want("late", { ipam })))).toBe("POOL_FULL");
      const { items } = await allocations.list({}, { limit: 100 });
      expect(items).toHaveLength(6);
    });

    test("requests that race for the last addresses get distinct ones or a refusal", async () => {
      const { allocations } = await subject();
      const wants = Array.from({ length: 10 }, (_, index) => want(`c${index}`));
      const answers = (await Promise.all(wants.map((one) => allocations.attach(one)))).map(said);
      expect(new Set(answers.filter((answer) => answer !== "POOL_FULL")).size).toBe(6);
      expect(answers.filter((answer) => answer === "POOL_FULL")).toHaveLength(4);
    });

    test("a released address cools down before it is given again, unless nothing else is free", async () => {
      const { allocations, clock } = await subject();
      await allocations.attach(want("a"));
      await allocations.detach(detachWant("a"));
      for (const [index, address] of ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"].entries()) {
        expect(said(await allocations.attach(want(`b${index}`)))).toBe(`${address}/29`);
      }
      expect(said(await allocations.attach(want("forced")))).toBe("10.0.0.1/29");
      await allocations.detach(detachWant("b0"));
      clock.nowMs += 61_000;
      expect(said(await allocations.attach(want("cooled")))).toBe("10.0.0.2/29");
    });

    test("a DEL succeeds without an ADD, a second time, and for a container that is known on another network only", async () => {
      const { allocations } = await subject();
      expect(await allocations.detach(detachWant("nobody"))).toEqual({ ended: [] });
      await allocations.attach(want("a"));
      expect((await allocations.detach(detachWant("a", { network: "red" }))).ended).toEqual([]);
      expect((await allocations.detach(detachWant("a", { network: null }))).ended).toHaveLength(1);
      expect((await allocations.detach(detachWant("a"))).ended).toEqual([]);
    });

    test("a DEL ends only attachments that are older than itself", async () => {
      const { allocations } = await subject();
      const early = nextUs();
      await allocations.attach(want("a"));
      expect((await allocations.detach(detachWant("a", { us: early }))).ended).toEqual([]);
      expect((await allocations.detach(detachWant("a", { bootId: "boot-before" }))).ended).toEqual([]);
      expect((await allocations.detach(detachWant("a"))).ended).toHaveLength(1);
    });

    test("a repeated ADD renews the stamp, so that an earlier DEL that is delivered late ends nothing", async () => {
      const { allocations } = await subject();
      await allocations.attach(want("a"));
      const spooled = nextUs();
      await allocations.attach(want("a"));
      expect((await allocations.detach(detachWant("a", { us: spooled }))).ended).toEqual([]);
    });

    test("a DEL that overtakes its own ADD leaves a tombstone for that ADD, and for no later one", async () => {
      const { allocations } = await subject();
      const overtaken = want("a");
      await allocations.detach(detachWant("a"));
      expect(said(await allocations.attach(overtaken))).toBe("SUPERSEDED");
      expect((await allocations.list({}, { limit: 10 })).items).toEqual([]);
      expect(said(await allocations.attach(want("a")))).toBe("10.0.0.1/29");
    });

    test("a new sandbox of the same pod keeps the addresses, and the old sandbox's late DEL frees nothing", async () => {
      const { allocations } = await subject();
      expect(said(await allocations.attach(want("old", { pod: "web" })))).toBe("10.0.0.1/29");
      expect(said(await allocations.attach(want("new", { pod: "web" })))).toBe("10.0.0.1/29");
      expect((await allocations.detach(detachWant("old"))).ended).toEqual([]);
      const { items } = await allocations.list({}, { limit: 10 });
      expect(items).toMatchObject([{ state: "Bound", attachments: [{ containerID: "new" }] }]);
    });

    test("an owner gets its former address back first, even while it cools down", async () => {
      const { allocations } = await subject();
      await allocations.attach(want("old", { pod: "web" }));
      await allocations.attach(want("other"));
      await allocations.detach(detachWant("old"));
      expect(said(await allocations.attach(want("new", { pod: "web" })))).toBe("10.0.0.1/29");
    });

    test("an ADD of a sandbox that has been replaced is refused", async () => {
      const { allocations } = await subject();
      const late = want("old", { pod: "web" });
      await allocations.attach(want("new", { pod: "web" }));
      expect(said(await allocations.attach(late))).toBe("SUPERSEDED");
    });

    test("a claim keeps its addresses while nothing is attached, and gives them back when it is deleted", async () => {
      const { allocations, createClaim, deleteClaim } = await subject();
      await createClaim("shop", "vm", "blue");
      const first = said(await allocations.attach(want("run1", { claim: "vm" })));
      await allocations.detach(detachWant("run1"));
      const others = await Promise.all([1, 2, 3, 4, 5, 6].map((n) => allocations.attach(want(`c${n}`))));
      expect(others.map(said)).not.toContain(first);
      expect(others.map(said)).toContain("POOL_FULL");
      expect(said(await allocations.attach(want("run2", { claim: "vm" })))).toBe(first);
      await allocations.detach(detachWant("run2"));
      await deleteClaim("shop", "vm");
      expect(said(await allocations.attach(want("heir")))).toBe(first);
    });

    test("a claim deleted while it is in use is held until the last attachment ends", async () => {
      const { allocations, createClaim, deleteClaim } = await subject();
      await createClaim("shop", "vm", "blue");
      await allocations.attach(want("run1", { claim: "vm" }));
      await deleteClaim("shop", "vm");
      expect((await allocations.list({}, { limit: 10 })).items).toMatchObject([{ state: "Bound" }]);
      expect(said(await allocations.attach(want("run2", { claim: "vm" })))).toBe("CLAIM_TERMINATING");
      await allocations.detach(detachWant("run1"));
      expect((await allocations.list({}, { limit: 10 })).items).toMatchObject([{ state: "Cooling" }]);
      expect(said(await allocations.attach(want("run2", { claim: "vm" })))).toBe("CLAIM_ABSENT");
    });

    test("a claim is used by one container at a time, unless the older one is gone", async () => {
      const { allocations, createClaim, gone } = await subject();
      await createClaim("shop", "vm", "blue");
      const first = said(await allocations.attach(want("run1", { claim: "vm" })));
      expect(said(await allocations.attach(want("run2", { claim: "vm" })))).toBe("CLAIM_IN_USE");
      gone.add("/run/netns/run1");
      expect(said(await allocations.attach(want("run2", { claim: "vm" })))).toBe(first);
      expect((await allocations.detach(detachWant("run1"))).ended).toEqual([]);
    });

    test("a claim that is absent, or for another network, gives no address at all", async () => {
      const { allocations, createClaim } = await subject();
      expect(said(await allocations.attach(want("a", { claim: "vm" })))).toBe("CLAIM_ABSENT");
      await createClaim("shop", "vm", "red");
      expect(said(await allocations.attach(want("a", { claim: "vm" })))).toBe("CLAIM_OTHER_NETWORK");
      expect((await allocations.list({}, { limit: 10 })).items).toEqual([]);
    });

    test("a requested address is given, or its holder is named", async () => {
      const { allocations } = await subject();
      expect(said(await allocations.attach(want("a", { requested: ["10.0.0.5"] })))).toBe("10.0.0.5/29");
      const taken = await allocations.attach(want("b", { requested: ["10.0.0.5/29"] }));
      expect(taken).toMatchObject({
        refusal: { code: "ADDRESS_TAKEN", message: expect.stringContaining("container a") },
      });
      expect(said(await allocations.attach(want("a", { requested: ["10.0.0.6"] })))).toBe("REQUEST_MISMATCH");
    });

    test("a requested address is given at once when its last holder was deleted, in any number of turns", async () => {
      const { allocations } = await subject();
      const ipam = { subnets: "10.0.0.0/29,fd00::/125" };
      for (const name of ["a", "b", "c"]) {
        const asked = want(name, { ipam, requested: ["10.0.0.5", "fd00::5"] });
        expect(said(await allocations.attach(asked))).toBe("10.0.0.5/29 fd00::5/125");
        await allocations.detach(detachWant(name));
      }
      expect(said(await allocations.attach(want("d", { ipam })))).not.toContain("10.0.0.5/29");
    });

    test("of many that ask at once for an address that was given back, one gets it", async () => {
      const { allocations } = await subject();
      await allocations.attach(want("a", { requested: ["10.0.0.5"] }));
      await allocations.detach(detachWant("a"));
      const asked = ["b", "c", "d", "e"].map((name) => want(name, { requested: ["10.0.0.5"] }));
      const answers = (await Promise.all(asked.map((one) => allocations.attach(one)))).map(said);
      expect(answers.toSorted()).toEqual(["10.0.0.5/29", ...Array(3).fill("ADDRESS_TAKEN")]);
    });

    test("an address that a pod gave back is given at once in its namespace only", async () => {
      const { allocations } = await subject();
      const requested = ["10.0.0.5"];
      await allocations.attach(want("a", { pod: "web", requested }));
      await allocations.detach(detachWant("a"));
      expect(said(await allocations.attach(want("b", { requested })))).toBe("ADDRESS_COOLING");
      expect(said(await allocations.attach(want("c", { pod: "web-2", requested })))).toBe("10.0.0.5/29");
    });

    test("networks with the same addresses are independent of each other", async () => {
      const { allocations } = await subject();
      expect(said(await allocations.attach(want("a")))).toBe("10.0.0.1/29");
      expect(said(await allocations.attach(want("a", { network: "red" })))).toBe("10.0.0.1/29");
      await allocations.detach(detachWant("a", { network: "red" }));
      expect((await allocations.list({ network: "blue" }, { limit: 10 })).items).toMatchObject([{ state: "Bound" }]);
    });

    test("an edited range keeps what is allocated and gives from the new one", async () => {
      const { allocations } = await subject();
      await allocations.attach(want("a"));
      const moved = { subnets: "10.9.0.0/29" };
      expect(said(await allocations.attach(want("b", { ipam: moved })))).toBe("10.9.0.1/29");
      expect(said(await allocations.attach(want("a", { ipam: moved })))).toBe("10.0.0.1/29");
      expect((await allocations.list({}, { limit: 10 })).items).toHaveLength(2);
    });

    test("pages list everything once, in order of network and address", async () => {
      const { allocations } = await subject();
      for (const name of ["a", "b", "c"]) {
        for (const network of ["red", "blue"]) await allocations.attach(want(name, { network }));
      }
      const seen: string[] = [];
      for (let token: string | undefined; ; ) {
        const page = await allocations.list({}, { limit: 4, continue: token });
        seen.push(...page.items.map((item) => `${item.network} ${item.address}`));
        token = page.continue;
        if (token === undefined) break;
      }
      expect(seen).toEqual([
        ...["1", "2", "3"].map((last) => `blue 10.0.0.${last}/29`),
        ...["1", "2", "3"].map((last) => `red 10.0.0.${last}/29`),
      ]);
    });
  });
}
