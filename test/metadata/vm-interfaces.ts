import type { IdentityInterface, IdentityView } from "../../identity/wire.ts";
import { hashedInterface, projectVmi } from "../../kube/views/vmi-view.ts";
import { instanceOf } from "../../metadata/tenant/instance-of.ts";
import type { TenantView } from "../../metadata/tenant/tenant-source.ts";
import { linksOf } from "../../metadata/tenant/vm-links.ts";

/** The pod network; two of ours; one of another IPAM, or of none. */
export const OWNERS = ["default", "blue", "red", "data"] as const;
export type OwnerOfNetwork = (typeof OWNERS)[number];

export const MACS: Readonly<Record<OwnerOfNetwork, string>> = {
  default: "02:00:00:00:00:01",
  blue: "02:00:00:00:00:02",
  red: "02:00:00:00:00:03",
  data: "02:00:00:00:00:04",
};

const ADDRESSES = {
  blue: [
    { address: "192.168.10.5/24", gateway: "192.168.10.1" },
    { address: "fd10::5/64", gateway: "fd10::1" },
  ],
  red: [{ address: "10.9.0.7/16", gateway: "10.9.0.1" }],
};

/** A VirtualMachineInstance with these interfaces, as KubeVirt has it once the guest runs. */
export function vmiOf(owners: readonly OwnerOfNetwork[]) {
  const interfaces: { name: string; masquerade?: object; bridge?: object }[] = owners.map((name) =>
    name === "default" ? { name, masquerade: {} } : { name, bridge: {} },
  );
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    metadata: {
      namespace: "shop",
      name: "web",
      uid: "vmi-1",
      resourceVersion: "1",
      creationTimestamp: "2026-01-01T00:00:00Z",
    },
    spec: {
      domain: { devices: { interfaces } },
      networks: owners.map((name) =>
        name === "default" ? { name, pod: {} } : { name, multus: { networkName: `shop/${name}` } },
      ),
    },
    status: { interfaces: owners.map((name) => ({ name, mac: MACS[name] })) },
  };
}

/** What the daemon knows of that VM: what is allocated to it here. */
export function identityOf(owners: readonly OwnerOfNetwork[]): IdentityView {
  const ours = owners.filter((owner) => owner === "blue" || owner === "red");
  return {
    state: "running",
    vm: { namespace: "shop", name: "web", uid: "vm-1", vmiUid: "vmi-1", firmwareUuid: null },
    pods: [],
    interfaces: ours.map(
      (network): IdentityInterface => ({
        network,
        interface: hashedInterface(network),
        owner: {
          kind: "claim",
          uid: `c-${network}`,
          interface: "",
          namespace: "shop",
          name: `web.${network}`,
        },
        claim: `shop/web.${network}`,
        addresses: ADDRESSES[network],
        mac: null,
        mtu: null,
        routes: [],
        dns: {},
        metadata: null,
        source: "holdfast",
      }),
    ),
  };
}

/** A VM about which its owner says nothing. */
export const NOTHING: TenantView = {
  firmwareUuid: null,
  networkDocument: null,
  hostname: null,
  publicIPv4: null,
  publicHostname: null,
  projectId: null,
  links: [],
  publicKeys: [],
  userData: null,
  vendorData: null,
  meta: {},
  availabilityZone: null,
  instanceType: null,
  rootDevice: null,
  password: null,
};

/** The VM's interfaces, and what its guest is told of them. */
export function guestOf(owners: readonly OwnerOfNetwork[]) {
  const identity = identityOf(owners);
  const links = linksOf(projectVmi(vmiOf(owners)), identity);
  return { identity, links, instance: instanceOf(identity, { ...NOTHING, links }) };
}
