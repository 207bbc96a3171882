import { newAllocation } from "../../../allocations/allocation-object.ts";
import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import type { ApiServer } from "../../harness/kube-fake/api-server.ts";
import { claimObject } from "../../harness/world/kubevirt-objects.ts";

/** Where everything is. */
export const NAMESPACE = "shop";
export const NETWORKS = 100;

const NADS = `/apis/k8s.cni.cncf.io/v1/namespaces/${NAMESPACE}/network-attachment-definitions`;
const CLAIMS = `/apis/k8s.cni.cncf.io/v1alpha1/namespaces/${NAMESPACE}/ipamclaims`;
const NETWORK_OBJECTS = "/apis/ipam.holdfast.dev/v1alpha1/ipnetworks";
const ALLOCATIONS = "/apis/ipam.holdfast.dev/v1alpha1/ipallocations";
const SINCE = "2025-12-31T00:00:00Z";

/** A network with a /16 of its own; its NAD has the same name. */
export const networkName = (at: number): string => `net-${at}`;

/**
 * In the server's store, as if it had always been there: networks that are imported, and on them so many addresses of
 * VMs that do not run.
 */
export function prepare(server: ApiServer, allocations: number): void {
  server.put("/api/v1/namespaces", { metadata: { name: NAMESPACE }, status: { phase: "Active" } });
  for (let at = 0; at < NETWORKS; at += 1) putNetwork(server, at);
  for (let at = 0; at < allocations; at += 1) putClaim(server, at % NETWORKS, Math.floor(at / NETWORKS));
}

function putNetwork(server: ApiServer, at: number): void {
  const name = networkName(at);
  const ipam = { type: "holdfast-ipam", subnets: `10.${at}.0.0/16` };
  const config = { cniVersion: "1.0.0", name, type: "bridge", allowPersistentIPs: true, ipam };
  const { metadata } = server.put(NADS, {
    metadata: { name, generation: 1 },
    spec: { config: JSON.stringify(config) },
  });
  const imported = {
    type: "Imported",
    status: "True",
    reason: "Imported",
    message: "",
    lastTransitionTime: SINCE,
  };
  server.put(NETWORK_OBJECTS, {
    metadata: { name, finalizers: ["ipam.holdfast.dev/network"] },
    spec: { network: name, definedIn: NAMESPACE },
    status: {
      importedFrom: [{ definition: `${NAMESPACE}/${name}`, uid: metadata.uid, generation: 1 }],
      conditions: [imported],
    },
  });
}

/** A claim of the network with its address, the `index`-th of the subnet. */
function putClaim(server: ApiServer, at: number, index: number): void {
  const network = networkName(at);
  const address = `10.${at}.${index >> 8}.${index & 255}/16`;
  const vm = {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    name: `vm-${at}-${index}`,
    uid: `${at}-${index}`,
  };
  const object = claimObject(
    { namespace: NAMESPACE, name: vm.name },
    { name: `${vm.name}.${network}`, network, owner: vm },
  );
  const { metadata } = server.put(CLAIMS, { ...object, status: { ips: [address] } });
  const { name, uid } = metadata;
  const owner = { kind: "IPAMClaim", namespace: NAMESPACE, name, uid, interface: "" } as const;
  const holder = { owner, attachment: null };
  server.put(ALLOCATIONS, newAllocation(network, parseInterfaceAddress(address), holder, SINCE));
}
