import { describe, expect, test } from "vitest";
import { OrphanNetworks, type OrphanNetworksOptions } from "../../../controller/orphan-networks.ts";
import { projectAddressPool } from "../../../kube/views/address-pool-view.ts";
import { DefinitionCatalog } from "../../../networks/definition-catalog.ts";
import { projectNad } from "../../../networks/nad-view.ts";
import { RECORDED_OWNER_ANNOTATION } from "../../../networks/network-owner.ts";
import { ManualClock } from "../../harness/manual-clock.ts";

const KEEP_SECONDS = 60;
const ipam = { type: "holdfast-ipam", subnet: "10.31.0.0/24" };

/** A NetworkAttachmentDefinition as the API server sends it. */
function nad(namespace: string, spec: unknown) {
  const metadata = { namespace, name: "blue", uid: `uid-${namespace}`, resourceVersion: "1" };
  return { metadata: { ...metadata, creationTimestamp: "2026-01-01T00:00:00Z" }, spec };
}

function configured(namespace: string, config: string) {
  return nad(namespace, { config });
}

function conf(more: object): string {
  return JSON.stringify({ name: "blue", type: "bridge", ipam, ...more });
}

/**
 * Three looks at network blue, which has no address: the first, one before its time and one after it. `watched` is what
 * the controller has seen, `listed` what the server has. Returns the methods of what was sent.
 */
async function looks({
  watched = [],
  listed = watched,
  owner = "shop",
  recorded = owner,
  pools = [],
  listedPools = pools,
  poolsKnown = true,
  allocated = "0",
}: {
  readonly watched?: readonly object[];
  readonly listed?: readonly object[];
  /** AddressPools, as the controller has seen them, and as the server has them. */
  readonly pools?: readonly object[];
  readonly listedPools?: readonly object[];
  /** null: they have no definition. */
  readonly poolsKnown?: boolean | null;
  /** What it shows. */
  readonly allocated?: string;
  readonly owner?: string | null;
  /** The owner that Holdfast recorded by itself; null: none. */
  readonly recorded?: string | null;
}): Promise<string[]> {
  const clock = new ManualClock();
  const beganMs = clock.nowMs;
  const definitions = new DefinitionCatalog(clock);
  if (owner !== null) definitions.setOwner("blue", { definedIn: owner, sharedWith: [] });
  for (const one of watched) definitions.upsert(projectNad(one));
  const definedIn = owner === null ? {} : { definedIn: owner };
  const annotations = recorded === null ? {} : { [RECORDED_OWNER_ANNOTATION]: recorded };
  const object = {
    metadata: { name: "blue", uid: "n", resourceVersion: "5", annotations },
    spec: { network: "blue", ...definedIn },
    status: {
      allocated,
      retained: "0",
      cooling: "0",
      importedFrom: [],
      conditions: [{ type: "Imported", status: "True" }],
    },
  };
  const sent: string[] = [];
  const api = {
    clock,
    send: async ({ method }: { method: string }) => {
      sent.push(method);
      return { status: 200, body: {} };
    },
    list: async ({ path, each }: { path: string; each(object: unknown): void }) => {
      if (path.includes("network-attachment")) listed.forEach(each);
      if (path.includes("addresspools")) listedPools.forEach(each);
      return { kind: "listed" };
    },
  };
  const orphans = new OrphanNetworks({
    api: api as unknown as OrphanNetworksOptions["api"],
    definitions,
    allocations: { known: true, items: new Map() } as unknown as OrphanNetworksOptions["allocations"],
    networks: {
      known: true,
      items: new Map([["blue", { object }]]),
    } as unknown as OrphanNetworksOptions["networks"],
    pools: {
      known: poolsKnown === true,
      missing: poolsKnown === null,
      items: new Map(pools.map(projectAddressPool).map((one) => [one.key, one])),
    },
    keepSeconds: KEEP_SECONDS,
    idle: () => null,
    log: { info: () => {}, warn: () => {} },
  });
  for (const seconds of [0, KEEP_SECONDS - 1, KEEP_SECONDS + 1]) {
    clock.nowMs = beganMs + seconds * 1_000;
    await orphans.runPass(new AbortController().signal);
  }
  return sent;
}

