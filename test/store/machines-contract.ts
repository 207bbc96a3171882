import { describe, expect, test } from "vitest";
import { parseRequestedAddress } from "../../ipam/definition/requested-address.ts";
import type { Owner } from "../../ipam/owner.ts";
import { formatInterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { IntervalSet } from "../../ipam/space/interval-set.ts";
import type { ReserveOutcome, ReserveWant } from "../../store/allocations.ts";
import { closedAfterEach, type Subject, said, want } from "./subjects.ts";

/** Pods get .1 to .6; machines besides what is reserved. */
const RESERVED = { subnets: "10.0.0.0/28", reservedSubnets: "10.0.0.8/29" };

interface MachineOptions {
  /** First and last address that it may get. */
  readonly from?: string;
  readonly to?: string;
  readonly requested?: string;
  readonly uid?: string;
}

/** The wish of a machine's claim for one address of 10.0.0.8 to 10.0.0.14, or of another part. */
function machine(name: string, options: MachineOptions = {}): ReserveWant {
  const { from = "10.0.0.8", to = "10.0.0.14", requested, uid = `${name}-uid` } = options;
  const { network, definition } = want("nobody", { ipam: RESERVED });
  const value = (text: string) => parseInterfaceAddress(`${text}/32`).address.value;
  const owner: Owner = { kind: "addressClaim", uid, interface: "", namespace: "fleet", name };
  const within = IntervalSet.of(value(from), value(to));
  const asked = requested === undefined ? null : parseRequestedAddress(requested, "the annotation");
  return {
    owner,
    network,
    definition,
    request: { kind: "single", family: 4, within, automatic: within, requested: asked },
  };
}

/** The address, or the code of the refusal. */
function got(outcome: ReserveOutcome): string {
  return outcome.kind === "refused" ? outcome.refusal.code : outcome.addresses.map(formatInterfaceAddress).join(" ");
}

/** How `Reservations` serve machines: one address of a part of a network, kept by name. */
export function describeMachineReservations(name: string, create: () => Promise<Subject>): void {
  describe(`Reservations of machines: ${name}`, () => {
    const subject = closedAfterEach(create);
    const reserved = async ({ reservations }: Subject, ...wish: Parameters<typeof machine>) =>
      got(await reservations.reserve(machine(...wish)));
    async function listed({ allocations }: Subject): Promise<string[]> {
      const { items } = await allocations.list({}, { limit: 100 });
      return items.map((one) => `${one.address} ${one.owner.name} ${one.owner.uid} ${one.state}`);
    }

    test("a machine gets one address of its part, also a reserved one, and a repeat gets the same", async () => {
      const made = await subject();
      const first = await reserved(made, "m");
      expect(first).toMatch(/^10\.0\.0\.(8|9|1[0-4])\/28$/);
      expect(await reserved(made, "m")).toBe(first);
      expect(await listed(made)).toEqual([`${first} m m-uid Bound`]);
    });

    test("machines get every address of their part, then none, and containers get the others", async () => {
      const made = await subject();
      const names = ["a", "b", "c", "d", "e", "f", "g", "h"];
      const given = await Promise.all(names.map((one) => reserved(made, one)));
      const expected = [8, 9, 10, 11, 12, 13, 14].map((last) => `10.0.0.${last}/28`);
      expect(new Set(given)).toEqual(new Set([...expected, "POOL_FULL"]));
      expect(given.filter((one) => one === "POOL_FULL")).toHaveLength(1);
      const free = [];
      for (let index = 0; index < 7; index += 1)
        free.push(said(await made.allocations.attach(want(`c${index}`, { ipam: RESERVED }))));
      expect(free.toSorted()).toEqual([...[1, 2, 3, 4, 5, 6, 7].map((last) => `10.0.0.${last}/28`)]);
    });

    test("a claim that is created again takes over its address at once", async () => {
      const made = await subject();
      const first = await reserved(made, "m");
      await reserved(made, "n");
      expect(await reserved(made, "m", { uid: "again" })).toBe(first);
      expect((await listed(made)).filter((one) => one.includes(" m "))).toEqual([`${first} m again Bound`]);
    });

    test("a claim of the same name gets back its cooling address before free ones", async () => {
      const made = await subject();
      const first = await reserved(made, "m", { requested: "10.0.0.11" });
      expect(first).toBe("10.0.0.11/28");
      await made.reservations.release(machine("m").owner);
      for (const other of ["a", "b", "c"]) expect(await reserved(made, other)).not.toBe(first);
      expect(await reserved(made, "m", { uid: "again" })).toBe(first);
      expect((await listed(made)).filter((one) => one.includes(" m "))).toEqual([`${first} m again Bound`]);
    });

    test("an address of its name outside of the part is not taken over", async () => {
      const made = await subject();
      expect(await reserved(made, "m", { requested: "10.0.0.9" })).toBe("10.0.0.9/28");
      const other = await reserved(made, "m", { uid: "again", from: "10.0.0.12" });
      expect(other).toMatch(/^10\.0\.0\.1[2-4]\/28$/);
      expect(await reserved(made, "m", { uid: "again" })).toBe(other);
    });

    test("a requested address may be cooling down after another machine, and is not one that is held", async () => {
      const made = await subject();
      expect(await reserved(made, "m", { requested: "10.0.0.10" })).toBe("10.0.0.10/28");
      const taken = await made.reservations.reserve(machine("n", { requested: "10.0.0.10" }));
      expect(taken).toMatchObject({
        refusal: { code: "ADDRESS_TAKEN", message: expect.stringContaining("machine claim fleet/m") },
      });
      await made.reservations.release(machine("m").owner);
      expect(await reserved(made, "n", { requested: "10.0.0.10" })).toBe("10.0.0.10/28");
    });

    test("a requested address outside of the part is refused, and what is held counts before a request", async () => {
      const made = await subject();
      expect(await made.reservations.reserve(machine("m", { requested: "10.0.0.3" }))).toMatchObject({
        refusal: { code: "ADDRESS_OUTSIDE", message: expect.stringContaining("10.0.0.8-10.0.0.14") },
      });
      expect(await reserved(made, "m", { requested: "10.0.0.12/24" })).toBe("CONFIG_INVALID");
      expect(await reserved(made, "m", { requested: "10.0.0.12" })).toBe("10.0.0.12/28");
      expect(await reserved(made, "m", { requested: "10.0.0.13" })).toBe("10.0.0.12/28");
    });

    test("when nothing else is free, the address that has cooled down longest is given", async () => {
      const made = await subject();
      const part = { from: "10.0.0.8", to: "10.0.0.9" };
      await reserved(made, "a", { ...part, requested: "10.0.0.9" });
      await reserved(made, "b", { ...part, requested: "10.0.0.8" });
      await made.reservations.release(machine("a").owner);
      made.clock.nowMs += 1_000;
      await made.reservations.release(machine("b").owner);
      expect(await reserved(made, "c", part)).toBe("10.0.0.9/28");
    });

    test("what a machine holds survives a restart", async () => {
      const made = await subject();
      const first = await reserved(made, "m");
      await made.reopen();
      expect(await reserved(made, "m")).toBe(first);
      expect(await reserved(made, "m", { uid: "again" })).toBe(first);
      expect(await listed(made)).toHaveLength(1);
    });
  });
}
