import { beforeEach, describe, expect, test } from "vitest";
import { NetworkImports } from "../../controller/network-imports.ts";
import { ImportWaits } from "../../daemon/import-waits.ts";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import { RefusalError } from "../../ipam/refusals.ts";
import { type Address, formatAddress } from "../../ipam/space/address.ts";
import { ListRefused } from "../../kube/kube-api.ts";
import { readNetworkObject } from "../../kube/network-object.ts";
import { ALLOCATIONS_PATH, NETWORKS_PATH, PODS_PATH, WHEREABOUTS_POOLS_PATH } from "../../kube/objects.ts";
import { projectPod } from "../../kube/views/pod-view.ts";
import { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import { projectNad } from "../../networks/nad-view.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { ManualClock } from "../harness/manual-clock.ts";

const STATUS = "k8s.v1.cni.cncf.io/network-status";
const SUBNETS = "10.31.0.0/24";
const SHOP = { nad: "shop/blue", nodes: null };
const EVIL = { nad: "evil/blue", nodes: null };
const BLUE = `${NETWORKS_PATH}/blue`;
/** What may be listed while somebody joins again and again for 20 s: four at once, then after 1, 2, 4 and 8 s. */
const LISTS_MAX = 9;
const SILENT = { info() {}, warn() {} };

let api: KubeInMemory;
let clock: ManualClock;
let podLists: number;
let reads: number;
let node: Node;
let leader: NetworkImports;
let leaders: DefinitionCatalog;

const ours = (more: object = {}, subnets = SUBNETS) =>
  JSON.stringify({ name: "blue", type: "bridge", ...more, ipam: { type: "holdfast-ipam", subnets } });
const whereabouts = JSON.stringify({ name: "blue", type: "bridge", ipam: { type: "whereabouts" } });

/** What a daemon knows of definitions, and what it waits for. */
class Node {
  readonly catalog = catalogOf();
  readonly reported: string[] = [];
  readonly pods: object[] = [];
  readonly waits = new ImportWaits({
    api,
    catalog: this.catalog,
    read: async (network) => {
      reads += 1;
      this.waits.take(network, await readNetworkObject(api, network));
    },
    pods: () => this.pods.map((one) => projectPod(one, { addresses: true })),
    reported: (_, addresses: readonly Address[]) => void this.reported.push(...addresses.map(formatAddress)),
  });

  /** An ADD that may wait for so long; "given" once an address may be given, else the refusal. */
  async add(needs: Parameters<ImportWaits["ensure"]>[1], patienceMs = 60_000): Promise<string> {
    // As every ADD does before, for the network's owner.
    this.waits.take("blue", await readNetworkObject(api, "blue"));
    try {
      await this.waits.ensure("blue", needs, clock.monotonicMs() + patienceMs);
      return "given";
    } catch (error) {
      if (!(error instanceof RefusalError)) throw error;
      return error.refusal.message;
    }
  }
}

function catalogOf(): DefinitionCatalog {
  const catalog = new DefinitionCatalog(clock);
  catalog.setOwner("blue", { definedIn: "shop", sharedWith: ["*"] });
  return catalog;
}

beforeEach(() => {
  clock = new ManualClock();
  api = new KubeInMemory(clock);
  podLists = 0;
  reads = 0;
  api.before = ({ path }) => {
    if (path === PODS_PATH) podLists += 1;
  };
  leaders = catalogOf();
  leader = leaderOf(leaders);
  node = new Node();
  see("shop/blue", 1, ours());
});

function leaderOf(definitions: DefinitionCatalog): NetworkImports {
  const networks = {
    get items() {
      const object = api.at(BLUE);
      return new Map(object === undefined ? [] : [["blue", { object }]]);
    },
    known: true,
  };
  return new NetworkImports({
    ...{ api, definitions, networks },
    onRefused: () => {},
    idle: () => null,
    log: SILENT,
  });
}

const pass = () => leader.runPass(new AbortController().signal);

/** One edition of a NetworkAttachmentDefinition, as the watches of the node and of the leader bring it. */
function see(
  key: string,
  generation: number,
  config: string,
  { uid = `uid-${key}`, by = [node.catalog, leaders] }: { uid?: string; by?: readonly DefinitionCatalog[] } = {},
): void {
  const [namespace, name] = key.split("/");
  const creationTimestamp = namespace === "shop" ? "2026-01-01T00:00:00Z" : "2026-01-02T00:00:00Z";
  const metadata = { namespace, name, uid, generation, creationTimestamp, resourceVersion: `${generation}` };
  for (const catalog of by) catalog.upsert(projectNad({ metadata, spec: { config } }));
}

/** A running pod that another plugin gave addresses through a NAD. */
function leftover(name: string, nad: string, ips: readonly string[]): void {
  const [namespace] = nad.split("/");
  const interfaces = ips.map((ip, index) => ({ name: nad, interface: `net${index + 1}`, ips: [ip] }));
  const selected = interfaces.map((one) => ({ name: "blue", namespace, interface: one.interface }));
  const annotations = {
    [STATUS]: JSON.stringify(interfaces),
    "k8s.v1.cni.cncf.io/networks": JSON.stringify(selected),
  };
  api.put(`/api/v1/namespaces/${namespace}/pods`, {
    metadata: { namespace, name, uid: `uid-${name}`, annotations },
    spec: { nodeName: "node-x" },
    status: { phase: "Running" },
  });
}

function recorded(): string[] {
  const all = [...api.objects].filter(([path]) => path.startsWith(ALLOCATIONS_PATH));
  return all.map(([, object]) => object.spec.address).sort();
}

const generationOf = (definition: string) => {
  const list = api.at(BLUE).status.importedFrom;
  return list.find((one: { definition: string }) => one.definition === definition)?.generation;
};

describe("before a controller has imported a network", () => {
  test("an ADD waits for it, and reads one object by name meanwhile", async () => {
    leftover("before", "shop/blue", ["10.31.0.7"]);
    const waiting = node.add(SHOP);
    await expect.poll(() => reads).toBeGreaterThan(0);
    expect(podLists).toBe(0);
    await pass();
    expect(await waiting).toBe("given");
    expect(podLists).toBe(1);
    expect(recorded()).toEqual(["10.31.0.7/24"]);
  });

  test("it is refused at its deadline, with what has to be imported", async () => {
    expect(await node.add(SHOP, 50)).toBe(
      "addresses of network blue that were in use before may not be recorded yet: no controller has imported NetworkAttachmentDefinition shop/blue",
    );
    expect(podLists).toBe(0);
  });

  test("it is refused with the reason why the controller cannot", async () => {
    api.put(NETWORKS_PATH, { metadata: { name: "blue" }, spec: { network: "blue" } });
    api.before = ({ path }) => {
      if (path === WHEREABOUTS_POOLS_PATH) throw new ListRefused("403: no", 403);
    };
    await pass();
    node.waits.take("blue", api.at(BLUE));
    expect(await node.add(SHOP, 50)).toMatch(/right to list ippools\.whereabouts\.cni\.cncf\.io/);
    api.before = () => {};
    await pass();
    expect(await node.add(SHOP)).toBe("given");
    expect(api.at(BLUE).status.conditions.map(({ type }: { type: string }) => type)).toEqual(["Imported"]);
  });

  test("fifty ADDs that wait on a node read as often as one", async () => {
    const waiting = Array.from({ length: 50 }, () => node.add(SHOP));
    await expect.poll(() => reads).toBeGreaterThan(1);
    await pass();
    expect(await Promise.all(waiting)).toEqual(waiting.map(() => "given"));
    expect(reads).toBeLessThan(8);
  });
});

describe("an edit that leaves a definition ours, on its network and with its addresses", () => {
  beforeEach(async () => {
    see("evil/blue", 1, ours());
    await pass();
    expect(await node.add(SHOP)).toBe("given");
    expect(podLists).toBe(1);
  });

  test("holds up nobody, even when a tenant makes 200 of them", async () => {
    const before = reads;
    for (let generation = 2; generation <= 201; generation++) {
      see("evil/blue", generation, ours({ bridge: `br${generation}` }));
      expect(await node.add(SHOP)).toBe("given");
      expect(await node.add(EVIL)).toBe("given");
    }
    expect(reads).toBe(before);
    expect(podLists).toBe(1);
  });

  test("is known to a daemon that starts later, once the controller has written its generation", async () => {
    see("evil/blue", 2, ours({ mtu: 1400 }));
    await pass();
    expect(generationOf("evil/blue")).toBe(2);
    node = new Node();
    see("shop/blue", 1, ours(), { by: [node.catalog] });
    see("evil/blue", 2, ours({ mtu: 1400 }), { by: [node.catalog] });
    expect(await node.add(EVIL)).toBe("given");
    expect(podLists).toBe(1);
  });

  test.each<[string, () => void]>([
    [
      "that nobody saw, after a restart of both",
      () => {
        node = new Node();
        see("shop/blue", 1, ours(), { by: [node.catalog] });
        leaders = catalogOf();
        leader = leaderOf(leaders);
        see("shop/blue", 1, ours(), { by: [leaders] });
        see("evil/blue", 2, ours({ mtu: 1400 }));
      },
    ],
    ["of which one edition was missed", () => see("evil/blue", 3, ours())],
    ["of another definition of that name", () => see("evil/blue", 1, ours(), { uid: "uid-anew" })],
    [
      "after the watch was interrupted",
      () => {
        for (const one of [node.catalog, leaders]) one.interrupted();
        see("evil/blue", 2, ours());
      },
    ],
    ["by which other addresses may be given", () => see("evil/blue", 2, ours({}, "10.31.0.0/23"))],
    [
      "by way of another plugin",
      () => {
        see("evil/blue", 2, whereabouts);
        see("evil/blue", 3, ours());
      },
    ],
    [
      "by way of another network",
      () => {
        see("evil/blue", 2, ours().replace("blue", "red"));
        see("evil/blue", 3, ours());
      },
    ],
    [
      "by way of what cannot be read",
      () => {
        see("evil/blue", 2, "{");
        see("evil/blue", 3, ours());
      },
    ],
  ])("an edit %s is imported before anybody else is given an address too", async (_, edit) => {
    edit();
    leftover("meanwhile", "evil/blue", ["10.31.0.7"]);
    const waiting = [node.add(EVIL), node.add(SHOP)];
    await expect.poll(() => podLists + reads).toBeGreaterThan(1);
    await pass();
    expect(await Promise.all(waiting)).toEqual(["given", "given"]);
    expect(podLists).toBe(2);
    expect(recorded()).toEqual(["10.31.0.7/24"]);
  });
});

describe("a definition that joins its network again and again", () => {
  const ways: Record<string, (turn: number) => void> = {
    "by way of another plugin": (turn) => {
      see("evil/blue", 2 * turn, whereabouts);
      see("evil/blue", 2 * turn + 1, ours());
    },
    "deleted and created anew": (turn) => {
      for (const one of [node.catalog, leaders]) one.remove("evil/blue");
      see("evil/blue", 1, ours(), { uid: `uid-${turn}` });
    },
    "under ever new names": (turn) => {
      for (const one of [node.catalog, leaders]) one.remove(`evil/blue-${turn - 1}`);
      see(`evil/blue-${turn}`, 1, ours());
    },
  };
  const joinWithoutEnd = async (join: (turn: number) => void, meanwhile: () => Promise<unknown>) => {
    for (let turn = 1; turn <= 200; turn++) {
      join(turn);
      clock.nowMs += 100;
      await pass();
      await meanwhile();
    }
  };

  test.each(Object.keys(ways))(
    "%s: another namespace's ADDs wait five seconds in a minute at most, and pods are listed few times",
    async (way) => {
      await pass();
      let heldUp = 0;
      await joinWithoutEnd(ways[way] as (turn: number) => void, async () => {
        if ((await node.add(SHOP, 50)) !== "given") heldUp += 1;
      });
      expect(heldUp).toBeLessThanOrEqual(50);
      expect(podLists).toBeLessThanOrEqual(LISTS_MAX);
      expect(podLists).toBeGreaterThan(4);
    },
  );

  test("holds up its own ADDs until its import, which records what its pods got from the other plugin", async () => {
    await pass();
    await joinWithoutEnd(ways["by way of another plugin"] as (turn: number) => void, () => node.add(SHOP, 50));
    leftover("meanwhile", "evil/blue", ["10.31.0.7"]);
    await pass();
    expect(recorded()).toEqual([]);
    expect(await node.add(EVIL, 50)).toMatch(/no controller has imported .* evil\/blue$/);
    // Nobody else is told to wait, neither who joins for the first time nor who attaches without a definition.
    expect(await node.add(SHOP)).toBe("given");
    see("market/blue", 1, ours());
    await pass();
    expect(await node.add({ nad: "market/blue", nodes: null })).toBe("given");
    clock.nowMs += 60_000;
    await pass();
    expect(await node.add(EVIL)).toBe("given");
    expect(recorded()).toEqual(["10.31.0.7/24"]);
  });
});

test("without a controller ADDs through known definitions go on when another one joins", async () => {
  await pass();
  expect(await node.add(SHOP)).toBe("given");
  see("evil/blue", 1, ours());
  expect(await node.add(SHOP, 50)).toMatch(/evil\/blue$/);
  clock.nowMs += 5_000;
  expect(await node.add(SHOP)).toBe("given");
  see("evil/green", 1, ours());
  expect(await node.add(SHOP)).toBe("given");
});

test("the definition that counts is imported before anybody is given an address, however often it joins", async () => {
  for (let turn = 1; turn <= 20; turn++) {
    see("shop/blue", 2 * turn, whereabouts);
    see("shop/blue", 2 * turn + 1, ours());
    leftover(`meanwhile-${turn}`, "shop/blue", [`10.31.0.${turn}`]);
    await pass();
    expect(await node.add(SHOP)).toBe("given");
    expect(recorded()).toHaveLength(turn);
  }
});

test("a pod whose annotations change between imports has eight addresses of a subnet in all", async () => {
  const hosts = (first: number, count: number) =>
    Array.from({ length: count }, (_, index) => `10.31.0.${first + index}`);
  for (let turn = 1; turn <= 4; turn++) {
    leftover("greedy", "shop/blue", hosts(turn * 20, 8));
    see("shop/blue", 2 * turn, whereabouts);
    see("shop/blue", 2 * turn + 1, ours());
    await pass();
  }
  expect(recorded()).toEqual(hosts(20, 8).map((ip) => `${ip}/24`));
});

describe("an interface that the nodes' own configuration gives", () => {
  const nodes = parsePluginConfig(JSON.parse(ours()));
  const kubelets = (name: string, ip: string, phase = "Running") => ({
    metadata: {
      namespace: "shop",
      name,
      uid: name,
      resourceVersion: "1",
      creationTimestamp: "2026-01-01T00:00:00Z",
    },
    spec: { nodeName: "node-x" },
    status: { phase, podIPs: [{ ip }] },
  });

  test("waits for an import of that configuration, which it asks for once", async () => {
    api.put("/api/v1/namespaces/shop/pods", kubelets("old", "10.31.0.7"));
    await pass();
    expect(recorded()).toEqual([]);
    const waiting = [node.add({ nad: null, nodes }), node.add({ nad: null, nodes })];
    await expect.poll(() => api.at(BLUE).status.importWanted).toEqual([{ subnets: SUBNETS }]);
    await pass();
    expect(await Promise.all(waiting)).toEqual(["given", "given"]);
    expect(recorded()).toEqual(["10.31.0.7/24"]);
    expect(api.at(BLUE).status.importWanted).toBeUndefined();
    expect(api.at(BLUE).status.importedFrom).toContainEqual({ subnets: SUBNETS });
  });

  test("gets no address that a pod of this node has, however it came by it", async () => {
    const asking = node.add({ nad: null, nodes });
    await expect.poll(() => api.at(BLUE)?.status?.importWanted).toBeDefined();
    await pass();
    await asking;
    node.pods.push(kubelets("late", "10.31.0.9"), kubelets("elsewhere", "10.99.0.1"));
    node.pods.push({ ...kubelets("ended", "10.31.0.8"), status: { phase: "Succeeded" } });
    expect(await node.add({ nad: null, nodes })).toBe("given");
    expect(node.reported).toEqual(["10.31.0.9"]);
  });

  test("asks for nothing that is not a definition, and a request edited by hand is dropped", async () => {
    await pass();
    api.put(NETWORKS_PATH, {
      ...api.at(BLUE),
      status: { ...api.at(BLUE).status, importWanted: [{ subnets: "nonsense" }, { subnets: SUBNETS }] },
    });
    await pass();
    expect(api.at(BLUE).status.importWanted).toBeUndefined();
    expect(await node.add({ nad: null, nodes })).toBe("given");
  });
});
