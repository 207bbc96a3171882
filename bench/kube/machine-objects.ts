import { randomUUID } from "node:crypto";
import { formatAddress } from "../../ipam/space/address.ts";
import { CAPI_IPAM_GROUP } from "../../kube/cluster-api.ts";
import {
  DATA_API_VERSION,
  DATA_CLAIMS_PATH,
  DATA_TEMPLATES_PATH,
  HOST_ANNOTATION,
  HOSTS_PATH,
  INFRASTRUCTURE_GROUP,
  MACHINE_DATAS_PATH,
} from "../../kube/metal3.ts";
import { allocationName } from "../../kube/object-names.ts";
import { ADDRESS_POOLS_PATH, ALLOCATIONS_PATH, API_VERSION, namespacedPath } from "../../kube/objects.ts";
import type { TestCluster } from "../../test/harness/cluster.ts";
import type { KubeObject } from "../../test/harness/kube-api.ts";
import { readManifestDirectory, readManifests } from "../../test/harness/kube-manifests.ts";
import { until } from "../../test/harness/wait.ts";
import { copied, IN_ETCD, tenth } from "./fill.ts";
import { NAMESPACE, NETWORK } from "./kube-bench.ts";
import { inParallel } from "./parallel.ts";

const DEFINITIONS = "test/harness/crds/machines";
const CREATED_AT_ONCE = 32;
const WAIT_MS_MAX = 180_000;

const IPAM_VERSION = `${CAPI_IPAM_GROUP}/v1beta2`;
export const ADDRESS_CLAIMS_PATH = `/apis/${IPAM_VERSION}/ipaddressclaims`;
export const ADDRESSES_PATH = `/apis/${IPAM_VERSION}/ipaddresses`;
export const METAL3_MACHINES_PATH = `/apis/${DATA_API_VERSION}/metal3machines`;

/** Of the network's 10.0.0.0/8: no claim of a pod gets one of these. */
export const POOL = "lan";
const POOL_RANGE = "10.64.0.0/10";
const POOL_FIRST = 0x40_0100;

const TEMPLATE_DATA = {
  metaData: {
    objectNames: [{ key: "name", object: "metal3machine" }],
    indexes: [{ key: "number", prefix: "n-" }],
    strings: [{ key: "rack", value: "r1" }],
  },
  networkData: {
    links: { ethernets: [{ id: "eth0", type: "phy", macAddress: { fromHostInterface: "eth0" } }] },
    services: { dns: ["10.0.0.53"] },
  },
};

/**
 * Cluster API and Metal3 in a cluster, as far as definitions go, and Holdfast's own mode with its rights. No admission.
 */
export async function defineMachines(cluster: TestCluster): Promise<void> {
  const hosts = readManifests(`${DEFINITIONS}/metal3-host.yaml`);
  await cluster.define([
    ...readManifests(`${DEFINITIONS}/ipam-v1beta2.yaml`),
    ...readManifests(`${DEFINITIONS}/capi.yaml`),
    ...hosts.filter(({ metadata }) => metadata.name === "baremetalhosts.metal3.io"),
    ...readManifestDirectory("deploy/machines/crds"),
    ...readManifests("deploy/machines/rbac.yaml"),
  ]);
}

/** An AddressPool; resolves when it gives addresses. */
export async function createPool(cluster: TestCluster, name: string, spec: object): Promise<void> {
  const { api } = cluster;
  const metadata = { name, namespace: NAMESPACE };
  const path = namespacedPath(ADDRESS_POOLS_PATH, NAMESPACE);
  await api.create(path, { apiVersion: API_VERSION, kind: "AddressPool", metadata, spec });
  const isReady = async () => {
    const conditions: KubeObject[] = (await api.get(`${path}/${name}`)).status?.conditions ?? [];
    return conditions.some(({ type, status }) => type === "Ready" && status === "True");
  };
  await until(isReady, `AddressPool ${name} to be ready`, WAIT_MS_MAX);
}

/** The pool of machines on the network that is measured. */
export function createMachinePool(cluster: TestCluster): Promise<void> {
  return createPool(cluster, POOL, { network: NETWORK, ranges: [POOL_RANGE] });
}

