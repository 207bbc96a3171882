import { describe, expect } from "vitest";
import type { ClaimCondition } from "../../ipam/claim-conditions.ts";
import type { ServedDaemon } from "../harness/daemon.ts";
import { addressesOf, errorOf, expectDone, held, network, pod, processTest, restart, test, until } from "./fixtures.ts";
import { apply, claim, claimNamed, nad, withClaim } from "./manifests.ts";

/** A network is changed while VMs have addresses of it: what is safe to give is given when they start again. */

const BARE = { ...network("blue"), ipam: { type: "holdfast-ipam" } };
const define = (ipam: object) => nad("blue-net", network("blue", ipam, { allowPersistentIPs: true }));
const SMALL = define({ subnets: "10.10.0.0/24" });
const LARGE = define({ subnets: "10.10.0.0/23" });
const DUAL = define({ subnets: "10.10.0.0/24,fd10::/64" });
/** The applied definition has the ranges. */
const config = { ...withClaim("vm1"), ipam: BARE.ipam };

describe("a VM on a network that was enlarged", () => {
  processTest(
    "keeps its prefix length while it runs, has the wider one from its next start on, and never another address",
    async ({ daemon }) => {
      await apply(daemon, SMALL, claim("vm1"));
      const [first = ""] = addressesOf(await daemon.cni("ADD", "c1", { config }));
      await apply(daemon, LARGE);
      const again = await daemon.cni("ADD", "c1", { config });
      expect(addressesOf(again), "a repeat of the ADD").toEqual([first]);
      expectDone(await daemon.cni("CHECK", "c1", { config: { ...config, prevResult: again.json() } }));
      expectDone(await daemon.cni("DEL", "c1", { config }));
      expect((await claimNamed(daemon, "vm1")).status?.ips).toEqual([first]);
      const wide = first.replace("/24", "/23");
      expect(addressesOf(await daemon.cni("ADD", "c2", { config }))).toEqual([wide]);
      expect((await claimNamed(daemon, "vm1")).status?.ips).toEqual([wide]);
      await restart(daemon, "SIGKILL");
      expect(addressesOf(await daemon.cni("ADD", "c2", { config }))).toEqual([wide]);
      expect(await held(daemon, "blue")).toEqual([`${wide} Bound claim default/vm1`]);
    },
  );

  test("can be applied again with the status that it had before", async ({ daemon }) => {
    await apply(daemon, SMALL, claim("vm1"));
    const [first = ""] = addressesOf(await daemon.cni("ADD", "c1", { config }));
    expectDone(await daemon.cni("DEL", "c1", { config }));
    await apply(daemon, LARGE);
    addressesOf(await daemon.cni("ADD", "c2", { config }));
    await apply(daemon, claim("vm1", {}, { status: { ips: [first] } }));
    expect((await claimNamed(daemon, "vm1")).status?.ips).toEqual([first.replace("/24", "/23")]);
  });
});

describe("a VM on a network that was given a second family", () => {
  processTest("has an address of it from its next start on, beside the one it had", async ({ daemon }) => {
    await apply(daemon, SMALL, claim("vm1"));
    const [first = ""] = addressesOf(await daemon.cni("ADD", "c1", { config }));
    await apply(daemon, DUAL);
    expectDone(await daemon.cni("DEL", "c1", { config }));
    const both = addressesOf(await daemon.cni("ADD", "c2", { config }));
    expect(both).toEqual([first, expect.stringMatching(/^fd10::.*\/64$/)]);
    expect((await claimNamed(daemon, "vm1")).status?.ips).toEqual(both);
    await restart(daemon, "SIGKILL");
    expectDone(await daemon.cni("DEL", "c2", { config }));
    expect(addressesOf(await daemon.cni("ADD", "c3", { config }))).toEqual(both);
    expect((await daemon.delete("/v1/claims/default/vm1")).json()).toMatchObject({ state: "terminating" });
    expectDone(await daemon.cni("DEL", "c3", { config }));
    expect(await held(daemon, "blue")).toEqual(both.map((one) => `${one} Cooling claim default/vm1`));
  });

  test("starts with what it had where that family is full", async ({ daemon }) => {
    await apply(daemon, SMALL, claim("vm1"));
    const first = addressesOf(await daemon.cni("ADD", "c1", { config }));
    expectDone(await daemon.cni("DEL", "c1", { config }));
    await apply(daemon, define({ subnets: "10.10.0.0/24,fd10::/127" }));
    for (const id of ["o1", "o2"]) addressesOf(await daemon.cni("ADD", id, { config: BARE }));
    expect(errorOf(await daemon.cni("ADD", "o3", { config: BARE }))).toMatchObject({ code: 11 });
    expect(addressesOf(await daemon.cni("ADD", "c2", { config }))).toEqual(first);
  });
});

