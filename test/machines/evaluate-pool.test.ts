import { describe, expect, test } from "vitest";
import { checkCluster } from "../../admin/cluster/check.ts";
import { ClusterAdmin } from "../../admin/cluster/cluster-admin.ts";
import { evaluatePool, type PoolFacts, type PoolVerdict } from "../../claims/pools/evaluate-pool.ts";
import { formatAddress, parseAddress } from "../../ipam/space/address.ts";
import type { IntervalSet } from "../../ipam/space/interval-set.ts";
import { ListRefused } from "../../kube/kube-api.ts";
import { ADDRESS_POOLS_PATH, namespacedPath } from "../../kube/objects.ts";
import { type AddressPoolView, projectAddressPool } from "../../kube/views/address-pool-view.ts";
import { DefinitionsWithPools } from "../../networks/definitions-with-pools.ts";
import { projectNad } from "../../networks/nad-view.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { ManualClock } from "../harness/manual-clock.ts";

const V4 = { subnets: ["10.0.0.0/24"], gateway: "10.0.0.1", reservedSubnets: ["10.0.0.128/25"] };
const BOTH = { subnets: ["10.0.0.0/24", "fd00::/64"] };

interface Given {
  readonly name?: string;
  readonly namespace?: string;
  readonly metadata?: object;
  readonly spec?: object;
}

function pool({ name = "workers", namespace = "machines", metadata, spec }: Given = {}): AddressPoolView {
  const identity = { name, namespace, uid: `uid-${namespace}-${name}`, resourceVersion: "1", generation: 1 };
  return projectAddressPool({
    metadata: { ...identity, creationTimestamp: "2026-01-01T00:00:00Z", ...metadata },
    spec: { network: "blue", ...spec },
  });
}

function nad(namespace: string, ipam: object, more: object = {}) {
  const metadata = { namespace, name: "blue", uid: `nad-${namespace}`, resourceVersion: "1", generation: 1 };
  const config = { name: "blue", type: "bridge", ipam: { type: "holdfast-ipam", ...ipam } };
  return projectNad({
    metadata: { ...metadata, creationTimestamp: "2026-01-02T00:00:00Z", ...more },
    spec: { config: JSON.stringify(config) },
  });
}

function catalogOf(pools: readonly AddressPoolView[], nads: readonly ReturnType<typeof nad>[] = []) {
  const catalog = new DefinitionsWithPools(new ManualClock());
  for (const one of nads) catalog.upsert(one);
  for (const one of pools) catalog.upsertPool(one);
  return catalog;
}

/** The verdict about a pool of network blue, which a NAD gives `ipam`; null: none does. */
function verdictOf(spec: object, ipam: object | null = V4, more: Partial<PoolFacts> = {}): PoolVerdict {
  return evaluation(pool({ spec }), ipam, more).verdict;
}

function evaluation(view: AddressPoolView, ipam: object | null, more: Partial<PoolFacts> = {}) {
  const catalog = catalogOf([view], ipam === null ? [] : [nad("shop", ipam)]);
  return evaluatePool({
    pool: view,
    counting: catalog.definitionOf("blue"),
    owner: catalog.ownerOf("blue"),
    own: catalog.poolReading(view.key),
    broken: catalog.brokenOf("blue"),
    ...{ isNameTaken: false, former: null, unrecorded: null, avoided: [], recovering: null },
    ...more,
  });
}

function served(verdict: PoolVerdict) {
  if (verdict.kind !== "served") throw new Error(`${verdict.reason}: ${verdict.message}`);
  return verdict.pool;
}

function texts(set: IntervalSet): string {
  const text = (value: bigint) => formatAddress({ family: value >> 32n === 0n ? 4 : 6, value });
  return [...set.intervals()]
    .map(({ first, last }) => (first === last ? text(first) : `${text(first)}-${text(last)}`))
    .join(" ");
}

