import { beforeEach, describe, expect, test } from "vitest";
import { NodeImports } from "../../daemon/node-imports.ts";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import { RefusalError } from "../../ipam/refusals.ts";
import { ALLOCATIONS_PATH, NETWORKS_PATH, PODS_PATH } from "../../kube/objects.ts";
import { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import { projectNad } from "../../networks/nad-view.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { ManualClock } from "../harness/manual-clock.ts";

const STATUS = "k8s.v1.cni.cncf.io/network-status";
const SUBNETS = "10.31.0.0/24";
const SHOP = { nad: "shop/blue", nodes: null };
const EVIL = { nad: "evil/blue", nodes: null };
/** What may be listed while somebody joins again and again for 20 s: four at once, then after 1, 2, 4 and 8 s. */
const LISTS_MAX = 9;
/** For what runs in the background. */
const PATIENT = { timeout: 60_000 };

let api: KubeInMemory;
let clock: ManualClock;
let podLists: number;
let node: Daemon;

const ours = (more: object = {}, subnets = SUBNETS) =>
  JSON.stringify({ name: "blue", type: "bridge", ...more, ipam: { type: "holdfast-ipam", subnets } });
const whereabouts = JSON.stringify({ name: "blue", type: "bridge", ipam: { type: "whereabouts" } });

/** What a daemon knows, and its imports. */
class Daemon {
  readonly catalog = new DefinitionCatalog(api.clock);
  readonly imports = new NodeImports({
    api,
    catalog: this.catalog,
    learnOwner: async (network) => this.catalog.setOwner(network, { definedIn: "shop", sharedWith: ["*"] }),
    attachedTo: () => [],
    pods: () => [],
    log: { info() {}, warn() {} },
  });

  /** One edition of a NetworkAttachmentDefinition, as a watch brings it. */
  see(key: string, generation: number, config: string, uid = `uid-${key}`): void {
    const [namespace, name] = key.split("/");
    const creationTimestamp = namespace === "shop" ? "2026-01-01T00:00:00Z" : "2026-01-02T00:00:00Z";
    const metadata = { namespace, name, uid, generation, creationTimestamp };
    this.catalog.upsert(
      projectNad({ metadata: { ...metadata, resourceVersion: `${generation}` }, spec: { config } }),
    );
  }

  /** An ADD; "given" once an address may be given, else the refusal. */
  async add(needs: Parameters<NodeImports["ensure"]>[1], deadlineMs = 60_000): Promise<string> {
    try {
      await this.imports.ensure("blue", needs, clock.monotonicMs() + deadlineMs);
      return "given";
    } catch (error) {
      if (!(error instanceof RefusalError)) throw error;
      return error.refusal.message;
    }
  }
}

beforeEach(() => {
  clock = new ManualClock();
  api = new KubeInMemory(clock);
  podLists = 0;
  api.before = ({ path }) => {
    if (path === PODS_PATH) podLists += 1;
  };
  node = new Daemon();
  node.see("shop/blue", 1, ours());
});

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
  const list = api.at(`${NETWORKS_PATH}/blue`).status.importedFrom;
  return list.find((one: { definition: string }) => one.definition === definition)?.generation;
};

describe("an edit that leaves a definition ours, on its network and with its addresses", () => {
  beforeEach(async () => {
    node.see("evil/blue", 1, ours());
    expect(await node.add(SHOP)).toBe("given");
    expect(podLists).toBe(1);
  });

  test("starts no import, even when a tenant makes 200 of them while another namespace attaches", async () => {
    let networkWrites = 0;
    api.before = ({ path, method }) => {
      if (path === PODS_PATH) podLists += 1;
      if (path.startsWith(NETWORKS_PATH) && method !== "GET") networkWrites += 1;
    };
    for (let generation = 2; generation <= 201; generation++) {
      node.see("evil/blue", generation, ours({ bridge: `br${generation}` }));
      clock.nowMs += 100;
      expect(await node.add(SHOP)).toBe("given");
    }
    expect(await node.add(EVIL)).toBe("given");
    expect(podLists).toBe(1);
    // Once a minute the IPNetwork hears of them.
    await expect.poll(() => networkWrites, PATIENT).toBe(1);
  });

  test("is not imported after a restart, once the IPNetwork has recorded its generation", async () => {
    node.see("evil/blue", 2, ours({ mtu: 1400 }));
    expect(await node.add(SHOP)).toBe("given");
    await expect.poll(() => generationOf("evil/blue"), PATIENT).toBe(2);
    const restarted = new Daemon();
    restarted.see("shop/blue", 1, ours());
    restarted.see("evil/blue", 2, ours({ mtu: 1400 }));
    expect(await restarted.add(EVIL)).toBe("given");
    expect(podLists).toBe(1);
  });

  test.each<[string, () => void]>([
    [
      "that nobody saw, after a restart",
      () => {
        node = new Daemon();
        node.see("shop/blue", 1, ours());
        node.see("evil/blue", 2, ours({ mtu: 1400 }));
      },
    ],
    ["of which one edition was missed", () => node.see("evil/blue", 3, ours())],
    ["of another definition of that name", () => node.see("evil/blue", 1, ours(), "uid-anew")],
    [
      "after the watch was interrupted",
      () => {
        node.catalog.interrupted();
        node.see("evil/blue", 2, ours());
      },
    ],
    ["by which other addresses may be given", () => node.see("evil/blue", 2, ours({}, "10.31.0.0/23"))],
    [
      "by way of another plugin",
      () => {
        node.see("evil/blue", 2, whereabouts);
        node.see("evil/blue", 3, ours());
      },
    ],
    [
      "by way of another network",
      () => {
        node.see("evil/blue", 2, ours().replace("blue", "red"));
        node.see("evil/blue", 3, ours());
      },
    ],
    [
      "by way of what cannot be read",
      () => {
        node.see("evil/blue", 2, "{");
        node.see("evil/blue", 3, ours());
      },
    ],
  ])("an edit %s is imported", async (_, edit) => {
    edit();
    leftover("meanwhile", "evil/blue", ["10.31.0.7"]);
    expect(await node.add(SHOP)).toBe("given");
    expect(podLists).toBe(2);
    expect(recorded()).toEqual(["10.31.0.7/24"]);
  });
});

