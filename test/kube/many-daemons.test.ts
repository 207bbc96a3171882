/** Many daemons at once: what their start costs the API server, and who gets the last addresses of a network. */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newAllocation } from "../../allocations/allocation-object.ts";
import type { Controller } from "../../controller/controller.ts";
import { formatInterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ALLOCATIONS_PATH, API_VERSION, type IPNetwork } from "../../kube/objects.ts";
import { readPublishedSpace } from "../../kube/views/published-space.ts";
import { severalAtOnce } from "../../platform/several-at-once.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { requestsOf } from "../harness/kube-metrics.ts";
import { until } from "../harness/wait.ts";
import { ipsOf, NAMESPACE } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const DAEMONS = 20;
const RACING = 8;
const ADDRESSES = 5_000;
const FREE = 50;
const REFUSED = 14;
const TOGETHER = 32;
const WRITTEN_AT_ONCE = 1_000;
const LIMIT_MS = 240_000;
const TIME = "2026-01-01T00:00:00Z";
const NODES = Array.from({ length: DAEMONS }, (_, index) => `node-${index}`);

let world: World;
let controller: Controller;

beforeAll(async () => {
  world = await World.start({ api: "server" });
  controller = await world.startController();
  const range = { subnet: "10.0.0.0/19", rangeStart: addressOf(1), rangeEnd: addressOf(ADDRESSES) };
  await world.network("last", { subnets: undefined, ranges: [[range]] });
  await untilImported();
  await fill(ADDRESSES - FREE);
}, LIMIT_MS);
afterAll(async () => {
  await world?.stop();
});

function untilImported(): Promise<void> {
  const isImported = async () => (await world.networkObject("last"))?.status?.conditions?.[0]?.status === "True";
  return until(isImported, () => `the network to be imported`, 30_000);
}

/** The address with this number, counted from 1: away from where a gateway would be. */
function addressOf(number: number): string {
  const value = number + 0xff;
  return `10.0.${value >> 8}.${value & 0xff}`;
}

/**
 * Allocations of a node's pods, written past the API server; 7 lies apart from what is free at the end of each hundred.
 */
async function fill(count: number): Promise<void> {
  await world.kubevirt.createNode("elsewhere");
  const numbers = Array.from({ length: ADDRESSES }, (_, index) => index + 1)
    .filter((number) => number % (ADDRESSES / FREE) !== 7)
    .slice(0, count);
  for (let from = 0; from < numbers.length; from += WRITTEN_AT_ONCE) {
    const objects = numbers.slice(from, from + WRITTEN_AT_ONCE).map(ofStranger);
    const named = objects.map(
      (object) => [`${API_VERSION.split("/")[0]}/ipallocations/${object.metadata.name}`, object] as const,
    );
    await world.server.writeEtcd(new Map(named));
  }
  let shown = "";
  const isPublished = async () => {
    const object = (await world.networkObject("last")) as unknown as IPNetwork;
    shown = `${readPublishedSpace(object)?.used[4].size} ${JSON.stringify(object?.status).slice(0, 300)}`;
    return readPublishedSpace(object)?.used[4].size === BigInt(count);
  };
  await until(isPublished, () => `what is taken to be published: ${shown}`, 90_000);
}

function ofStranger(number: number): KubeObject {
  const uid = randomUUID();
  const pod = { namespace: "elsewhere", name: `pod-${number}`, uid };
  const attachment = { containerID: uid, interface: "net1", node: "elsewhere", pod, since: TIME };
  const holder = { owner: { kind: "Pod", ...pod, interface: "net1" }, attachment } as const;
  const one = parseInterfaceAddress(`${addressOf(number)}/19`);
  const made = newAllocation("last", one, holder, TIME);
  const metadata = { ...made.metadata, uid: randomUUID(), creationTimestamp: TIME, generation: 1 };
  return { ...made, metadata } as unknown as KubeObject;
}

/** What Kubernetes' own controllers ask in, of every resource and whenever they like. */
const PROTOBUF = "application/vnd.kubernetes.protobuf";

