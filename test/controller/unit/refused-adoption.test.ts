/** A policy refuses to record one address: it comes again, and nobody else waits for it. */
import { beforeEach, expect, test } from "vitest";
import { claimFact, sweptPod } from "../../../claims/reasons/fact-views.ts";
import type { Found } from "../../../claims/reasons/facts.ts";
import { NO_MEMORY } from "../../../claims/reasons/read-facts.ts";
import { Adoption } from "../../../controller/claims/adoption.ts";
import { NetworkImports } from "../../../controller/network-imports.ts";
import { PodAdoption } from "../../../controller/pod-adoption.ts";
import type { KubeApi, KubeRequest } from "../../../kube/kube-api.ts";
import {
  ALLOCATIONS_PATH,
  CLAIMS_PATH,
  type IPAllocation,
  NETWORKS_PATH,
  namespacedPath,
  PODS_PATH,
} from "../../../kube/objects.ts";
import { projectClaim } from "../../../kube/views/claim-view.ts";
import { projectPod } from "../../../kube/views/pod-view.ts";
import { DefinitionCatalog } from "../../../networks/definition-catalog.ts";
import { projectNad } from "../../../networks/nad-view.ts";
import { SingleFlight } from "../../../platform/single-flight.ts";
import { KubeInMemory } from "../../harness/kube-in-memory.ts";
import { ManualClock } from "../../harness/manual-clock.ts";

const CONFIG = JSON.stringify({ name: "blue", ipam: { type: "holdfast-ipam", subnets: "10.31.0.0/24" } });
/** The policy lets everything pass but this. */
const REFUSED = "10.31.0.5/24";

let server: KubeInMemory;
let catalog: DefinitionCatalog;
const warned: string[] = [];

beforeEach(() => {
  const clock = new ManualClock();
  server = new KubeInMemory(clock);
  catalog = new DefinitionCatalog(clock);
  warned.length = 0;
  catalog.setOwner("blue", { definedIn: "shop", sharedWith: ["*"] });
  const creationTimestamp = "2026-01-01T00:00:00Z";
  const metadata = { namespace: "shop", name: "blue", uid: "uid-nad", generation: 1, creationTimestamp };
  catalog.upsert(projectNad({ metadata: { ...metadata, resourceVersion: "1" }, spec: { config: CONFIG } }));
});

/** The server behind a validating webhook. */
function withPolicy(): KubeApi {
  const send = async (request: KubeRequest) => {
    const { spec } = (request.body ?? {}) as Partial<IPAllocation>;
    if (request.method === "POST" && spec?.address === REFUSED)
      return { status: 400, body: { message: "the policy says no" }, serverMs: null };
    return server.send(request);
  };
  return { clock: server.clock, send, list: (it) => server.list(it), watch: (it) => server.watch(it) };
}

const shared = () => ({
  api: withPolicy(),
  definitions: catalog,
  allocations: { items: new Map(), known: true },
  events: { warn: async () => {} } as never,
  idle: () => null,
  log: { info() {}, warn: (fields: unknown) => void warned.push(JSON.stringify(fields)) },
});

function recorded(): string[] {
  return [...server.objects.entries()]
    .filter(([path]) => path.startsWith(ALLOCATIONS_PATH))
    .map(([, one]) => one.spec.address)
    .sort();
}

const turn = (work: { runPass(signal: AbortSignal): Promise<void> }) => work.runPass(new AbortController().signal);

test("a refused claim does not prevent younger claims from having their addresses reserved", async () => {
  const claims = new Map(
    [5, 6, 7].map((host) => {
      const name = `vm${host}`;
      const object = server.put(namespacedPath(CLAIMS_PATH, "shop"), {
        metadata: { namespace: "shop", name, creationTimestamp: `2026-01-01T00:00:0${host}Z` },
        spec: { network: "blue", interface: "net1" },
        status: { ips: [`10.31.0.${host}/24`] },
      });
      const view = projectClaim(object);
      return [view.key, { ...view, fact: claimFact(view) }];
    }),
  );
  const memory = () => ({
    ...{ attachedToClaim: () => false, namesOf: () => [], wasSeenStopped: () => false },
    ...{ guestRunsElsewhere: () => false, machines: NO_MEMORY, sharedReads: new SingleFlight<Found<unknown>>() },
  });
  const seen = { claims: { items: claims, known: true }, had: () => [], memory };
  const adoption = new Adoption({ ...shared(), ...seen });
  await turn(adoption);
  expect(recorded()).toEqual(["10.31.0.6/24", "10.31.0.7/24"]);
  expect(warned).toEqual([expect.stringContaining("the policy says no")]);
  expect(adoption.conflictCount).toBe(0);
});

test("a refused address of a pod does not prevent others from being recorded, and is retried after them", async () => {
  const networks = {
    get items() {
      const object = server.at(`${NETWORKS_PATH}/blue`);
      return new Map(object === undefined ? [] : [["blue", { object }]]);
    },
    known: true,
  };
  const noneRefused = { onRefused: () => {} };
  await turn(new NetworkImports({ ...shared(), ...noneRefused, networks }));
  const podOf = (name: string, ips: readonly string[]) => {
    const report = [{ name: "shop/blue", interface: "net1", ips }];
    const annotations = { "k8s.v1.cni.cncf.io/network-status": JSON.stringify(report) };
    const object = server.put(namespacedPath(PODS_PATH, "shop"), {
      metadata: { namespace: "shop", name, annotations },
      spec: { nodeName: "node-x" },
      status: { phase: "Running" },
    });
    const pod = sweptPod(projectPod(object, { addresses: true }));
    return [pod.key, pod] as const;
  };
  const items = new Map([podOf("refused", ["10.31.0.5"]), podOf("web", ["10.31.0.6"])]);
  const adoption = new PodAdoption({ ...shared(), ...noneRefused, networks, pods: { items, known: true } });
  await turn(adoption);
  expect(recorded()).toEqual(["10.31.0.6/24"]);
  const [key, late] = podOf("late", ["10.31.0.7"]);
  items.set(key, late);
  warned.length = 0;
  await turn(adoption);
  expect(recorded()).toEqual(["10.31.0.6/24", "10.31.0.7/24"]);
  expect(warned).toEqual([expect.stringContaining("the policy says no")]);
});
