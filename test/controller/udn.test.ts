import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ClusterAdmin } from "../../admin/cluster/cluster-admin.ts";
import type { Controller } from "../../controller/controller.ts";
import { HttpKubeApi } from "../../kube/http/http-kube-api.ts";
import { loadKubeConfig } from "../../kube/http/kube-config.ts";
import type { OpenKubeApi } from "../../kube/kube-api.ts";
import { networkObjectName } from "../../kube/object-names.ts";
import { namespacedPath } from "../../kube/objects.ts";
import type { KubeServiceBackends } from "../../metadata/tenant/services.ts";
import { CUDNS_PATH, SERVICE_ANNOTATION, UDNS_PATH } from "../../networks/udn/udn-object.ts";
import { ApiProxy, type ProxyRequest } from "../harness/api-proxy.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { configOf, NAMESPACE } from "../harness/world/network.ts";
import { endpointOf, metadataApi, serviceBackends, UdnObjects, udnDefinitions } from "../harness/world/udn-objects.ts";
import { World } from "../harness/world/world.ts";

const NODE = "node-a";
const PRIMARY = { topology: "Layer2", layer2: { role: "Primary", subnets: ["10.20.0.0/16"] } };
const udnPath = (name: string) => namespacedPath(UDNS_PATH, NAMESPACE, name);

let world: World;
let objects: UdnObjects;
let api: OpenKubeApi;
let backends: KubeServiceBackends;
let controller: Controller;

beforeAll(async () => {
  world = await World.start({ api: "memory" });
  objects = new UdnObjects(world.cluster);
  api = metadataApi(world.cluster);
  await world.kubevirt.createNode(NODE);
});
afterAll(async () => {
  await backends?.stop();
  api?.close();
  await world?.stop();
});

test("without the definitions: NADs refer to Services all the same, and other networks to none", async () => {
  const early = serviceBackends(world.cluster, api, NODE);
  early.start();
  await world.kubevirt.createNad(NAMESPACE, "plain", configOf("plain", { subnets: "10.1.0.0/24" }));
  expect(await early.backendOf("plain")).toBeNull();
  expect(await early.backendOf("unheard-of")).toBeNull();
  const nad = await world.kubevirt.createNad(NAMESPACE, "served", configOf("served", { subnets: "10.2.0.0/24" }));
  await annotate(nad, "early");
  await world.until(async () => (await early.backendOf("served")) !== null, "the annotation to be seen");
  expect(await early.backendOf("served")).toEqual({
    kind: "service",
    service: `${NAMESPACE}/early`,
    endpoints: [],
    secret: null,
  });
  const event = await objects.event(NAMESPACE, "served", "MetadataServiceUnusable");
  expect(event.message).toBe(`Service ${NAMESPACE}/early does not exist`);
  expect(event.involvedObject.kind).toBe("NetworkAttachmentDefinition");
  await early.stop();
});