/** The claim's condition about its network: `False PrefixLengthChanged`. */
async function standing(daemon: ServedDaemon): Promise<string> {
  const conditions = ((await claimNamed(daemon, "vm1")).status?.conditions ?? []) as ClaimCondition[];
  const one = conditions.find(({ type }) => type === "NetworkUpToDate");
  return one === undefined ? "none" : `${one.status} ${one.reason}`;
}

const notes = async (daemon: ServedDaemon): Promise<string[]> => (await daemon.get("/v1/check")).json().notes ?? [];
const former = async (daemon: ServedDaemon): Promise<number> =>
  (await daemon.get("/v1/networks?former=true")).json().items[0].former;

describe("whoever stays behind a network that was changed", () => {
  test.for<[string, object, string, string]>([
    ["enlarged", { subnets: "10.10.0.0/23" }, "PrefixLengthChanged", "another prefix length than the subnet"],
    ["given a family", { subnets: "10.10.0.0/24,fd10::/64" }, "FamilyAdded", "no address of a family"],
    ["moved", { subnets: "10.20.0.0/24" }, "AddressOutsideNetwork", "an address that the network does not"],
  ])(
    "is told by its claim, by check and by a count where the network was %s",
    async ([_how, ipam, reason, text], { daemon }) => {
      await apply(daemon, SMALL, claim("vm1"));
      addressesOf(await daemon.cni("ADD", "c1", { config }));
      expect([await standing(daemon), await notes(daemon), await former(daemon)]).toEqual(["none", [], 0]);
      await apply(daemon, define(ipam));
      await until(async () => (await standing(daemon)) === `False ${reason}`, "the claim is told");
      expect(await notes(daemon)).toEqual([
        expect.stringContaining(`network blue was changed: claim default/vm1 has ${text}`),
      ]);
      expect(await former(daemon)).toBe(1);
      expect((await daemon.get("/v1/networks")).json().items[0]).not.toHaveProperty("former");
      await apply(daemon, SMALL);
      await until(async () => (await standing(daemon)) === "True UpToDate", "the claim is told of the end");
      expect(await notes(daemon)).toEqual([]);
    },
  );

  test("is told no more when its VM has started again", async ({ daemon }) => {
    await apply(daemon, SMALL, claim("vm1"));
    addressesOf(await daemon.cni("ADD", "c1", { config }));
    await apply(daemon, DUAL);
    await until(async () => (await standing(daemon)) === "False FamilyAdded", "the claim is told");
    expectDone(await daemon.cni("DEL", "c1", { config }));
    addressesOf(await daemon.cni("ADD", "c2", { config }));
    expect([await standing(daemon), await notes(daemon), await former(daemon)]).toEqual(["True UpToDate", [], 0]);
  });

  test("is a container with another gateway too", async ({ daemon }) => {
    await apply(daemon, define({ subnets: "10.10.0.0/24", gateway: "10.10.0.254" }));
    addressesOf(await daemon.cni("ADD", "c1", { config: BARE }));
    await apply(daemon, define({ subnets: "10.10.0.0/24", gateway: "10.10.0.253" }));
    expect(await notes(daemon)).toEqual([
      "network blue was changed: container c1 (eth0) has another gateway than the network has now; stop and start the VM, or recreate the container",
    ]);
  });
});

test("a pod's next sandbox has the wider prefix length too", async ({ daemon }) => {
  await apply(daemon, SMALL);
  expect(addressesOf(await daemon.cni("ADD", "c1", { config: BARE, args: pod("uid-1") }))).toEqual(["10.10.0.1/24"]);
  await apply(daemon, LARGE);
  expect(addressesOf(await daemon.cni("ADD", "c2", { config: BARE, args: pod("uid-1") }))).toEqual(["10.10.0.1/23"]);
});