/** How often the API server was asked for a list, by resource. */
async function lists(): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (const { label, count } of requestsOf(await world.cluster.api.get("/metrics"))) {
    const resource = label.get("resource") ?? "";
    const isOurs = label.get("contentType") !== PROTOBUF;
    if (isOurs && label.get("verb") === "LIST") counts.set(resource, (counts.get(resource) ?? 0) + count);
  }
  return counts;
}

test(
  "twenty daemons that start at once are ready without a list of the cluster's allocations or claims",
  async () => {
    // Nobody else lists meanwhile.
    await controller.stop();
    const before = await lists();
    const nodes = await Promise.all(NODES.map((name) => world.startNode(name)));
    const after = await lists();
    const more = (resource: string) => (after.get(resource) ?? 0) - (before.get(resource) ?? 0);
    const counted = [...after.keys()].filter((resource) => more(resource) > 0);
    console.log(counted.map((resource) => `${resource} ${more(resource)}`).join(", "));
    // As each daemon counts them: what the server has served besides would be somebody else's.
    let byLabel = 0;
    const ofNetworks: string[] = [];
    for (const node of nodes) {
      const { body } = await node.daemon.get("/metrics");
      const ofAllocations = body
        .split("\n")
        .filter((line) => /^holdfast_api_list_requests_total\{.*resource="ipallocations"/.test(line));
      expect(ofAllocations.filter((line) => !line.includes('selector="label"'))).toEqual([]);
      ofNetworks.push(...body.split("\n").filter((line) => /requests_total\{.*resource="ipnetworks"/.test(line)));
      for (const line of ofAllocations) byLabel += Number(line.split(" ").at(-1));
    }
    expect(more("ipallocations")).toBe(byLabel);
    expect(more("ipamclaims")).toBe(0);
    // One object, for the server's present version.
    expect(more("ipnetworks")).toBe(DAEMONS);
    expect(ofNetworks).toEqual([]);
  },
  LIMIT_MS,
);

test(
  "eight daemons race for the last hundredth of a network: each address is given once, and refused only when none is left",
  async () => {
    await world.startController();
    const config = (await world.cluster.api.list("/apis/k8s.cni.cncf.io/v1/network-attachment-definitions")).find(
      ({ metadata }) => metadata.name === "last",
    )?.spec.config as string;
    const network = { name: "last", config };
    const count = async () => {
      const page = await world.cluster.api.get(`${ALLOCATIONS_PATH}?limit=1`);
      return page.items.length + (page.metadata.remainingItemCount ?? 0);
    };
    const given: string[] = [];
    const early: number[] = [];
    let refused = 0;
    await severalAtOnce(Array.from({ length: FREE + REFUSED }).keys(), TOGETHER, async (index) => {
      const node = NODES[index % RACING] as string;
      const networks = [{ name: "last" }];
      const pod = await world.kubevirt.createPod(NAMESPACE, `last-${index}`, { node, networks, phase: null });
      await until(
        async () => {
          const answer = await world.add(pod, network);
          if (answer.code === 0) return given.push(...ipsOf(answer)) > 0;
          // Whoever is refused may not have been before the last address was taken.
          if (!answer.json().msg.includes("no free address")) return false;
          const taken = await count();
          if (taken < ADDRESSES) early.push(taken);
          refused += 1;
          return true;
        },
        `an answer for last-${index}`,
        LIMIT_MS,
      );
    });
    expect(early).toEqual([]);
    expect(given).toHaveLength(FREE);
    expect(new Set(given).size).toBe(FREE);
    expect(refused).toBe(REFUSED);
    const free = Array.from({ length: FREE }, (_, index) => addressOf(index * (ADDRESSES / FREE) + 7));
    expect(new Set(given)).toEqual(
      new Set(free.map((address) => formatInterfaceAddress(parseInterfaceAddress(`${address}/19`)))),
    );
    await world.settled();
  },
  LIMIT_MS,
);