describe("with definitions that drop the field metadataServiceRef", () => {
  beforeAll(async () => {
    await world.cluster.apply(udnDefinitions("pruning"));
    controller = await world.startController();
    backends = serviceBackends(world.cluster, api, NODE);
    backends.start();
  });

  test("the endpoints are the Service's ready pods on this node", async () => {
    await objects.service(NAMESPACE, "md");
    await objects.udn(NAMESPACE, "blue", PRIMARY, { [SERVICE_ANNOTATION]: "md" });
    const pods = await Promise.all(
      ["p1", "p2", "p3", "p4", "p5"].map((name) =>
        world.kubevirt.createPod(NAMESPACE, name, { node: name === "p3" ? "node-b" : NODE }),
      ),
    );
    for (const [i, pod] of pods.entries()) await objects.address(pod, `10.244.1.${i + 1}`);
    const [p1, p2, p3, p4, p5] = pods;
    await objects.slice(NAMESPACE, "md", "md-1", {
      endpoints: [
        endpointOf(p1, "10.244.1.1"),
        endpointOf(p2, "10.244.1.2", { conditions: { ready: false } }),
        endpointOf(p3, "10.244.1.3"),
      ],
    });
    await objects.slice(NAMESPACE, "md", "md-2", {
      endpoints: [endpointOf(p4, "10.244.1.4", { conditions: {} })],
      ports: [
        { name: "admin", port: 9090 },
        { name: "http", port: 8081 },
      ],
    });
    await objects.slice(NAMESPACE, "another", "another-1", { endpoints: [endpointOf(p5, "10.244.1.5")] });
    await endpointsBecome("shop_blue", ["10.244.1.1:8080", "10.244.1.4:8081"]);
    expect(await backends.backendOf("shop_blue")).toMatchObject({
      kind: "service",
      service: `${NAMESPACE}/md`,
    });
    await becomes(udnPath("blue"), "True", `metadata requests go to Service ${NAMESPACE}/md`);
  });

  test("a deleted endpoint, a changed Service type and a deleted Service are followed", async () => {
    const slices = pathOf(NAMESPACE, "endpointslices", "md-2", "discovery.k8s.io/v1beta1");
    await world.cluster.api.delete(slices);
    await endpointsBecome("shop_blue", ["10.244.1.1:8080"]);
    await world.cluster.api.patch(pathOf(NAMESPACE, "services", "md"), { spec: { type: "NodePort" } });
    await endpointsBecome("shop_blue", []);
    const message = `Service ${NAMESPACE}/md is of type NodePort: only ClusterIP Services are supported`;
    await becomes(udnPath("blue"), "False", message);
    expect((await objects.event(NAMESPACE, "blue", "ServiceNotSupported")).message).toBe(message);
    await world.cluster.api.delete(pathOf(NAMESPACE, "services", "md"));
    await becomes(udnPath("blue"), "False", `Service ${NAMESPACE}/md does not exist`);
    expect((await objects.condition(udnPath("blue"))).reason).toBe("ServiceNotFound");
    await objects.service(NAMESPACE, "md");
    await becomes(udnPath("blue"), "True", `metadata requests go to Service ${NAMESPACE}/md`);
    await endpointsBecome("shop_blue", ["10.244.1.1:8080"]);
  });

  test("ports of a Service that guests do not reach are told by the condition and an event", async () => {
    const path = pathOf(NAMESPACE, "services", "md");
    const http = { name: "http", port: 80, protocol: "TCP" };
    const clock = { name: "clock", port: 123, protocol: "UDP" };
    await world.cluster.api.patch(path, { spec: { ports: [http, clock] } });
    const unserved = `guests do not reach all ports of Service ${NAMESPACE}/md at 169.254.169.254: only TCP is served, not 123/UDP`;
    const found = `metadata requests go to Service ${NAMESPACE}/md`;
    await becomes(udnPath("blue"), "True", `${found}; ${unserved}`);
    const event = await objects.event(NAMESPACE, "blue", "MetadataServicePortsNotServed");
    expect(event).toMatchObject({ type: "Warning", message: unserved });
    await world.cluster.api.patch(path, { spec: { ports: [http] } });
    await becomes(udnPath("blue"), "True", found);
  });

  test("a node that cannot open ports for guests is named by an event", async () => {
    await backends.tellUnopened("shop_blue", "load nft_tproxy");
    await backends.tellUnopened("unheard-of", "load nft_tproxy");
    await world.until(async () => {
      const events = await world.cluster.api.list(`/api/v1/namespaces/${NAMESPACE}/events`);
      const told = events.filter(({ message }) => message === `node ${NODE}: load nft_tproxy`);
      return (
        told.map(({ reason, involvedObject: { name } }) => [reason, name]).join() ===
        "MetadataServicePortsNotServed,blue"
      );
    }, "the event");
  });

  test("a node without an endpoint of its own: 503 there, and an event that names it", async () => {
    const other = serviceBackends(world.cluster, api, "node-z");
    other.start();
    expect(await other.backendOf("shop_blue")).toMatchObject({ kind: "service", endpoints: [] });
    const event = await objects.event(NAMESPACE, "blue", "MetadataServiceNoLocalEndpoint");
    expect(event.message).toBe(
      `Service ${NAMESPACE}/md has no ready endpoint on node node-z: guests there get 503 from the metadata service`,
    );
    expect(event.source).toEqual({ component: "holdfast-metadata", host: "node-z" });
    await other.stop();
  });

  test("a Service name that is too long for a label is reported at once as a Service that does not exist", async () => {
    const name = "m".repeat(64);
    await objects.udn(NAMESPACE, "long", PRIMARY, { [SERVICE_ANNOTATION]: name });
    await becomes(udnPath("long"), "False", `Service ${NAMESPACE}/${name} does not exist`);
    await world.until(async () => (await backends.backendOf("shop_long")) !== null, "the network to be heard of");
    const startMs = world.time.clock.monotonicMs();
    expect(await backends.backendOf("shop_long")).toMatchObject({ kind: "service", endpoints: [] });
    expect(world.time.clock.monotonicMs() - startMs).toBeLessThan(2_500);
  });

  test("the discovery of the EndpointSlice version is retried after a failure", async () => {
    const proxy = await ApiProxy.start(world.cluster);
    const isAsked = ({ path }: ProxyRequest) => path.startsWith("/apis/discovery.k8s.io/v1?") || path.endsWith("/v1");
    proxy.rule({ when: isAsked, times: 1, act: { status: 406, body: {} } });
    const kubeconfig = world.cluster.kubeconfig("holdfast-metadata", proxy.url);
    const proxied = new HttpKubeApi(loadKubeConfig(kubeconfig), world.time.clock);
    const fresh = serviceBackends(world.cluster, proxied, NODE);
    fresh.start();
    try {
      expect(await fresh.backendOf("shop_blue")).toMatchObject({ endpoints: ["10.244.1.1:8080"] });
      expect(proxy.log.filter(isAsked)).toHaveLength(2);
    } finally {
      await fresh.stop();
      proxied.close();
      await proxy.stop();
    }
  });

  test("requests go to pods of the Service's namespace on the pod network only", async () => {
    await world.kubevirt.createNamespace("bank");
    await objects.service(NAMESPACE, "tricky");
    await objects.udn(NAMESPACE, "tricky", PRIMARY, { [SERVICE_ANNOTATION]: "tricky" });
    const right = await world.kubevirt.createPod(NAMESPACE, "right", { node: NODE });
    const host = await createHostPod("on-host");
    const foreign = await world.kubevirt.createPod("bank", "vault", { node: NODE });
    const ended = await world.kubevirt.createPod(NAMESPACE, "ended", { node: NODE, phase: "Succeeded" });
    await objects.address(right, "10.244.2.1");
    await objects.address(ended, "10.244.2.4");
    await objects.address(host, "192.168.7.7");
    await objects.address(foreign, "10.244.2.3");
    await objects.slice(NAMESPACE, "tricky", "tricky-1", {
      endpoints: [
        endpointOf(right, "10.244.2.1"),
        endpointOf(right, "10.244.2.99"),
        endpointOf(host, "192.168.7.7"),
        endpointOf(foreign, "10.244.2.3"),
        endpointOf(ended, "10.244.2.4"),
        { ...endpointOf(right, "10.244.2.5"), targetRef: undefined },
        endpointOf(right, "10.244.2.6", {
          targetRef: { kind: "Pod", namespace: NAMESPACE, name: "right", uid: "another" },
        }),
      ],
    });
    await endpointsBecome("shop_tricky", ["10.244.2.1:8080"]);
    const { message } = await objects.event(NAMESPACE, "tricky", "MetadataServiceEndpointRefused");
    for (const part of [
      "pod shop/right does not have the address 10.244.2.99",
      "pod shop/on-host is on its node's network (hostNetwork)",
      "10.244.2.3 is a pod of namespace bank",
      "pod shop/ended has ended",
      "10.244.2.5 is no pod",
      "pod shop/right is not there any more",
    ])
      expect(message).toContain(part);
  });

  test("an invalid reference is reported with one message in condition and event, and has no endpoints", async () => {
    await objects.cudn("nameless", PRIMARY, { [SERVICE_ANNOTATION]: "md" });
    const message = "metadataServiceRef.namespace is required for ClusterUserDefinedNetwork";
    await becomes(`${CUDNS_PATH}/nameless`, "False", message);
    expect(await objects.condition(`${CUDNS_PATH}/nameless`)).toMatchObject({ reason: "ReferenceInvalid" });
    const event = await objects.event("default", "nameless", "ReferenceInvalid");
    expect(event).toMatchObject({ message, involvedObject: { kind: "ClusterUserDefinedNetwork" } });
    expect(event.source.component).toBe("holdfast-controller");
    await world.until(
      async () => (await backends.backendOf("cluster_udn_nameless")) !== null,
      "the network to be heard of",
    );
    expect(await backends.backendOf("cluster_udn_nameless")).toMatchObject({
      kind: "service",
      endpoints: [],
    });
  });

  test("the condition is removed with the reference, and other conditions are kept", async () => {
    await objects.udn(NAMESPACE, "fickle", PRIMARY, { [SERVICE_ANNOTATION]: "md" });
    const ours = { type: "NetworkCreated", status: "True", reason: "NetworkCreated", message: "made" };
    await becomes(udnPath("fickle"), "True", `metadata requests go to Service ${NAMESPACE}/md`);
    // As OVN-Kubernetes may do it: the whole list anew, without what it does not know.
    await world.cluster.api.patch(`${udnPath("fickle")}/status`, {
      status: { conditions: [{ ...ours, lastTransitionTime: "2026-01-01T00:00:00Z" }] },
    });
    await becomes(udnPath("fickle"), "True", `metadata requests go to Service ${NAMESPACE}/md`);
    await world.cluster.api.patch(udnPath("fickle"), {
      metadata: { annotations: { [SERVICE_ANNOTATION]: null } },
    });
    await world.until(async () => (await objects.condition(udnPath("fickle"))) === undefined, "the condition to go");
    const { status } = await world.cluster.api.get(udnPath("fickle"));
    expect(status.conditions).toEqual([expect.objectContaining(ours)]);
    await world.until(async () => (await backends.backendOf("shop_fickle")) === null, "the backend to go");
  });

  test("an unchanged condition is not written again", async () => {
    const before = (await world.cluster.writes("userdefinednetworks/status")).patch;
    await world.advance(4_000);
    expect((await world.cluster.writes("userdefinednetworks/status")).patch).toBe(before);
  });

  test("a network that a NAD of another namespace owns has no UserDefinedNetwork's backend", async () => {
    await world.kubevirt.createNad("bank", "odd", configOf("shop_odd", { subnets: "10.5.0.0/24" }));
    await world.until(
      async () => (await world.networkObject(networkObjectName("shop_odd")))?.spec.definedIn === "bank",
      "it to be recorded as bank's",
    );
    await objects.udn(NAMESPACE, "odd", PRIMARY, { [SERVICE_ANNOTATION]: "md" });
    await becomes(udnPath("odd"), "True", `metadata requests go to Service ${NAMESPACE}/md`);
    await world.until(async () => (await backends.backendOf("shop_odd")) === null, "both to be heard of");
    expect(await backends.backendOf("shop_odd")).toBeNull();
  });

  test("a NAD of another namespace cannot take over the network of a UserDefinedNetwork", async () => {
    await objects.udn(NAMESPACE, "own", PRIMARY, { [SERVICE_ANNOTATION]: "md" });
    const thief = await world.kubevirt.createNad("bank", "own", configOf("shop_own", { subnets: "10.6.0.0/24" }));
    await annotate(thief, "thief");
    await world.until(
      async () => (await world.networkObject(networkObjectName("shop_own")))?.spec.definedIn === NAMESPACE,
      "it to be recorded as the UserDefinedNetwork's",
    );
    await world.until(
      async () => ((await backends.backendOf("shop_own")) as KubeObject | null)?.service === `${NAMESPACE}/md`,
      "the UserDefinedNetwork's Service",
    );
  });
});

