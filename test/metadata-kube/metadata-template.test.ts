/**
 * VMs whose annotation names a template: controller, daemons and metadata servers of two nodes, with the shipped
 * rights.
 */
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import type { Controller } from "../../controller/controller.ts";
import { DATA_TEMPLATES_PATH } from "../../kube/metal3.ts";
import { namespacedPath } from "../../kube/objects.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { readManifests } from "../harness/kube-manifests.ts";
import { pathOf } from "../harness/kube-pods.ts";
import type { Vm } from "../harness/kubevirt.ts";
import { optionsOf } from "../harness/world/guests.ts";
import type { MetadataHere } from "../harness/world/metadata-here.ts";
import { NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";
import { DataObjects, forbiddenOf } from "../machines/data/data-objects.ts";
import { readNetworkData, whyNoCloudInit } from "../metadata/cloud-init/cloud-init.ts";

const KUBEVIRT = "kubevirt.io/v1";
const ANNOTATION = "metadata.holdfast.dev/data-template";
const MAC = "02:00:00:00:00:07";
const DEPLOY = join(import.meta.dirname, "../../deploy");
/** A change is told at the latest after three seconds. */
const TOLD_MS_MAX = 20_000;

const METADATA = {
  indexes: [{ key: "number", prefix: "web-" }],
  objectNames: [{ key: "name", object: "baremetalhost" }],
  fromLabels: [{ key: "tier", object: "machine", label: "tier" }],
  ipAddressesFromPool: [{ key: "address", name: "blue" }],
  strings: [{ key: "edition", value: "first" }],
};
const TEMPLATE = {
  metaData: METADATA,
  networkData: {
    links: {
      ethernets: [{ id: "front", type: "phy", name: "front0", macAddress: { fromHostInterface: "blue" } }],
    },
    networks: {
      ipv4: [{ id: "four", link: "front", ipAddressFromIPPool: "lan" }],
      ipv6: [{ id: "six", link: "front", fromPoolRef: { name: "blue" } }],
    },
    services: { dnsFromIPPool: "blue" },
  },
};

let world: World;
let objects: DataObjects;
let controller: Controller;
let blue: Network;
const servers = new Map<string, MetadataHere>();

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"] });
  objects = new DataObjects(world.cluster);
  await objects.install();
  controller = await world.startController({ machineData: "own" });
  blue = await world.importedNetwork("blue", {
    subnets: "10.0.0.0/24,fd00::/64",
    gateway: "10.0.0.1",
    dns: { nameservers: ["10.0.0.53"] },
  });
  await objects.pool("lan", "blue");
  for (const name of ["node-a", "node-b"])
    servers.set(name, await world.startMetadata(world.node(name), { kubeconfig: "handed over", node: name }));
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

interface Started {
  readonly vm: Vm;
  readonly pod: KubeObject;
  readonly ips: readonly string[];
}

const vmPath = (name: string) => pathOf(NAMESPACE, "virtualmachines", name, KUBEVIRT);
const annotate = (name: string, template: string | null) =>
  world.cluster.api.patch(vmPath(name), { metadata: { annotations: { [ANNOTATION]: template } } });

/** A VM with a label and the annotation, not started. */
async function newVm(name: string, template: string | null): Promise<Vm> {
  const vm = await world.vm(name, blue);
  await world.cluster.api.patch(vmPath(name), { metadata: { labels: { tier: `of-${name}` } } });
  if (template !== null) await annotate(name, template);
  onTestFinished(async () => {
    if ((await world.cluster.api.find(vmPath(name))) !== null) await world.kubevirt.deleteVm(vm);
  });
  return vm;
}

/** Its instance, as virt-controller makes it, and its address. */
async function start(vm: Vm, node: string): Promise<Started> {
  const { pod } = await world.kubevirt.startVm(vm, node);
  await world.cluster.api.patch(pathOf(NAMESPACE, "virtualmachineinstances", vm.name, KUBEVIRT), {
    spec: {
      domain: { devices: { interfaces: [{ name: "blue", bridge: {}, macAddress: MAC }] } },
      networks: [{ name: "blue", multus: { networkName: "blue" } }],
    },
  });
  const ips = await world.given(pod, blue, optionsOf(blue));
  return { vm, pod, ips };
}

async function stop({ vm, pod }: Started): Promise<void> {
  await world.del(pod, blue, optionsOf(blue));
  await world.kubevirt.stopVm(vm);
}

async function told(node: string, pod: KubeObject, path: string): Promise<string> {
  const { status, body } = await (servers.get(node) as MetadataHere).answerFor(blue, pod, path);
  expect(status, body).toBe(200);
  return body;
}

async function metaOf(node: string, pod: KubeObject): Promise<Record<string, string>> {
  return JSON.parse(await told(node, pod, "/openstack/latest/meta_data.json")).meta ?? {};
}

const networkDataOf = async (node: string, pod: KubeObject) =>
  JSON.parse(await told(node, pod, "/openstack/latest/network_data.json"));

async function untilMeta(node: string, pod: KubeObject, wanted: object): Promise<void> {
  let meta: object = {};
  await world.until(
    async () => {
      meta = await metaOf(node, pod);
      return Object.entries(wanted).every(([key, value]) => meta[key as never] === value);
    },
    () => `meta to have ${JSON.stringify(wanted)}; it is ${JSON.stringify(meta)}`,
    TOLD_MS_MAX,
  );
}

async function untilNoTemplate(node: string, pod: KubeObject): Promise<void> {
  await world.until(
    async () => Object.keys(await metaOf(node, pod)).length === 0,
    "the documents to be without the template",
    TOLD_MS_MAX,
  );
}

async function newTemplate(name: string, spec: object = TEMPLATE): Promise<void> {
  const template = await objects.template(name, spec);
  onTestFinished(async () => {
    await world.cluster.api.delete(namespacedPath(DATA_TEMPLATES_PATH, NAMESPACE, template.metadata.name));
  });
}

const bare = (ip: string | undefined) => (ip as string).split("/")[0];

test("the guest gets the template rendered for its VM with its addresses", async () => {
  await newTemplate("t");
  const { ips, pod } = await start(await newVm("web", "t"), "node-a");
  const [four, six] = ips;
  await untilMeta("node-a", pod, { number: "web-0" });
  expect(await metaOf("node-a", pod)).toEqual({
    number: "web-0",
    name: "web",
    tier: "of-web",
    address: bare(four),
    edition: "first",
    providerid: "shop/web/web",
  });
  const document = await networkDataOf("node-a", pod);
  expect(document).toEqual({
    links: [{ type: "phy", id: "front", name: "front0", mtu: 1500, ethernet_mac_address: MAC }],
    networks: [
      {
        type: "ipv4",
        id: "four",
        link: "front",
        ip_address: bare(four),
        netmask: "255.255.255.0",
        routes: [],
      },
      {
        type: "ipv6",
        id: "six",
        link: "front",
        ip_address: bare(six),
        netmask: "ffff:ffff:ffff:ffff::",
        routes: [],
      },
    ],
    services: [{ type: "dns", address: "10.0.0.53" }],
  });
  expect(parse(await told("node-a", pod, "/nocloud/meta-data")).meta).toMatchObject({ number: "web-0" });
  expect(parse(await told("node-a", pod, "/nocloud/network-config")).ethernets).toEqual({
    front0: {
      match: { macaddress: MAC },
      "set-name": "front0",
      mtu: 1500,
      addresses: [four, six],
      nameservers: { addresses: ["10.0.0.53"] },
    },
  });
  if (whyNoCloudInit() === null) {
    const [netplan] = await readNetworkData([JSON.stringify(document)], { macs: { [MAC]: "enp1s0" } });
    expect(netplan).toMatchObject({
      network: { ethernets: { front0: { addresses: [four, six], "set-name": "front0" } } },
    });
  }
  expect(await objects.all("secrets")).toEqual([]);
  expect(await forbiddenOf(controller, world.time)).toBe(0);
  await world.del(pod, blue, optionsOf(blue));
});

test("VMs keep their indexes over a restart and a migration, and the lowest free index is reused", async () => {
  await newTemplate("t");
  const first = await newVm("one", "t");
  await world.until(async () => (await objects.read("datas", "t-0")) !== null, "the first index");
  const other = await start(await newVm("two", "t"), "node-b");
  let one = await start(first, "node-a");
  await untilMeta("node-a", one.pod, { number: "web-0", name: "one" });
  await untilMeta("node-b", other.pod, { number: "web-1", name: "two" });

  await stop(one);
  await stop(other);
  const again = await start(other.vm, "node-a");
  one = await start(first, "node-b");
  await untilMeta("node-b", one.pod, { number: "web-0", name: "one" });
  await untilMeta("node-a", again.pod, { number: "web-1", name: "two" });

  const target = await world.kubevirt.migrate(first, "node-a");
  expect(await world.given(target, blue, optionsOf(blue))).toEqual(one.ips);
  await untilMeta("node-a", target, { number: "web-0", name: "one" });
  await world.del(one.pod, blue, optionsOf(blue));
  await world.kubevirt.finishPod(one.pod);
  await untilMeta("node-a", target, { number: "web-0" });

  await world.del(target, blue, optionsOf(blue));
  await world.kubevirt.deleteVm(first);
  await world.until(async () => (await objects.read("datas", "t-0")) === null, "the index to be given back");
  const third = await start(await newVm("three", "t"), "node-b");
  await untilMeta("node-b", third.pod, { number: "web-0", name: "three" });
  await untilMeta("node-a", again.pod, { number: "web-1", name: "two" });
  await stop(third);
  await stop(again);
});

test("an edited template takes effect within seconds, and without the annotation it is not served", async () => {
  await newTemplate("t");
  const started = await start(await newVm("web", "t"), "node-a");
  const { pod } = started;
  await untilMeta("node-a", pod, { edition: "first" });
  const strings = [{ key: "edition", value: "second" }];
  await world.cluster.api.patch(namespacedPath(DATA_TEMPLATES_PATH, NAMESPACE, "t"), {
    spec: { metaData: { strings }, networkData: null },
  });
  await untilMeta("node-a", pod, { edition: "second" });
  expect((await networkDataOf("node-a", pod)).links).toEqual([
    { id: "blue", type: "phy", ethernet_mac_address: MAC, mtu: null },
  ]);
  await annotate("web", null);
  await untilNoTemplate("node-a", pod);
  await world.until(async () => (await objects.read("claims", "web")) === null, "the claim to go");
  await world.until(async () => (await objects.read("datas", "t-0")) === null, "the index to be given back");
  await stop(started);
});

test("the VM's own meta takes precedence over values of the template", async () => {
  await newTemplate("t");
  await world.cluster.apply(
    readManifests(join(DEPLOY, "metadata/tenant.yaml")).map((one) => ({
      ...one,
      metadata: { ...one.metadata, namespace: NAMESPACE },
    })),
  );
  await world.cluster.api.create(pathOf(NAMESPACE, "configmaps"), {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "own", namespace: NAMESPACE, labels: { "metadata.holdfast.dev/serve": "true" } },
    data: { edition: "own", providerid: "mine" },
  });
  const vm = await newVm("web", "t");
  await world.cluster.api.patch(vmPath("web"), {
    metadata: { annotations: { "metadata.holdfast.dev/meta": "configmap/own" } },
  });
  const started = await start(vm, "node-a");
  await untilMeta("node-a", started.pod, { number: "web-0" });
  expect(await metaOf("node-a", started.pod)).toMatchObject({
    edition: "own",
    providerid: "mine",
    name: "web",
  });
  await stop(started);
});

