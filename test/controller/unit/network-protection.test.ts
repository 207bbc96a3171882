import { beforeEach, describe, expect, test } from "vitest";
import type { Cache, CachedAllocation } from "../../../claims/reasons/caches.ts";
import { LostNetworks } from "../../../controller/protection/lost-networks.ts";
import { NetworkProtection } from "../../../controller/protection/network-protection.ts";
import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import { allocationName } from "../../../kube/object-names.ts";
import {
  ALLOCATIONS_PATH,
  type IPNetwork,
  LABEL_NETWORK,
  NETWORK_FINALIZER,
  NETWORKS_PATH,
} from "../../../kube/objects.ts";
import { RECORDED_OWNER_ANNOTATION } from "../../../networks/network-owner.ts";
import type { KubeObject } from "../../harness/kube-api.ts";
import { KubeInMemory } from "../../harness/kube-in-memory.ts";
import { ManualClock } from "../../harness/manual-clock.ts";

const PATH = `${NETWORKS_PATH}/blue`;
const FINALIZERS = [NETWORK_FINALIZER];
const TERMINATING = {
  deletionTimestamp: "2026-01-01T00:00:00Z",
  deletionGracePeriodSeconds: 0,
  finalizers: FINALIZERS,
};

let api: KubeInMemory;
let clock: ManualClock;
let told: string[];
beforeEach(() => {
  clock = new ManualClock();
  api = new KubeInMemory(clock);
  told = [];
});

function put(metadata: object, { spec = {}, status }: { spec?: object; status?: object } = {}): IPNetwork {
  const object = { metadata: { name: "blue", ...metadata }, spec: { network: "blue", ...spec } };
  return api.put(NETWORKS_PATH, { ...object, ...(status && { status }) });
}

function allocate(state: string): KubeObject {
  const { address } = parseInterfaceAddress("10.0.0.5/24");
  return api.put(ALLOCATIONS_PATH, {
    metadata: { name: allocationName("blue", address), labels: { [LABEL_NETWORK]: "blue" } },
    spec: { network: "blue", address: "10.0.0.5/24", owner: { kind: "Pod", uid: "u" } },
    status: { state },
  });
}

/** What the controller has seen of a collection. */
function cache<T>(path: string): Cache<T> {
  const objects = [...api.objects].filter(([at]) => at.startsWith(`${path}/`)).map(([, object]) => object);
  const items = new Map(
    objects.map((object) => [
      object.metadata.name,
      { object, state: object.status?.state, network: object.spec?.network },
    ]),
  );
  return { known: true, items } as unknown as Cache<T>;
}

const parts = (allocations = cache<CachedAllocation>(ALLOCATIONS_PATH)) => ({
  ...{ api, allocations, networks: cache<{ object: IPNetwork }>(NETWORKS_PATH) },
  events: { warn: (_: unknown, reason: string) => void told.push(reason) },
  idle: () => null,
  log: { info: () => {}, warn: () => {} },
});
const none = { known: true, items: new Map() } as unknown as Cache<CachedAllocation>;
const protect = (allocations?: Cache<CachedAllocation>) =>
  new NetworkProtection(parts(allocations)).runPass(new AbortController().signal);

describe("an IPNetwork", () => {
  test("gets the finalizer where it has none, beside those of others, and no second write", async () => {
    put({ finalizers: ["shop.example/audit"] });
    await protect();
    expect(api.at(PATH).metadata.finalizers).toEqual(["shop.example/audit", ...FINALIZERS]);
    await protect();
    expect(api.writes).toHaveLength(1);
  });

  test("that is deleted goes when nobody uses an address of its network", async () => {
    put(TERMINATING);
    allocate("Cooling");
    await protect();
    expect(api.at(PATH)).toBeUndefined();
  });

  test("that is deleted stays while an address is used, also one that the controller has not seen yet, and says so", async () => {
    put(TERMINATING);
    allocate("Bound");
    await protect();
    await protect(none);
    expect(api.at(PATH).metadata.finalizers).toEqual(FINALIZERS);
    expect(told).toEqual(["DeletionWaits", "DeletionWaits"]);
  });

  test("that is deleted stays while its network recovers", async () => {
    put(TERMINATING, { status: { conditions: [{ type: "Recovering", status: "True" }] } });
    await protect();
    expect(api.at(PATH)).toBeDefined();
  });

  test.each([
    ["nobody owns, goes", {}, {}, true],
    ["a node has recorded, goes", { definedIn: "evil" }, { [RECORDED_OWNER_ANNOTATION]: "evil" }, true],
    ["an administrator has written, is left alone", { definedIn: "shop" }, {}, false],
  ])("with another network's name, which %s", async (_, spec, annotations, goes) => {
    put({ annotations }, { spec: { network: "cluster_udn_blue", ...spec } });
    await protect();
    await protect();
    expect(api.at(PATH) === undefined).toBe(goes);
  });
});

