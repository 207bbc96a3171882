import type { NetworkWithClaims } from "../admin/admin-api.ts";
import type { Problem } from "../admin/following.ts";
import type { AllocationView, AttachmentView } from "../allocations/records.ts";

/*
 * What `holdfast ui` sends to its page, over one stream of events. An allocation is a list instead of an object:
 * 100,000 of them are parsed in slices of a few milliseconds.
 */

/** Enough of a container's ID to find it; rows are many. */
export const CONTAINER_CHARS = 16;

/** Kind (of ipam/owner.ts), namespace, name, the beginning of a container's ID (others: ""), interface. */
export type OwnerRow = readonly [kind: string, namespace: string, name: string, container: string, ifname: string];

/** An interface that uses the address. Texts are "" where there is nothing. */
export type UseRow = readonly [
  /** Its beginning. */
  containerID: string,
  ifname: string,
  node: string,
  podNamespace: string,
  podName: string,
  since: string,
  /** As it was requested with the ADD. */
  mac: string,
];

/** Times are RFC 3339. */
export type AllocationRow = readonly [
  network: string,
  /** With the prefix length of its subnet. */
  address: string,
  state: "Bound" | "Retained" | "Cooling",
  owner: OwnerRow,
  /** The name of the virtual machine; "": none. */
  vm: string,
  since: string,
  /** Of a Retained address: until when it is reserved. */
  until: string,
  uses: readonly UseRow[],
];

/** Why nothing new arrives, and since when (RFC 3339). */
export type StaleSince = Problem & { readonly since: string };

export interface StreamEvents {
  /** The first one. `from`: the socket, or the API server. `node`: of the daemon; "" of a cluster. */
  readonly hello: {
    readonly kind: "node" | "cluster";
    readonly from: string;
    readonly version: string;
    readonly node: string;
  };
  /** All of them, whenever one has changed. */
  readonly networks: readonly NetworkWithClaims[];
  /** New and changed allocations, and those that are gone. */
  readonly rows: {
    readonly rows: readonly AllocationRow[];
    readonly gone: readonly (readonly [network: string, address: string])[];
  };
  /** Everything that is there has been sent; rows after it are news. */
  readonly synced: { readonly rows: number };
  /** The source does not answer, or does again (null). */
  readonly source: StaleSince | null;
}

export function rowOf(view: AllocationView): AllocationRow {
  const { network, address, state, owner, vm, since, retainedUntil = "", attachments } = view;
  const { kind, namespace, name, uid, interface: ifname } = owner;
  const container = kind === "container" ? uid.slice(0, CONTAINER_CHARS) : "";
  const holder: OwnerRow = [kind, namespace, name, container, ifname];
  return [network, address, state, holder, vm?.name ?? "", since, retainedUntil, attachments.map(useOf)];
}

function useOf({ containerID, interface: ifname, node, pod, since, mac = "" }: AttachmentView): UseRow {
  return [containerID.slice(0, CONTAINER_CHARS), ifname, node, pod?.namespace ?? "", pod?.name ?? "", since, mac];
}