describe("a pool gives", () => {
  test.each([
    [{}, "10.0.0.2-10.0.0.127", "what pods get: no gateway, no reserved subnet"],
    [{ ranges: [] }, "10.0.0.2-10.0.0.127", "the same: an empty list is none"],
    [{ ranges: ["10.0.0.128/25"] }, "10.0.0.128-10.0.0.254", "a reserved subnet without its broadcast address"],
    [{ ranges: ["10.0.0.7", "10.0.0.200 - 10.0.0.201"] }, "10.0.0.7 10.0.0.200-10.0.0.201", "lists"],
    [{ ranges: ["10.0.0.0/24"] }, "10.0.0.2-10.0.0.254", "everything, reserved or not"],
    [{ gateway: "10.0.0.9", ranges: ["10.0.0.8-10.0.0.10"] }, "10.0.0.8 10.0.0.10", "not its own gateway"],
    [
      { ranges: ["10.0.0.8/30"], preallocations: { a: "10.0.0.9" } },
      "10.0.0.8 10.0.0.10-10.0.0.11",
      "not what is preallocated",
    ],
    [{ preallocations: { a: "10.0.0.200" } }, "10.0.0.2-10.0.0.127", "a reserved address to one claim only"],
  ])("%j: %s", (spec, usable, reason) => {
    expect(texts(served(verdictOf(spec)).usable), reason).toBe(usable);
  });

  test.each([
    [{ family: 6 }, BOTH, "fd00::1-fd00::ffff:ffff:ffff:ffff"],
    [{ family: 4 }, BOTH, "10.0.0.1-10.0.0.254"],
    [{}, { subnets: ["10.0.0.0/30", "10.0.1.0/30"] }, "10.0.0.1-10.0.0.2 10.0.1.1-10.0.1.2"],
    [{ ranges: ["10.0.0.2-10.0.1.1"] }, { subnets: ["10.0.0.0/24", "10.0.1.0/24"] }, "10.0.0.2-10.0.0.254 10.0.1.1"],
    [{}, { ranges: [[{ subnet: "10.0.0.0/24", rangeStart: "10.0.0.5", rangeEnd: "10.0.0.6" }]] }, "10.0.0.5-10.0.0.6"],
  ])("%j of %j: %s", (spec, ipam, usable) => {
    expect(texts(served(verdictOf(spec, ipam)).usable)).toBe(usable);
  });

  test("reserved addresses on request, unless it has ranges of its own", () => {
    expect(texts(served(verdictOf({})).requestable)).toBe("10.0.0.2-10.0.0.254");
    expect(texts(served(verdictOf({ ranges: ["10.0.0.8/31"] })).requestable)).toBe("10.0.0.8-10.0.0.9");
    const preallocations = { a: "10.0.0.3" };
    expect(texts(served(verdictOf({ preallocations })).requestable)).toBe("10.0.0.2 10.0.0.4-10.0.0.254");
  });

  test("the gateway and the mask of the subnet, or a gateway of its own", () => {
    const address = parseAddress("10.0.0.5");
    const plain = served(verdictOf({}));
    expect([plain.gatewayFor(address), plain.prefixLengthFor(address)]).toEqual(["10.0.0.1", 24]);
    expect(served(verdictOf({ gateway: "10.0.0.254" })).gatewayFor(address)).toBe("10.0.0.254");
    expect(served(verdictOf({}, { subnets: ["10.0.0.0/24"] })).gatewayFor(address)).toBeNull();
    const elsewhere = parseAddress("10.9.0.5");
    expect([plain.gatewayFor(elsewhere), plain.prefixLengthFor(elsewhere)]).toEqual([null, null]);
  });

  test("the network's name servers", () => {
    const dns = { nameservers: ["10.0.0.53"] };
    expect(served(verdictOf({}, { ...V4, dns })).dnsServers).toEqual(["10.0.0.53"]);
  });
});

