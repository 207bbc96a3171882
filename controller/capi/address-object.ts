import { isDeepStrictEqual } from "node:util";
import { CLUSTER_NAME_LABEL } from "../../kube/cluster-api.ts";
import { ANNOTATION_ALLOCATION, API_VERSION, type OwnerReference } from "../../kube/objects.ts";
import type { AddressPoolView } from "../../kube/views/address-pool-view.ts";
import type { MachineAddressView, MachineClaimView } from "../../kube/views/machine-claim-view.ts";

export interface SentAddress {
  /** Of IPAddresses, as they are served now. */
  readonly apiVersion: string;
  /** Canonical. */
  readonly address: string;
  readonly prefix: number;
  /** null: there is none. */
  readonly gateway: string | null;
  /** Name of the IPAllocation. */
  readonly allocation: string;
}

/** Those that an IPAddress belongs to. `apiVersion`: of the claim, as it was read. */
export interface AddressOwners {
  readonly claim: MachineClaimView;
  readonly apiVersion: string;
  readonly pool: Pick<AddressPoolView, "name" | "uid">;
}

/** Whether an IPAddress answers a claim, whoever made it: it names the claim and the claim's pool. */
export function answers({ claim, pool }: MachineAddressView, wanted: MachineClaimView): boolean {
  return claim === wanted.name && isDeepStrictEqual(pool, wanted.pool);
}

/** It has no finalizer: the IPAllocation protects the address, and nothing of Cluster API's shall wait for Holdfast. */
export function addressObject(owners: AddressOwners, sent: SentAddress): object {
  const { claim } = owners;
  const { apiVersion, address, prefix, gateway, allocation } = sent;
  return {
    apiVersion,
    kind: "IPAddress",
    metadata: {
      name: claim.name,
      namespace: claim.namespace,
      ...(claim.cluster === null ? {} : { labels: { [CLUSTER_NAME_LABEL]: claim.cluster } }),
      annotations: { [ANNOTATION_ALLOCATION]: allocation },
      ownerReferences: [claimReference(owners), poolReference(owners)],
    },
    spec: {
      claimRef: { name: claim.name },
      poolRef: claim.pool,
      address,
      prefix,
      ...(gateway === null ? {} : { gateway }),
    },
  };
}

/**
 * The merge patch that gives an IPAddress the metadata of ours, at the version that was read; null: it has it. The spec
 * never changes, and owners, labels and annotations of others stay. `pool` null: only the claim's part is compared.
 */
export function addressPatch(
  known: MachineAddressView,
  owners: Omit<AddressOwners, "pool"> & { readonly pool: AddressOwners["pool"] | null },
  allocation: string,
): object | null {
  const { claim, pool } = owners;
  const wanted = [claimReference(owners), ...(pool === null ? [] : [poolReference({ ...owners, pool })])];
  const missing = wanted.filter((one) => !known.owners.some((other) => isSame(other, one)));
  const labelled = claim.cluster === null || known.labels.get(CLUSTER_NAME_LABEL) === claim.cluster;
  const named = known.annotations.get(ANNOTATION_ALLOCATION) === allocation;
  if (missing.length === 0 && labelled && named) return null;
  // A former claim or pool of the name is no owner any more.
  const others = known.owners.filter((one) => !missing.some((other) => isOfName(one, other)));
  const isControlled = others.some(({ controller }) => controller === true);
  const added = missing.map((one) => (isControlled && one.controller ? { ...one, controller: false } : one));
  return {
    metadata: {
      resourceVersion: known.resourceVersion,
      ...(missing.length === 0 ? {} : { ownerReferences: [...others, ...added] }),
      ...(labelled ? {} : { labels: { [CLUSTER_NAME_LABEL]: claim.cluster } }),
      ...(named ? {} : { annotations: { [ANNOTATION_ALLOCATION]: allocation } }),
    },
  };
}

type FullReference = OwnerReference & { readonly blockOwnerDeletion: boolean };

function claimReference({ claim, apiVersion }: Pick<AddressOwners, "claim" | "apiVersion">): FullReference {
  const { name, uid } = claim;
  return { apiVersion, kind: "IPAddressClaim", name, uid, controller: true, blockOwnerDeletion: true };
}

function poolReference({ pool: { name, uid } }: Pick<AddressOwners, "pool">): FullReference {
  const apiVersion = API_VERSION;
  return { apiVersion, kind: "AddressPool", name, uid, controller: false, blockOwnerDeletion: true };
}

/** Whichever version of the kind it names. */
function isSame(a: OwnerReference, b: OwnerReference): boolean {
  return isOfName(a, b) && a.uid === b.uid;
}

function isOfName(a: OwnerReference, b: OwnerReference): boolean {
  return a.kind === b.kind && a.name === b.name && groupOf(a) === groupOf(b);
}

function groupOf({ apiVersion }: OwnerReference): string {
  return String(apiVersion).split("/")[0] ?? "";
}