describe("a definition that joins its network again and again", () => {
  const ways: Record<string, (turn: number) => void> = {
    "by way of another plugin": (turn) => {
      node.see("evil/blue", 2 * turn, whereabouts);
      node.see("evil/blue", 2 * turn + 1, ours());
    },
    "deleted and created anew": (turn) => {
      node.catalog.remove("evil/blue");
      node.see("evil/blue", 1, ours(), `uid-${turn}`);
    },
    "under ever new names": (turn) => {
      node.catalog.remove(`evil/blue-${turn - 1}`);
      node.see(`evil/blue-${turn}`, 1, ours());
    },
  };
  const joinWithoutEnd = async (join: (turn: number) => void, meanwhile: () => Promise<unknown>) => {
    for (let turn = 1; turn <= 200; turn++) {
      join(turn);
      clock.nowMs += 100;
      await meanwhile();
    }
  };

  test.each(Object.keys(ways))(
    "%s: another namespace's ADDs do not wait, and pods are listed few times",
    async (way) => {
      await joinWithoutEnd(ways[way] as (turn: number) => void, async () => {
        expect(await node.add(SHOP)).toBe("given");
      });
      expect(podLists).toBeLessThanOrEqual(LISTS_MAX);
      expect(podLists).toBeGreaterThan(4);
    },
  );

  test("waits for its own import, which records the addresses that its pods got from the other plugin", async () => {
    const join = ways["by way of another plugin"] as (turn: number) => void;
    await joinWithoutEnd(join, () => node.add(SHOP));
    leftover("meanwhile", "evil/blue", ["10.31.0.7"]);
    expect(await node.add(EVIL, 500)).toMatch(
      /NetworkAttachmentDefinition evil\/blue has joined network blue several times in a row.* in \d+ s$/,
    );
    expect(recorded()).toEqual([]);
    // Nobody else is told to wait, neither who joins for the first time nor who attaches without a definition.
    node.see("market/blue", 1, ours());
    expect(await node.add({ nad: "market/blue", nodes: null })).toBe("given");
    expect(recorded()).toEqual(["10.31.0.7/24"]);
    clock.nowMs += 60_000;
    expect(await node.add(EVIL)).toBe("given");
  });

  test("is imported once its pause is over, whoever attaches", async () => {
    await joinWithoutEnd(ways["by way of another plugin"] as (turn: number) => void, () => node.add(SHOP));
    leftover("meanwhile", "evil/blue", ["10.31.0.7"]);
    const before = podLists;
    clock.nowMs += 60_000;
    expect(await node.add(SHOP)).toBe("given");
    expect(podLists).toBe(before + 1);
    expect(recorded()).toEqual(["10.31.0.7/24"]);
  });

  test("delays its ADD by the rest of the pause where that ends within the ADD's deadline", async () => {
    const join = ways["by way of another plugin"] as (turn: number) => void;
    for (let turn = 1; turn <= 6; turn++) {
      join(turn);
      expect(await node.add(SHOP)).toBe("given");
    }
    const started = clock.nowMs;
    const waiting = node.add(EVIL);
    clock.nowMs = started + 2_000;
    expect(await waiting).toBe("given");
  });
});

test("the definition that counts is imported before anybody is given an address, however often it joins", async () => {
  for (let turn = 1; turn <= 20; turn++) {
    node.see("shop/blue", 2 * turn, whereabouts);
    node.see("shop/blue", 2 * turn + 1, ours());
    leftover(`meanwhile-${turn}`, "shop/blue", [`10.31.0.${turn}`]);
    expect(await node.add(EVIL)).toBe("given");
    expect(recorded()).toHaveLength(turn);
  }
});

test("a pod whose annotations change between imports has eight addresses of a subnet in all", async () => {
  const hosts = (first: number, count: number) =>
    Array.from({ length: count }, (_, index) => `10.31.0.${first + index}`);
  for (let turn = 1; turn <= 4; turn++) {
    leftover("greedy", "shop/blue", hosts(turn * 20, 8));
    node.see("shop/blue", 2 * turn, whereabouts);
    node.see("shop/blue", 2 * turn + 1, ours());
    expect(await node.add(SHOP)).toBe("given");
  }
  expect(recorded()).toEqual(hosts(20, 8).map((ip) => `${ip}/24`));
});

test("an interface without a definition waits for the counting definition and the node's own ranges", async () => {
  const nodes = parsePluginConfig(JSON.parse(ours()));
  leftover("before", "shop/blue", ["10.31.0.7"]);
  expect(await node.add({ nad: null, nodes })).toBe("given");
  expect(recorded()).toEqual(["10.31.0.7/24"]);
});
