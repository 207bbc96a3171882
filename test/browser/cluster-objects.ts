import { cooled, newAllocation } from "../../allocations/allocation-object.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ALLOCATIONS_PATH, type AllocationAttachment, attachmentKey, type IPAllocation } from "../../kube/objects.ts";
import type { MemoryCluster } from "../harness/world/memory-cluster.ts";
import { NAMESPACE, nad } from "./ui-of-daemon.ts";

const TIME = "2026-01-01T00:00:00.000Z";
const CLAIMS_PATH = `/apis/k8s.cni.cncf.io/v1alpha1/namespaces/${NAMESPACE}/ipamclaims`;
const NADS_PATH = `/apis/k8s.cni.cncf.io/v1/namespaces/${NAMESPACE}/network-attachment-definitions`;

/** A pod's sandbox on a node. */
export function usedBy(node: string, containerID: string, pod: string): AllocationAttachment {
  return {
    ...{ containerID, interface: "net1", node, since: TIME },
    pod: { namespace: NAMESPACE, name: pod, uid: `uid-${pod}` },
  };
}

/** An address that a VM's claim holds. */
export function held(
  network: string,
  address: string,
  vm: string,
  uses: readonly AllocationAttachment[] = [],
): IPAllocation {
  const name = `${vm}.${network}`;
  const owner = { kind: "IPAMClaim", namespace: NAMESPACE, name, uid: `uid-${name}`, interface: "" } as const;
  const holder = { owner, vm: { name: vm, uid: `uid-${vm}` }, attachment: null };
  const object = newAllocation(network, parseInterfaceAddress(address), holder, TIME) as IPAllocation;
  const attachments = Object.fromEntries(uses.map((one) => [attachmentKey(one.containerID, one.interface), one]));
  return { ...object, status: { ...object.status, attachments, node: uses[0]?.node ?? "" } };
}

/** An address that was a VM's a moment ago. */
export function rests(network: string, address: string, vm = "former"): IPAllocation {
  return cooled(held(network, address, vm), new Date().toISOString()) as IPAllocation;
}

/** Puts allocations into a cluster as somebody with every right may write them: nobody checks them. */
export function putAllocations(cluster: MemoryCluster, objects: readonly IPAllocation[]): void {
  for (const one of inOrder(objects)) cluster.objects.put(ALLOCATIONS_PATH, one);
}

/** The claims that allocations are of. Without their VMs, which the cluster's garbage collector would look for. */
export function putClaimsOf(cluster: MemoryCluster, objects: readonly IPAllocation[]): void {
  const claims = objects.map(({ spec: { owner, network, address } }) => ({
    metadata: { name: owner.name, uid: owner.uid },
    spec: { network, interface: "net1" },
    status: { ips: [address] },
  }));
  for (const one of inOrder(claims)) cluster.objects.put(CLAIMS_PATH, one);
}

/** As the server lists them: it sorts what is in order already much faster, for each page of a list. */
function inOrder<T extends { readonly metadata: { readonly name: string } }>(objects: readonly T[]): T[] {
  return objects.toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
}

/** A network with its definition. */
export function putNetwork(cluster: MemoryCluster, name: string, ipam: object): void {
  cluster.objects.put(NADS_PATH, nad(name, ipam));
}
