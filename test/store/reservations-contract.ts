import { describe, expect, test } from "vitest";
import type { AddressRequest } from "../../ipam/decide-reservation.ts";
import type { Owner } from "../../ipam/owner.ts";
import { formatInterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { OwnerReleaseOutcome, ReserveOutcome } from "../../store/allocations.ts";
import { closedAfterEach, detachWant, type Subject, said, want } from "./subjects.ts";

const BOTH = { subnets: "10.0.0.0/29,fd00::/125" };

/** An owner that outlives whatever is attached with it. */
function machine(name: string): Owner {
  return { kind: "claim", uid: `${name}-uid`, interface: "", namespace: "shop", name };
}

function exactly(...texts: string[]): AddressRequest {
  return { kind: "addresses", addresses: texts.map(parseInterfaceAddress) };
}

function wantOf(owner: Owner, request: AddressRequest, options: Parameters<typeof want>[1] = {}) {
  const { network, definition } = want("nobody", options);
  return { owner, network, definition, request };
}

/** The addresses, or the code of the refusal. */
function got(outcome: ReserveOutcome | OwnerReleaseOutcome): string[] {
  return outcome.kind === "refused" ? [outcome.refusal.code] : outcome.addresses.map(formatInterfaceAddress).toSorted();
}

/** One behaviour of Reservations, whatever the store. `create` makes a store without anything in it. */
export function describeReservations(name: string, create: () => Promise<Subject>): void {
  describe(`Reservations: ${name}`, () => {
    const subject = closedAfterEach(create);
    async function listed({ allocations }: Subject): Promise<string[]> {
      const { items } = await allocations.list({}, { limit: 100 });
      return items.map(
        (one) => `${one.network} ${one.address} ${one.owner.name} ${one.state} ${one.attachments.length}`,
      );
    }

    test("a number of addresses per family is held without a container, and a repeat gets the same ones", async () => {
      const made = await subject();
      const ask = wantOf(machine("m"), { kind: "count", perFamily: { 4: 2, 6: 1 } }, { ipam: BOTH });
      const first = got(await made.reservations.reserve(ask));
      expect(first).toHaveLength(3);
      expect(new Set(first).size).toBe(3);
      expect(first.filter((one) => one.startsWith("10.0.0."))).toHaveLength(2);
      expect(first.filter((one) => one.startsWith("fd00::"))).toHaveLength(1);
      expect(got(await made.reservations.reserve(ask))).toEqual(first);
      expect((await listed(made)).toSorted()).toEqual(first.map((one) => `blue ${one} m Bound 0`).toSorted());
    });

    test("requested addresses are held, and no other owner gets them", async () => {
      const { allocations, reservations } = await subject();
      const ask = wantOf(machine("m"), exactly("10.0.0.1/29", "10.0.0.3/29"));
      expect(got(await reservations.reserve(ask))).toEqual(["10.0.0.1/29", "10.0.0.3/29"]);
      expect(got(await reservations.reserve(ask))).toEqual(["10.0.0.1/29", "10.0.0.3/29"]);
      const given = [];
      for (let index = 0; index < 5; index += 1) given.push(said(await allocations.attach(want(`c${index}`))));
      expect(given.toSorted()).toEqual(["10.0.0.2/29", "10.0.0.4/29", "10.0.0.5/29", "10.0.0.6/29", "POOL_FULL"]);
    });

    test("a requested address that is held, outside, reserved or cooling down is refused by its name", async () => {
      const { allocations, reservations } = await subject();
      await allocations.attach(want("a", { requested: ["10.0.0.5"] }));
      const ask = (text: string) => reservations.reserve(wantOf(machine("m"), exactly(text)));
      expect(await ask("10.0.0.5/29")).toMatchObject({
        refusal: { code: "ADDRESS_TAKEN", message: expect.stringContaining("container a") },
      });
      expect(got(await ask("10.9.0.5/29"))).toEqual(["ADDRESS_OUTSIDE"]);
      expect(got(await ask("10.0.0.4/24"))).toEqual(["CONFIG_INVALID"]);
      expect(got(await ask("10.0.0.0/29"))).toEqual(["ADDRESS_EXCLUDED"]);
      await allocations.detach(detachWant("a"));
      expect(got(await ask("10.0.0.5/29"))).toEqual(["ADDRESS_COOLING"]);
    });

    test("a request gets all of its addresses or none", async () => {
      const made = await subject();
      await made.allocations.attach(want("a", { requested: ["10.0.0.5"] }));
      const ask = (request: AddressRequest) => made.reservations.reserve(wantOf(machine("m"), request));
      expect(got(await ask(exactly("10.0.0.1/29", "10.0.0.5/29")))).toEqual(["ADDRESS_TAKEN"]);
      expect(got(await ask({ kind: "count", perFamily: { 4: 6 } }))).toEqual(["POOL_FULL"]);
      expect(got(await ask({ kind: "count", perFamily: { 4: 1, 6: 1 } }))).toEqual(["CONFIG_INVALID"]);
      const bound = (await listed(made)).filter((one) => one.includes(" Bound "));
      expect(bound).toEqual(["blue 10.0.0.5/29  Bound 1"]);
    });

    test("a larger request keeps the held addresses and adds to them", async () => {
      const { reservations } = await subject();
      const ask = (request: AddressRequest) => reservations.reserve(wantOf(machine("m"), request));
      const [first] = got(await ask({ kind: "count", perFamily: { 4: 1 } }));
      const more = got(await ask({ kind: "count", perFamily: { 4: 3 } }));
      expect(more).toHaveLength(3);
      expect(more).toContain(first);
      expect(got(await ask({ kind: "count", perFamily: { 4: 1 } }))).toEqual(more);
      const free = ["1", "2", "3", "4", "5", "6"].map((last) => `10.0.0.${last}/29`);
      const another = free.find((one) => !more.includes(one)) as string;
      expect(got(await ask(exactly(another)))).toEqual([...more, another].toSorted());
    });

    test("owners that race for the last addresses get distinct ones or a refusal", async () => {
      const { reservations } = await subject();
      const request = { kind: "count", perFamily: { 4: 1 } } as const;
      const owners = Array.from({ length: 10 }, (_, index) => machine(`m${index}`));
      const answers = await Promise.all(owners.map((one) => reservations.reserve(wantOf(one, request))));
      const [all] = [answers.flatMap(got)];
      expect(new Set(all.filter((one) => one !== "POOL_FULL")).size).toBe(6);
      expect(all.filter((one) => one === "POOL_FULL")).toHaveLength(4);
    });

    test("a release cools every address of one owner, on every network, and none of another's", async () => {
      const made = await subject();
      const { reservations } = made;
      await reservations.reserve(wantOf(machine("m"), exactly("10.0.0.2/29")));
      await reservations.reserve(wantOf(machine("m"), exactly("10.0.0.3/29"), { network: "red" }));
      await reservations.reserve(wantOf(machine("n"), exactly("10.0.0.4/29")));
      const released = await reservations.release(machine("m"));
      expect(got(released)).toEqual(["10.0.0.2/29", "10.0.0.3/29"]);
      expect(released).toMatchObject({ kind: "released" });
      expect(await listed(made)).toEqual([
        "blue 10.0.0.2/29 m Cooling 0",
        "blue 10.0.0.4/29 n Bound 0",
        "red 10.0.0.3/29 m Cooling 0",
      ]);
      expect(await reservations.release(machine("m"))).toEqual({ kind: "released", addresses: [] });
    });

    test("an owner gets its cooling addresses back first, and another owner gets them after the cooldown", async () => {
      const { reservations, clock } = await subject();
      const ask = (owner: Owner, request: AddressRequest) => reservations.reserve(wantOf(owner, request));
      await ask(machine("m"), exactly("10.0.0.4/29", "10.0.0.6/29"));
      await reservations.release(machine("m"));
      const request = { kind: "count", perFamily: { 4: 2 } } as const;
      expect(got(await ask(machine("m"), request))).toEqual(["10.0.0.4/29", "10.0.0.6/29"]);
      await reservations.release(machine("m"));
      clock.nowMs += 61_000;
      expect(got(await ask(machine("n"), exactly("10.0.0.4/29")))).toEqual(["10.0.0.4/29"]);
    });

    test("an address that a container uses is not released, nor one of an existing claim", async () => {
      const { allocations, reservations, createClaim, deleteClaim } = await subject();
      const given = said(await allocations.attach(want("a", { pod: "web" })));
      const web: Owner = { kind: "pod", uid: "web-uid", interface: "eth0", namespace: "shop", name: "web" };
      const refused = await reservations.release(web);
      expect(refused).toMatchObject({ refusal: { code: "IN_USE", message: expect.stringContaining("web") } });
      expect(said(await allocations.attach(want("a", { pod: "web" })))).toBe(given);
      await allocations.detach(detachWant("a"));
      expect(got(await reservations.release(web))).toEqual([]);

      await createClaim("shop", "vm", "blue");
      await allocations.attach(want("run1", { claim: "vm" }));
      await allocations.detach(detachWant("run1"));
      const { items } = await allocations.list({}, { limit: 10 });
      const owner = items.find((one) => one.owner.kind === "claim")?.owner as Owner;
      expect(got(await reservations.release(owner))).toEqual(["IN_USE"]);
      await deleteClaim("shop", "vm");
      expect(got(await reservations.release(owner))).toEqual([]);
    });

    test("reservations survive a restart", async () => {
      const made = await subject();
      const ask = wantOf(machine("m"), { kind: "count", perFamily: { 4: 2 } });
      const first = got(await made.reservations.reserve(ask));
      await made.reopen();
      expect(got(await made.reservations.reserve(ask))).toEqual(first);
      expect(await listed(made)).toHaveLength(2);
    });
  });
}
