/** A machine with a certain address. */
import { expect } from "vitest";
import type { AllocationOwner } from "../../kube/objects.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import type { ClusterApi } from "../harness/machines/cluster-api.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import type { World } from "../harness/world/world.ts";

export interface MachineParts {
  readonly namespace?: string;
  /** Its Cluster; default: none. */
  readonly cluster?: string;
  /** Default: as its claim. */
  readonly pool?: string;
}

/**
 * Its IPAddress, and its claim, once the controller has recorded and answered them. `address` with its prefix length.
 */
export async function machine(
  world: World,
  capi: ClusterApi,
  name: string,
  address: string,
  { namespace = NAMESPACE, cluster, pool = "blue" }: MachineParts = {},
): Promise<KubeObject> {
  const [text = "", prefix] = address.split("/");
  const poolRef = { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: pool };
  const spec = { claimRef: { name }, poolRef, address: text, prefix: Number(prefix) };
  await capi.putAddress(name, spec, { namespace });
  const claim = await capi.claim(name, pool, { namespace, ...(cluster === undefined ? {} : { cluster }) });
  expect(await capi.fulfilled(name, namespace)).toBe(address);
  await world.until(
    async () => (await world.allocation("blue", address))?.spec.owner.uid === claim.metadata.uid,
    `${address} to be recorded for ${name}`,
  );
  return claim;
}

export function ownerOf({ metadata, spec }: KubeObject): AllocationOwner {
  const { namespace, name, uid } = metadata;
  const cluster = spec.clusterName === undefined ? {} : { cluster: spec.clusterName as string };
  return { kind: "IPAddressClaim", namespace, name, uid, interface: "", ...cluster };
}