describe("a pool gives nothing", () => {
  const long = Object.fromEntries([..."abc"].map((name) => [name, "10.0.0.300"]));
  test.each<[object, object | null, string, string]>([
    [
      {},
      null,
      "NetworkNotFound",
      'spec.network is "blue": no NetworkAttachmentDefinition defines it; create one, or give spec.definition',
    ],
    [
      {},
      { subnets: ["10.0.0.0/9999"] },
      "DefinitionInvalid",
      'spec.network is "blue": NetworkAttachmentDefinition shop/blue defines it and is invalid: ipam.subnets[0] is "10.0.0.0/9999": "10.0.0.0/9999" has a bad prefix length; IPv4 takes /0 to /32; correct it, or give spec.definition',
    ],
    [
      { definition: {} },
      null,
      "DefinitionInvalid",
      'spec.definition.subnets is missing: list the subnets of the network, such as ["192.0.2.0/24"]',
    ],
    [
      { definition: { subnets: ["10.0.0.1/24"] } },
      null,
      "DefinitionInvalid",
      'spec.definition.subnets[0] is "10.0.0.1/24": 10.0.0.1/24 has host bits; the network is 10.0.0.0/24',
    ],
    [
      { definition: { subnets: "10.0.0.0/24", subnet: "10.0.0.0/24" } },
      null,
      "DefinitionInvalid",
      'spec.definition.subnets is "10.0.0.0/24": ipam.subnet gives ranges too; keep one of the two ways',
    ],
    [
      { definition: { type: "host-local", subnet: "10.0.0.0/24" } },
      null,
      "DefinitionInvalid",
      'spec.definition.type is "host-local": expected "holdfast-ipam"',
    ],
    [
      { network: "-", definition: V4 },
      null,
      "DefinitionInvalid",
      'spec.network is "-": a network name begins with a letter or digit, goes on with letters, digits, "_", "." and "-", and has at most 253 characters',
    ],
    [
      { definition: { subnets: ["10.0.1.0/24"] } },
      V4,
      "DefinitionConflict",
      "spec.definition differs from that of NetworkAttachmentDefinition shop/blue, which defines network blue; make them equal, or remove spec.definition",
    ],
    [{ definition: { subnets: [7] } }, V4, "DefinitionConflict", "spec.definition.subnets[0] is 7: expected a string"],
    [{}, BOTH, "FamilyUnclear", "spec.family is missing: network blue has IPv4 and IPv6 addresses; set it to 4 or 6"],
    [
      { family: 6 },
      V4,
      "FamilyUnclear",
      "spec.family is 6: network blue has IPv4 addresses only; set it to 4, or remove it",
    ],
    [
      { ranges: ["10.0.0.8", "10.0.1.0/24"] },
      V4,
      "RangeOutsideNetwork",
      'spec.ranges[1] is "10.0.1.0/24": it is not inside 10.0.0.0/24 of network blue; name addresses of it',
    ],
    [
      { ranges: ["10.0.0.250-10.0.1.5"] },
      V4,
      "RangeOutsideNetwork",
      'spec.ranges[0] is "10.0.0.250-10.0.1.5": it is not inside 10.0.0.0/24 of network blue; name addresses of it',
    ],
    [
      { ranges: ["10.0.0.1"] },
      V4,
      "RangeOutsideNetwork",
      'spec.ranges[0] is "10.0.0.1": network blue never gives an address of it: network, broadcast and gateway addresses and excludeSubnets; name others',
    ],
    [
      { family: 4, ranges: ["fd00::5"] },
      BOTH,
      "RangeOutsideNetwork",
      'spec.ranges[0] is "fd00::5": the pool gives IPv4 addresses; remove it, or set spec.family to 6',
    ],
    [
      { ranges: ["10.0.0.9-10.0.0.5"] },
      V4,
      "RangeOutsideNetwork",
      'spec.ranges[0] is "10.0.0.9-10.0.0.5": it ends before it begins; write 10.0.0.5-10.0.0.9',
    ],
    [
      { ranges: ["10.0.0.90-99"] },
      V4,
      "RangeOutsideNetwork",
      'spec.ranges[0] is "10.0.0.90-99": write 10.0.0.90-10.0.0.99',
    ],
    [
      { ranges: ["10.0.0.5..10.0.0.9"] },
      V4,
      "RangeOutsideNetwork",
      'spec.ranges[0] is "10.0.0.5..10.0.0.9": write 10.0.0.5-10.0.0.9',
    ],
    [
      { ranges: ["10.0.0.5-10.0.0.6-10.0.0.7"] },
      V4,
      "RangeOutsideNetwork",
      'spec.ranges[0] is "10.0.0.5-10.0.0.6-10.0.0.7": expected an address, a range a-b, or a CIDR',
    ],
    [
      { ranges: ["10.0.0.5/24"] },
      V4,
      "RangeOutsideNetwork",
      'spec.ranges[0] is "10.0.0.5/24": 10.0.0.5/24 has host bits; the network is 10.0.0.0/24',
    ],
    [{ gateway: "10.0.0" }, V4, "GatewayInvalid", 'spec.gateway is "10.0.0": "10.0.0" is not an IP address'],
    [
      { gateway: "fd00::1" },
      V4,
      "GatewayInvalid",
      'spec.gateway is "fd00::1": the pool gives IPv4 addresses of 32 bits; name one',
    ],
    [
      { preallocations: { a: "10.0.0.5", b: "10.0.0.5" } },
      V4,
      "PreallocationInvalid",
      'spec.preallocations.b is "10.0.0.5": 10.0.0.5 is preallocated to claim a already; give each claim an address of its own',
    ],
    [
      { family: 6, preallocations: { a: "fd00::5", b: "fd00:0::0005" } },
      BOTH,
      "PreallocationInvalid",
      'spec.preallocations.b is "fd00:0::0005": fd00::5 is preallocated to claim a already; give each claim an address of its own',
    ],
    [
      { ranges: ["10.0.0.8/30"], preallocations: { a: "10.0.0.12" } },
      V4,
      "PreallocationInvalid",
      'spec.preallocations.a is "10.0.0.12": the pool does not give this address: name one of its ranges that is no network, broadcast or gateway address',
    ],
    [
      { gateway: "10.0.0.9", preallocations: { a: "10.0.0.9" } },
      V4,
      "PreallocationInvalid",
      'spec.preallocations.a is "10.0.0.9": the pool does not give this address: name one of its ranges that is no network, broadcast or gateway address',
    ],
    [
      { preallocations: long },
      V4,
      "PreallocationInvalid",
      'spec.preallocations.a is "10.0.0.300": "10.0.0.300" is not an IPv4 address: each number goes from 0 to 255 (and 2 more)',
    ],
  ])("%j of %j: %s", (spec, ipam, reason, message) => {
    expect(verdictOf(spec, ipam)).toEqual({ kind: "waiting", reason, message });
  });

  test.each<[Partial<PoolFacts>, string, string]>([
    [{ isNameTaken: true }, "NameTaken", "IPPool"],
    [{ former: { network: "red", count: 2 } }, "NetworkChanged", 'set it back to "red"'],
    [{ unrecorded: "wait" }, "NotImported", "wait"],
    [{ recovering: "lost" }, "Recovering", "lost"],
    [{ unrecorded: "wait", recovering: "lost" }, "NotImported", "wait"],
  ])("while %j: %s", (facts, reason, message) => {
    const verdict = verdictOf({}, V4, facts);
    expect(verdict).toMatchObject({ kind: "waiting", reason, message: expect.stringContaining(message) });
    expect(evaluation(pool(), V4, facts).space, "it is counted all the same").not.toBeNull();
  });

  test.each([
    [{ annotations: { "cluster.x-k8s.io/paused": "" } }, "Paused"],
    [{ deletionTimestamp: "2026-01-03T00:00:00Z" }, "Deleting"],
  ])("with %j: %s", (metadata, reason) => {
    expect(evaluation(pool({ metadata }), V4).verdict).toMatchObject({ kind: "waiting", reason });
  });

  test("of a network whose owner no longer defines it", () => {
    const owner = { definedIn: "shop", sharedWith: [] };
    expect(verdictOf({}, null, { owner })).toMatchObject({
      reason: "NetworkNotFound",
      message: expect.stringContaining("it belongs to namespace shop, where no NetworkAttachmentDefinition"),
    });
  });
});