export function claimNames(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}-${index}`);
}

/** IPAddressClaims. */
export function createClaims({ api }: TestCluster, names: readonly string[], pool: string): Promise<void> {
  const path = namespacedPath(ADDRESS_CLAIMS_PATH, NAMESPACE);
  return inParallel(names, CREATED_AT_ONCE, (name) =>
    api.create(path, {
      apiVersion: IPAM_VERSION,
      kind: "IPAddressClaim",
      metadata: { name, namespace: NAMESPACE },
      spec: { poolRef: { apiGroup: API_VERSION.split("/")[0], kind: "AddressPool", name: pool } },
    }),
  );
}

/** A template; `pool`: each machine gets an address of it. */
export async function createTemplate({ api }: TestCluster, name: string, pool: string | null): Promise<void> {
  const { metaData, networkData } = TEMPLATE_DATA;
  const reference = { apiGroup: API_VERSION.split("/")[0], kind: "AddressPool", name: pool };
  const networks =
    pool === null
      ? { ipv4DHCP: [{ id: "lan", link: "eth0" }] }
      : { ipv4: [{ id: "lan", link: "eth0", fromPoolRef: reference }] };
  await api.create(namespacedPath(DATA_TEMPLATES_PATH, NAMESPACE), {
    apiVersion: DATA_API_VERSION,
    kind: "Metal3DataTemplate",
    metadata: { name, namespace: NAMESPACE },
    spec: { metaData, networkData: { ...networkData, networks } },
  });
}

/** Inspected BareMetalHosts. */
export function createHosts({ api }: TestCluster, names: readonly string[]): Promise<void> {
  const path = namespacedPath(HOSTS_PATH, NAMESPACE);
  return inParallel(names, CREATED_AT_ONCE, async (name) => {
    const spec = { bootMACAddress: "02:00:00:00:00:ff", online: true };
    const nics = [{ name: "eth0", mac: "02:00:00:00:00:01" }];
    const metadata = { name, namespace: NAMESPACE };
    await api.create(path, { apiVersion: "metal3.io/v1alpha1", kind: "BareMetalHost", metadata, spec });
    await api.patch(`${path}/${name}/status`, { status: { hardware: { nics } } });
  });
}

/** Metal3Machines of a template, each with the host of its name. */
export function createMachines({ api }: TestCluster, names: readonly string[], template: string): Promise<void> {
  const path = namespacedPath(METAL3_MACHINES_PATH, NAMESPACE);
  return inParallel(names, CREATED_AT_ONCE, (name) =>
    api.create(path, {
      apiVersion: DATA_API_VERSION,
      kind: "Metal3Machine",
      metadata: { name, namespace: NAMESPACE, annotations: { [HOST_ANNOTATION]: `${NAMESPACE}/${name}` } },
      spec: { dataTemplate: { name: template } },
    }),
  );
}

/**
 * Waits until so many objects of a resource fulfil a condition; from the server's cache, so that looking costs little.
 */
export async function untilCount(
  { api }: TestCluster,
  path: string,
  count: number,
  isSo: (object: KubeObject) => boolean,
): Promise<void> {
  let found = 0;
  await until(
    async () => {
      found = (await api.list(`${path}?resourceVersion=0`)).filter(isSo).length;
      return found === count;
    },
    () => `${count} objects of ${path}; there are ${found}`,
    WAIT_MS_MAX,
  );
}

export function isAnswered({ status }: KubeObject): boolean {
  return status?.addressRef?.name !== undefined;
}

export function isReady({ status }: KubeObject): boolean {
  return status?.ready === true;
}

/** Whether a machine, and before that its host, was told of its Secrets. */
export function isTold({ status }: KubeObject): boolean {
  const conditions: KubeObject[] = status?.conditions ?? [];
  return ["Metal3DataReady", "HostDataReferenced"].every((type) =>
    conditions.some((one) => one.type === type && one.status === "True"),
  );
}

/** Everything that one machine with an address has, by the name of its resource in etcd. */
const PARTS: Readonly<Record<string, string>> = {
  [`${CAPI_IPAM_GROUP}/ipaddressclaims`]: ADDRESS_CLAIMS_PATH,
  [`${CAPI_IPAM_GROUP}/ipaddresses`]: ADDRESSES_PATH,
  [`${INFRASTRUCTURE_GROUP}/metal3machines`]: METAL3_MACHINES_PATH,
  [`${INFRASTRUCTURE_GROUP}/metal3dataclaims`]: DATA_CLAIMS_PATH,
  [`${INFRASTRUCTURE_GROUP}/metal3datas`]: MACHINE_DATAS_PATH,
  "metal3.io/baremetalhosts": HOSTS_PATH,
};

/**
 * Copies the only machine of the cluster, which a controller has settled, `count` times with other names, UIDs and
 * addresses. `machine` and `template` are its names, which occur nowhere else.
 */
export async function copyMachine(
  cluster: TestCluster,
  machine: string,
  template: string,
  count: number,
): Promise<void> {
  const parts = new Map<string, KubeObject>();
  for (const [name, path] of Object.entries(PARTS)) parts.set(name, await only(cluster, path));
  const allocation = await only(cluster, ALLOCATIONS_PATH);
  const address = allocation.spec.address.split("/")[0];
  const uids = [...parts.values(), allocation].map(({ metadata }) => metadata.uid as string);
  // Its cache would keep every change.
  await cluster.stopApiServer();
  cluster.api.close();
  for (let from = 1; from <= count; from += COPIED_AT_ONCE) {
    const objects = new Map<string, KubeObject>();
    for (let index = from; index < Math.min(from + COPIED_AT_ONCE, count + 1); index += 1) {
      const own = tenth(POOL_FIRST + index);
      const others: [string, string][] = [
        [`${template}-0`, `${template}-${index}`],
        [machine, `${machine}-${index}`],
        [allocation.metadata.name, allocationName(NETWORK, own)],
        [address, formatAddress(own)],
        ...uids.map((uid): [string, string] => [uid, randomUUID()]),
      ];
      for (const [name, part] of parts) {
        const copy = copied(part, others);
        if (typeof copy.spec.index === "number") copy.spec.index = index;
        objects.set(`${name}/${NAMESPACE}/${copy.metadata.name}`, copy);
      }
      const copy = copied(allocation, others);
      objects.set(`${IN_ETCD}/${copy.metadata.name}`, copy);
    }
    await cluster.writeEtcd(objects);
  }
  await cluster.startApiServer();
  const isServed = async () => (await cluster.api.call("GET", `${HOSTS_PATH}?limit=1`)).status === 200;
  await until(isServed, "the definitions to be served again");
}
const COPIED_AT_ONCE = 100;

async function only({ api }: TestCluster, path: string): Promise<KubeObject> {
  const [object, ...others] = await api.list(path);
  if (object === undefined || others.length > 0) throw new Error(`${path}: expected one object`);
  return object;
}

/** How long work takes, ms, and how much of that after the instant that it returns. */
export async function timed(work: () => Promise<number>): Promise<{ readonly ms: number; readonly restMs: number }> {
  const startMs = performance.now();
  const midMs = await work();
  const endMs = performance.now();
  return { ms: endMs - startMs, restMs: endMs - midMs };
}
