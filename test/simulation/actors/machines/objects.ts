import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { World } from "../../world.ts";
import { attempted } from "../people/look.ts";

/** Where objects lie in etcd. */
export const STORAGE = {
  claims: "ipam.cluster.x-k8s.io/ipaddressclaims",
  addresses: "ipam.cluster.x-k8s.io/ipaddresses",
  clusters: "cluster.x-k8s.io/clusters",
  pools: "ipam.holdfast.dev/addresspools",
  allocations: "ipam.holdfast.dev/ipallocations",
  vsphereVms: "infrastructure.cluster.x-k8s.io/vspherevms",
  templates: "infrastructure.cluster.x-k8s.io/metal3datatemplates",
  dataClaims: "infrastructure.cluster.x-k8s.io/metal3dataclaims",
  datas: "infrastructure.cluster.x-k8s.io/metal3datas",
  metal3Machines: "infrastructure.cluster.x-k8s.io/metal3machines",
  hosts: "metal3.io/baremetalhosts",
  secrets: "/secrets",
  virtualMachines: "kubevirt.io/virtualmachines",
  definitions: "apiextensions.k8s.io/customresourcedefinitions",
  namespaces: "/namespaces",
} as const;

export type Storage = keyof typeof STORAGE;

/** Kinds that are served in one version whatever Cluster API's is. */
const VERSIONS: Readonly<Partial<Record<Storage, string>>> = {
  pools: "ipam.holdfast.dev/v1alpha1",
  vsphereVms: "infrastructure.cluster.x-k8s.io/v1beta1",
  templates: "infrastructure.cluster.x-k8s.io/v1beta2",
  dataClaims: "infrastructure.cluster.x-k8s.io/v1beta2",
  datas: "infrastructure.cluster.x-k8s.io/v1beta2",
  metal3Machines: "infrastructure.cluster.x-k8s.io/v1beta2",
  hosts: "metal3.io/v1alpha1",
  virtualMachines: "kubevirt.io/v1",
};

const KINDS: Readonly<Partial<Record<Storage, string>>> = {
  claims: "IPAddressClaim",
  addresses: "IPAddress",
  clusters: "Cluster",
  pools: "AddressPool",
  vsphereVms: "VSphereVM",
  templates: "Metal3DataTemplate",
  metal3Machines: "Metal3Machine",
  hosts: "BareMetalHost",
};

/** The version in which a definition serves its kind; null: it is not there. */
export function servedVersion({ cluster }: World, storage: Storage): string | null {
  const [group, plural] = STORAGE[storage].split("/");
  const definition = cluster.etcd.get(STORAGE.definitions, `${plural}.${group}`);
  return definition?.spec.versions.find(({ served }: KubeObject) => served)?.name ?? null;
}

/** All of a kind, in a namespace or everywhere. They are not changed. */
export function allOf({ cluster }: World, storage: Storage, namespace?: string): KubeObject[] {
  const prefix = namespace === undefined ? "" : `${namespace}/`;
  return cluster.etcd.range(STORAGE[storage], prefix).map(({ object }) => object);
}

/** By `namespace/name`; null: there is none. It is not changed. */
export function at({ cluster }: World, storage: Storage, key: string): KubeObject | null {
  return cluster.etcd.get(STORAGE[storage], key);
}

export function keyOf({ metadata }: KubeObject): string {
  return `${metadata.namespace}/${metadata.name}`;
}

export const isBeingDeleted = ({ metadata }: KubeObject): boolean => metadata.deletionTimestamp !== undefined;

/** Whether a namespace takes new objects. */
export function isOpen({ cluster }: World, namespace: string): boolean {
  const object = cluster.etcd.get(STORAGE.namespaces, namespace);
  return object !== null && !isBeingDeleted(object);
}

/** Creates an object of a kind; its version and kind need not be said. null: it was refused. */
export async function create(world: World, storage: Storage, object: KubeObject): Promise<KubeObject | null> {
  const path = collectionPath(world, storage, object.metadata.namespace);
  if (path === null) return null;
  const [apiVersion] = path.replace("/apis/", "").split("/namespaces/");
  const whole = { apiVersion, kind: KINDS[storage], ...object };
  return attempted(world.cluster.admin.create(path, whole));
}

/** A merge patch; null: it was refused, or the object is gone. */
export async function patch(
  world: World,
  storage: Storage,
  key: string,
  change: object,
  subresource = "",
): Promise<KubeObject | null> {
  const path = pathOf(world, storage, key);
  if (path === null || at(world, storage, key) === null) return null;
  return attempted(world.cluster.admin.patch(`${path}${subresource}`, change));
}

/** Asks for its deletion. */
export async function remove(
  world: World,
  storage: Storage,
  key: string,
  options: { readonly propagation?: string } = {},
): Promise<void> {
  const path = pathOf(world, storage, key);
  if (path !== null) await attempted(world.cluster.admin.remove(path, options));
}

function pathOf(world: World, storage: Storage, key: string): string | null {
  const [namespace = "", name = ""] = key.split("/");
  const path = collectionPath(world, storage, namespace);
  return path && `${path}/${name}`;
}

/** null: the kind is not served. */
function collectionPath(world: World, storage: Storage, namespace: string): string | null {
  const [group, plural] = STORAGE[storage].split("/");
  if (group === "") return `/api/v1/namespaces/${namespace}/${plural}`;
  const version = servedVersion(world, storage);
  const apiVersion = VERSIONS[storage] ?? `${group}/${version}`;
  return version === null ? null : `/apis/${apiVersion}/namespaces/${namespace}/${plural}`;
}