describe("an IPNetwork without an address", () => {
  test.each([
    [conf({ ipam: { ...ipam, allowPersistentIPs: true } }), "a key at the wrong place"],
    [conf({ ipam: { ...ipam, subnet: "10.31.0.1/24" } }), "a subnet that is none"],
    [conf({ ipam: { type: "holdfast-ipam" } }), "no ranges"],
    [conf({}).slice(0, -1), "a brace that is missing"],
    [conf({ name: "blue network" }), "a name that is none"],
  ])("is kept while its owner's definition is wrong: %s", async (config, reason) => {
    const definition = configured("shop", config);
    expect(await looks({ watched: [definition] }), reason).toEqual([]);
    expect(await looks({ watched: [], listed: [definition] }), `${reason}, not seen yet`).toEqual([]);
  });

  test("is kept while a definition in its owner's namespace is unreadable", async () => {
    expect(await looks({ watched: [], listed: [nad("shop", "{}")] })).toEqual([]);
  });

  test("is kept while its owner is unknown and any definition is unreadable", async () => {
    expect(await looks({ watched: [configured("bank", "{")], owner: null })).toEqual([]);
  });

  test.each([
    [[], "nothing defines anything"],
    [[configured("bank", "{")], "another namespace's definition is unreadable"],
    [[configured("shop", conf({ name: "red", ipam: { type: "holdfast-ipam" } }))], "another network's is wrong"],
    [[configured("shop", conf({ ipam: { type: "host-local" } }))], "another plugin serves it"],
  ])("is deleted after its time when no definition can be meant for it", async (watched, reason) => {
    expect(await looks({ watched }), reason).toEqual(["DELETE"]);
  });

  test("is kept while another namespace than its owner's names it, and shows that nothing is left", async () => {
    expect(await looks({ watched: [configured("bank", conf({}))] })).toEqual([]);
    expect(await looks({ watched: [configured("bank", conf({}))], allocated: "3" })).toContain("PATCH");
  });

  test.each([
    ["shop", null, "created beforehand, or moved by `holdfast networks own`"],
    ["", null, "the administrators' own"],
    ["shop", "bank", "moved by an edit"],
    ["", "shop", "taken back by an edit"],
  ])("is kept where an administrator set its owner to %o, with %s recorded: %s", async (owner, recorded, reason) => {
    expect(await looks({ watched: [], owner, recorded }), reason).toEqual([]);
  });

  test("is kept while an AddressPool names it", async () => {
    const { metadata } = nad("machines", {});
    const pool = (network: string) => ({ metadata, spec: { network } });
    expect(await looks({ pools: [pool("blue")] })).toEqual([]);
    expect(await looks({ listedPools: [pool("blue")] }), "not seen yet").toEqual([]);
    expect(await looks({ listedPools: [{ metadata, spec: "blue" }] }), "unreadable").toEqual([]);
    expect(await looks({ pools: [pool("red")] }), "another network's").toEqual(["DELETE"]);
  });

  test("shows true counts while an AddressPool names it", async () => {
    const { metadata } = nad("machines", {});
    const pools = [{ metadata, spec: { network: "blue" } }];
    expect(await looks({ pools, allocated: "3" })).toEqual(["PATCH", "PATCH", "PATCH"]);
  });

  test("is kept while the AddressPools are not known, but not where they have no definition", async () => {
    expect(await looks({ poolsKnown: false })).toEqual([]);
    expect(await looks({ poolsKnown: null })).toEqual(["DELETE"]);
  });

  test("is deleted where nobody has set its owner", async () => {
    expect(await looks({ watched: [], owner: null })).toEqual(["DELETE"]);
  });
});
