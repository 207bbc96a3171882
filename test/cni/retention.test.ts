import { describe, expect } from "vitest";
import type { AllocationView } from "../../allocations/records.ts";
import type { ServedDaemon } from "../harness/daemon.ts";
import { addressesOf, counts, errorOf, held, past, pod, processTest, restart, test, until } from "./fixtures.ts";
import { apply, claim, claimNamed, conditionOf, withClaim } from "./manifests.ts";

/** A claim that is deleted and created again gets what it had, in a network with retainSeconds: docs/decisions/0068. */

const SMALL = { subnets: "192.0.2.0/29", cooldownSeconds: 0, retainSeconds: 600 }; // .1 to .6
const config = withClaim("vm1", SMALL);
const others = withClaim(undefined, SMALL);
const remove = (daemon: ServedDaemon) => daemon.delete("/v1/claims/default/vm1");
const add = (daemon: ServedDaemon, id: string, one: object = config) =>
  daemon.cni("ADD", id, { config: one, args: pod(`uid-${id}`) });

/** The address of a claim that was attached once and is deleted. */
async function deleted(daemon: ServedDaemon): Promise<string> {
  await apply(daemon, claim("vm1"));
  const [address] = addressesOf(await add(daemon, "c1"));
  await daemon.cni("DEL", "c1", { config });
  await remove(daemon);
  return address as string;
}

async function allocations(daemon: ServedDaemon): Promise<AllocationView[]> {
  return (await daemon.get("/v1/allocations?network=blue")).json().items;
}

describe("the address of a claim that is deleted", () => {
  test("is retained for a claim of its name, and nobody else gets it", async ({ daemon }) => {
    const address = await deleted(daemon);
    expect(await held(daemon, "blue")).toEqual([`${address} Retained claim default/vm1`]);
    const [{ since, retainedUntil } = {} as AllocationView] = await allocations(daemon);
    expect(Date.parse(retainedUntil ?? "") - Date.parse(since)).toBe(600_000);
    const bare = address.split("/")[0] as string;
    expect((await past(daemon, bare)).at(-1)).toBe("claim default/vm1 until claim deleted");

    for (let index = 2; index <= 6; index += 1) await add(daemon, `d${index}`, others);
    expect(errorOf(await add(daemon, "late", others))).toMatchObject({
      code: 11,
      msg: "no free address in 192.0.2.0/29 (1 retained for claims that were deleted) of network blue",
    });
    const taker = await daemon.cni("ADD", "taker", { config: others, args: `${pod("uid-t")};IP=${bare}` });
    expect(errorOf(taker)).toMatchObject({
      code: 120,
      msg: `${bare} is held by claim default/vm1 (retained until ${retainedUntil}) on network blue`,
    });
    const view = (await daemon.get("/v1/networks/blue")).json();
    expect(view).toMatchObject({
      retainSeconds: 600,
      ranges: [{ allocated: "5", retained: "1", free: "0" }],
    });
  });

  test("goes to the claim of that name, whatever its UID is", async ({ daemon }) => {
    const address = await deleted(daemon);
    await apply(daemon, claim("vm1"));
    expect(addressesOf(await add(daemon, "c2"))).toEqual([address]);
    expect(await held(daemon, "blue")).toEqual([`${address} Bound claim default/vm1`]);
    expect((await claimNamed(daemon, "vm1")).status?.ips).toEqual([address]);
    expect(await conditionOf(daemon, "vm1")).toBe("True SuccessfulAllocation");
    expect(await counts(daemon, "blue")).toMatchObject({ allocated: 1, free: 5 });
  });

  test("goes to no claim of the name in another namespace, and to none of another name", async ({ daemon }) => {
    const address = await deleted(daemon);
    const elsewhere = claim("vm1");
    await apply(daemon, { ...elsewhere, metadata: { name: "vm1", namespace: "bank" } }, claim("vm2"));
    const inBank = pod("uid-b").replace("=default", "=bank");
    const bank = await daemon.cni("ADD", "b1", { config, args: inBank });
    expect(addressesOf(bank)).not.toContain(address);
    expect(addressesOf(await add(daemon, "b2", withClaim("vm2", SMALL)))).not.toContain(address);
  });

  test("is adopted by a claim of its name that lists it, and by no other", async ({ daemon }) => {
    const address = await deleted(daemon);
    const status = { ips: [address] };
    const answer = await daemon.post("/v1/apply", { objects: [claim("vm2", {}, { status })] });
    expect(answer.json().results[0]).toMatchObject({ error: { code: "ADDRESS_TAKEN" } });
    await apply(daemon, claim("vm1", {}, { status }));
    expect(await held(daemon, "blue")).toEqual([`${address} Bound claim default/vm1`]);
    expect(addressesOf(await add(daemon, "c2"))).toEqual([address]);
  });

  test("is given again after release", async ({ daemon }) => {
    const address = await deleted(daemon);
    const released = await daemon.post("/v1/release", { network: "blue", address: address.split("/")[0] });
    expect(released.json()).toMatchObject({ addresses: [address] });
    expect(await held(daemon, "blue")).toEqual([]);
    expect(await counts(daemon, "blue")).toMatchObject({ allocated: 0, free: 6 });
  });

  processTest("is retained over a restart", async ({ daemon }) => {
    const address = await deleted(daemon);
    await restart(daemon, "SIGKILL");
    expect(await held(daemon, "blue")).toEqual([`${address} Retained claim default/vm1`]);
    const taken = errorOf(
      await daemon.cni("ADD", "taker", {
        config: others,
        args: `${pod("uid-t")};IP=${address.split("/")[0]}`,
      }),
    );
    expect(taken.code).toBe(120);
    await apply(daemon, claim("vm1"));
    expect(addressesOf(await add(daemon, "c2"))).toEqual([address]);
  });

  test("cools down and is free after its time", async ({ daemon }) => {
    const brief = { ...SMALL, retainSeconds: 1, cooldownSeconds: 60 };
    await apply(daemon, claim("vm1"));
    const [address] = addressesOf(await add(daemon, "c1", withClaim("vm1", brief)));
    await daemon.cni("DEL", "c1", { config });
    await remove(daemon);
    await until(
      async () => (await held(daemon, "blue"))[0] === `${address} Cooling claim default/vm1`,
      "its time to be over",
    );
  });

  test("is released at once where the network retains nothing any more", async ({ daemon }) => {
    await deleted(daemon);
    await add(daemon, "d1", withClaim(undefined, { ...SMALL, retainSeconds: 0 }));
    await until(async () => (await held(daemon, "blue")).length === 1, "housekeeping");
  });
});