test.each([
  ["nothing", null, "Metal3DataTemplate shop/nothing does not exist; create it, or name another"],
  ["no/name", null, '"no/name" is no name of an object; write the name of a Metal3DataTemplate'],
  [
    "pooled",
    { metaData: { ipAddressesFromPool: [{ key: "k", name: "green" }] } },
    "pool green: no network, NetworkAttachmentDefinition or interface of the VM has this name, and neither has an AddressPool of namespace shop; the VM's networks are blue",
  ],
])("with template %s the guest keeps its other data, and an event says what is wrong", async (name, spec, why) => {
  if (spec !== null) await newTemplate(name, spec);
  const vm = await newVm(`bad-${name.replace("/", "-")}`, name);
  // Before it has its index, an event would say that.
  if (spec !== null) await world.until(async () => (await objects.read("datas", `${name}-0`)) !== null, "the index");
  const started = await start(vm, "node-a");
  let message = "";
  await world.until(async () => {
    expect(await metaOf("node-a", started.pod)).toEqual({});
    const events = await world.cluster.api.list(pathOf(NAMESPACE, "events"));
    const own = events.filter(({ involvedObject, reason }) => {
      return involvedObject.uid === vm.uid && reason === "MetadataDataTemplateUnavailable";
    });
    message = own[0]?.message ?? "";
    return own.length > 0;
  }, "an event");
  expect(message).toContain(why);
  expect((await networkDataOf("node-a", started.pod)).links[0].id).toBe("blue");
  await stop(started);
});

test("without the component's rights the guest gets its other data, and an event names the component", async () => {
  await newTemplate("t");
  const path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/holdfast-metadata-machine-data";
  await world.cluster.api.delete(path);
  onTestFinished(() => objects.install());
  const vm = await newVm("rightless", "t");
  const started = await start(vm, "node-b");
  expect(await metaOf("node-b", started.pod)).toEqual({});
  const about = { metadata: { namespace: NAMESPACE, name: vm.name, uid: vm.uid } };
  expect(await world.untilEvent(about, "MetadataDataTemplateUnavailable")).toContain(
    "may not read Metal3DataTemplate shop/t; add machines to the components of deploy/kustomization.yaml",
  );
  await stop(started);
});