describe("an IPNetwork that went without the controller", () => {
  const recorded = {
    annotations: { [RECORDED_OWNER_ANNOTATION]: "shop", note: "n" },
    finalizers: FINALIZERS,
  };
  const status = {
    ...{ importedFrom: [{ subnets: "10.0.0.0/24" }], pausedClusters: ["shop/machines"] },
    conditions: ["Imported", "Recovering"].map((type) => ({
      ...{ type, status: "True", reason: "Known", message: "" },
      lastTransitionTime: "2026-01-01T00:00:00Z",
    })),
  };

  /** It was there, and then there is what `now` puts in its place. */
  async function lose(object: IPNetwork, now: () => void = () => {}, { defined = true, afterMs = 0 } = {}) {
    api.remove(PATH);
    now();
    const definitions = { networks: () => (defined ? ["blue"] : []) };
    const lost = new LostNetworks({ ...parts(), definitions, pools: { known: true, items: new Map() } });
    lost.noteGone(object);
    clock.nowMs += afterMs;
    await lost.runPass(new AbortController().signal);
    await lost.runPass(new AbortController().signal);
    return api.at(PATH);
  }
  const shop = () => put({ ...recorded }, { spec: { definedIn: "shop", sharedWith: ["bank"] }, status });

  test("comes back with its owner, what it says of clusters, and the import to be done again", async () => {
    const { metadata, spec, status: now } = await lose(shop());
    expect(metadata).toMatchObject(recorded);
    expect(spec).toEqual({ network: "blue", definedIn: "shop", sharedWith: ["bank"] });
    expect(now.pausedClusters).toEqual(["shop/machines"]);
    expect(now.importedFrom).toBeUndefined();
    expect(now.conditions).toEqual([expect.objectContaining({ type: "Recovering" })]);
    expect(told).toEqual(["Restored"]);
    expect(api.writes).toHaveLength(1);
  });

  test("gives its owner to the object that came in its place", async () => {
    const thief = { annotations: { [RECORDED_OWNER_ANNOTATION]: "evil" } };
    const now = await lose(shop(), () => put(thief, { spec: { definedIn: "evil" } }));
    expect(now.spec).toEqual({ network: "blue", definedIn: "shop", sharedWith: ["bank"] });
    expect(now.metadata.annotations[RECORDED_OWNER_ANNOTATION]).toBe("shop");
  });

  test.each<[string, () => KubeObject | undefined]>([
    ["an administrator has created another", () => lose(shop(), () => put({}, { spec: { definedIn: "bank" } }))],
    ["the same owner is recorded again", () => lose(shop(), () => shop())],
    ["nothing uses or defines the network", () => lose(shop(), undefined, { defined: false })],
    ["it was deleted, and nobody uses the network", () => lose(put({ ...recorded, ...TERMINATING }))],
    ["it is long ago", () => lose(shop(), undefined, { afterMs: 600_001 })],
  ])("is left where %s", async (_, run) => {
    await run();
    expect(api.writes).toEqual([]);
  });

  test("comes back where an address was taken while the controller let it go, but not over a new record", async () => {
    const deleted = put({ ...recorded, ...TERMINATING }, { spec: { definedIn: "shop" } });
    allocate("Bound");
    const newer = { annotations: { [RECORDED_OWNER_ANNOTATION]: "bank" } };
    const kept = await lose(deleted, () => put(newer, { spec: { definedIn: "bank" } }), { defined: false });
    expect(kept.spec.definedIn).toBe("bank");
    expect((await lose(deleted, undefined, { defined: false })).spec.definedIn).toBe("shop");
  });
});
