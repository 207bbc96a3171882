/** A machine's address, put in place as the controller leaves it. */
import type { AllocationOwner } from "../../kube/objects.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import type { ClusterApi } from "../harness/machines/cluster-api.ts";
import { NAMESPACE, nameOf } from "../harness/world/network.ts";
import type { World } from "../harness/world/world.ts";

export interface MachineParts {
  readonly namespace?: string;
  /** Its Cluster; default: none. */
  readonly cluster?: string;
  /** Default: as its claim. */
  readonly pool?: string;
}

/** Its claim, its allocation and its IPAddress. `address` with its prefix length. */
export async function machine(
  world: World,
  capi: ClusterApi,
  name: string,
  address: string,
  { namespace = NAMESPACE, cluster, pool = "blue" }: MachineParts = {},
): Promise<KubeObject> {
  const claim = await capi.claim(name, pool, { namespace, ...(cluster === undefined ? {} : { cluster }) });
  await world.allocate("blue", address, ownerOf(claim));
  await answer(capi, claim, address);
  return claim;
}

export function ownerOf({ metadata, spec }: KubeObject): AllocationOwner {
  const { namespace, name, uid } = metadata;
  const cluster = spec.clusterName === undefined ? {} : { cluster: spec.clusterName as string };
  return { kind: "IPAddressClaim", namespace, name, uid, interface: "", ...cluster };
}

/** The IPAddress that answers a claim. */
export async function answer(capi: ClusterApi, claim: KubeObject, address: string): Promise<KubeObject> {
  const { name, namespace, uid } = claim.metadata;
  const { poolRef } = claim.spec;
  const pool = await capi.readPool(poolRef.name, namespace);
  const owners = [
    { apiVersion: claim.apiVersion, kind: "IPAddressClaim", name, uid, controller: true },
    ...(pool === null
      ? []
      : [{ apiVersion: pool.apiVersion, kind: pool.kind, name: poolRef.name, uid: pool.metadata.uid }]),
  ];
  const [text = "", prefix] = address.split("/");
  return capi.putAddress(
    name,
    { claimRef: { name }, poolRef, address: text, prefix: Number(prefix) },
    {
      namespace,
      ownerReferences: owners,
      annotations: { "ipam.holdfast.dev/allocation": nameOf("blue", address) },
    },
  );
}