test("with definitions that keep the field, the field takes precedence over the annotation", async () => {
  await world.cluster.apply(udnDefinitions("keeping"));
  // For up to two minutes after a change of a definition the server's open watches go on with the old one.
  await Promise.all([controller.stop(), backends.stop()]);
  controller = await world.startController();
  backends = serviceBackends(world.cluster, api, NODE);
  backends.start();
  const spec = { ...PRIMARY, metadataServiceRef: { name: "md" } };
  await world.until(async () => {
    const { spec: stored, metadata } = await objects.udn(NAMESPACE, "kept", spec);
    if (stored.metadataServiceRef !== undefined) return true;
    await world.cluster.api.delete(udnPath(metadata.name));
    return false;
  }, "the definition to be served");
  await becomes(udnPath("kept"), "True", `metadata requests go to Service ${NAMESPACE}/md`);
  const network = { ...PRIMARY, metadataServiceRef: { name: "md", namespace: NAMESPACE } };
  await objects.cudn("kept", network, { [SERVICE_ANNOTATION]: "not/this" });
  await becomes(`${CUDNS_PATH}/kept`, "True", `metadata requests go to Service ${NAMESPACE}/md`);
  await endpointsBecome("cluster_udn_kept", ["10.244.1.1:8080"]);
});

test("where the definition has no conditions an event reports the error, and the status is not written again and again", async () => {
  const definition = structuredClone(udnDefinitions("keeping")[1]);
  definition.spec.versions[0].schema.openAPIV3Schema.properties.status = { type: "object" };
  const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${definition.metadata.name}`;
  await world.cluster.api.patch(
    path,
    [{ op: "replace", path: "/spec/versions", value: definition.spec.versions }],
    "json",
  );
  const network = { topology: "Layer2", layer2: { role: "Primary", subnets: ["fd00::/64"] } };
  await objects.cudn("silent", { ...network, metadataServiceRef: { name: "md", namespace: NAMESPACE } });
  const { message } = await objects.event("default", "silent", "ReferenceInvalid");
  expect(message).toBe("metadataServiceRef requires at least one IPv4 subnet");
  await world.advance(2_000);
  const before = (await world.cluster.writes("clusteruserdefinednetworks/status")).patch;
  await world.advance(4_000);
  expect((await world.cluster.writes("clusteruserdefinednetworks/status")).patch).toBe(before);
  expect(await objects.condition(`${CUDNS_PATH}/silent`)).toBeUndefined();
});

test("while the API server is unreachable known backends are answered, and unknown ones are an error", async () => {
  const stopped = world.cluster.stopApiServer();
  await stopped;
  expect(await backends.backendOf("shop_blue")).toMatchObject({ endpoints: ["10.244.1.1:8080"] });
  const late = serviceBackends(world.cluster, api, NODE);
  late.start();
  await expect(late.backendOf("shop_blue")).rejects.toMatchObject({ name: "ApiAway" });
  await world.cluster.startApiServer();
  await world.until(
    async () => ((await late.backendOf("shop_blue").catch(() => null)) as KubeObject)?.endpoints?.length === 1,
    "the endpoints after all",
  );
  await late.stop();
});

test("`holdfast networks` of the cluster shows them, with who defines them", async () => {
  const admin = new HttpKubeApi(loadKubeConfig(world.cluster.kubeconfig("admin")), world.time.clock);
  const items = await world.time.run(new ClusterAdmin({ api: admin, silenceMs: 0 }).networks());
  admin.close();
  const named = new Map(items.map((item) => [item.name, item]));
  expect(named.get("shop_blue")).toMatchObject({
    source: `UserDefinedNetwork ${NAMESPACE}/blue`,
    ranges: [{ subnets: ["10.20.0.0/16"], gateways: ["10.20.0.1"], allocated: "0" }],
  });
  expect(named.get("shop_odd")).toMatchObject({ source: "bank/odd" });
  expect(named.get("served")).toMatchObject({ source: `${NAMESPACE}/served` });
});

async function endpointsBecome(network: string, endpoints: readonly string[]): Promise<void> {
  let last: KubeObject;
  await world
    .until(async () => {
      last = await backends.backendOf(network);
      return JSON.stringify(last?.endpoints) === JSON.stringify(endpoints);
    }, `the endpoints of ${network} to be ${endpoints}`)
    .catch((error) => {
      throw new Error(`${error.message}; they are ${JSON.stringify(last?.endpoints)}`);
    });
}

async function becomes(path: string, status: string, message: string): Promise<void> {
  let last: KubeObject;
  await world
    .until(async () => {
      last = await objects.condition(path);
      return last?.status === status && last.message === message;
    }, `the condition of ${path}`)
    .catch((error) => {
      throw new Error(`${error.message}; it is ${JSON.stringify(last)}`);
    });
}

async function annotate(nad: KubeObject, service: string): Promise<void> {
  const { namespace, name } = nad.metadata;
  const path = pathOf(namespace, "network-attachment-definitions", name, "k8s.cni.cncf.io/v1");
  await world.cluster.api.patch(path, { metadata: { annotations: { [SERVICE_ANNOTATION]: service } } });
}

function createHostPod(name: string): Promise<KubeObject> {
  return world.cluster.api.create(pathOf(NAMESPACE, "pods"), {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: NAMESPACE },
    spec: { nodeName: NODE, hostNetwork: true, containers: [{ name: "main", image: "none" }] },
  });
}