describe("a pool's definition", () => {
  const definition = { subnets: ["10.0.0.0/24"] };
  const other = { subnets: ["10.0.9.0/24"] };

  test("defines a network that no NAD defines, and belongs to the pool's namespace until an owner is recorded", () => {
    const catalog = catalogOf([pool({ spec: { definition } })]);
    expect(catalog.networks()).toEqual(["blue"]);
    expect(catalog.definitionOf("blue")?.by).toBe("AddressPool machines/workers");
    expect(catalog.namespacesOf("blue")).toEqual(["machines"]);
    expect(catalog.ownerOf("blue")).toEqual({ definedIn: "machines", sharedWith: [] });
    expect(catalog.nadsOf("blue").map(({ key }) => key)).toEqual(["AddressPool machines/workers"]);
  });

  test("gives way to a NAD, also a younger one, and returns when that is gone", () => {
    const catalog = catalogOf([pool({ spec: { definition } })], [nad("shop", other)]);
    expect(catalog.definitionOf("blue")?.by).toBe("shop/blue");
    expect(catalog.ownerOf("blue")?.definedIn).toBe("shop");
    expect(catalog.nadsOf("blue").map(({ key }) => key)).toEqual(["shop/blue"]);
    catalog.remove("shop/blue");
    expect(catalog.definitionOf("blue")?.by).toBe("AddressPool machines/workers");
  });

  test("gives way to the oldest pool's, and follows when that is deleted or edited", () => {
    const older = pool({
      name: "zoo",
      metadata: { creationTimestamp: "2025-01-01T00:00:00Z" },
      spec: { definition: other },
    });
    const catalog = catalogOf([pool({ spec: { definition } }), older]);
    expect(catalog.definitionOf("blue")?.by).toBe("AddressPool machines/zoo");
    catalog.upsertPool({ ...older, definition: { subnets: "none" } });
    expect(catalog.definitionOf("blue")?.by, "one that is broken defines nothing").toBe("AddressPool machines/workers");
    expect(catalog.broken()).toMatchObject([{ key: "AddressPool machines/zoo", network: "blue" }]);
    catalog.upsertPool(older);
    catalog.upsertPool({ ...older, network: "red" });
    expect(catalog.networks()).toEqual(["blue", "red"]);
    catalog.removePool("machines/zoo");
    catalog.removePool("machines/workers");
    expect([catalog.networks(), catalog.definitionOf("blue")]).toEqual([[], null]);
  });

  test("that equals the NAD's conflicts with nothing, wherever it says allowPersistentIPs", () => {
    const persistent = projectNad({
      metadata: {
        namespace: "shop",
        name: "blue",
        uid: "n",
        resourceVersion: "1",
        creationTimestamp: "2026",
      },
      spec: {
        config: JSON.stringify({
          ...{ name: "blue", type: "bridge", allowPersistentIPs: true },
          ipam: { type: "holdfast-ipam", subnets: "10.0.0.0/24" },
        }),
      },
    });
    const view = pool({ spec: { definition: { ...definition, allowPersistentIPs: true } } });
    const catalog = catalogOf([view], [persistent]);
    const own = catalog.poolReading(view.key);
    expect(own).toMatchObject({ kind: "ours" });
    expect(evaluation(view, definition, { own, counting: catalog.definitionOf("blue") }).verdict.kind).toBe("served");
  });

  test("covers later editions only as long as none was missed and its addresses stay", () => {
    const first = pool({ spec: { definition } });
    const catalog = catalogOf([first]);
    const joinedAt = () => catalog.nadsOf("blue")[0]?.joinedAt;
    catalog.upsertPool({ ...first, generation: 2, ranges: ["10.0.0.8"] });
    expect(joinedAt(), "another key was edited").toBe(1);
    catalog.upsertPool({ ...first, generation: 4 });
    expect(joinedAt(), "an edition was missed").toBe(4);
    catalog.poolsInterrupted();
    catalog.upsertPool({ ...first, generation: 5 });
    expect(joinedAt(), "the watch was interrupted").toBe(5);
    catalog.upsertPool({ ...first, generation: 6, definition: other });
    expect(joinedAt(), "other addresses").toBe(6);
  });
});

describe("holdfast --kubeconfig", () => {
  const api = new KubeInMemory();
  const admin = new ClusterAdmin({ api, silenceMs: 0 });
  const put = (name: string, definition: object) =>
    api.put(namespacedPath(ADDRESS_POOLS_PATH, "shop"), {
      metadata: { name },
      spec: { network: name, definition },
    });

  test("shows the networks that pools define", async () => {
    put("metal", { subnets: ["10.7.0.0/24"], cooldownSeconds: 7 });
    expect(await admin.networks()).toMatchObject([
      {
        name: "metal",
        source: "AddressPool shop/metal",
        definedIn: "shop",
        cooldownSeconds: 7,
        imported: false,
      },
    ]);
  });

  test("checks their definitions", async () => {
    put("wrong", { subnets: ["10.7.0.1/24"] });
    const { findings } = await checkCluster(api, 0);
    expect(findings.map(({ message }) => message)).toContain(
      'AddressPool shop/wrong is refused: spec.definition.subnets[0] is "10.7.0.1/24": 10.7.0.1/24 has host bits; the network is 10.7.0.0/24',
    );
  });

  test("works where AddressPools are not installed, or may not be read", async () => {
    api.missing.add(ADDRESS_POOLS_PATH);
    expect(await admin.networks()).toEqual([]);
    api.missing.clear();
    const list = api.list.bind(api);
    api.list = async (request) => {
      if (request.path === ADDRESS_POOLS_PATH) throw new ListRefused("forbidden", 403);
      return list(request);
    };
    expect(await admin.networks()).toEqual([]);
  });
});
