import type { Buffer } from "node:buffer";
import type { Dns, Route } from "../../ipam/definition/routes-and-dns.ts";
import type { Address } from "../../ipam/space/address.ts";
import type { InterfaceAddress } from "../../ipam/space/cidr.ts";
import type { NetworkDocument } from "./machine-template.ts";

/** What is known of one VM and may be told to it. Plain data: gathered by the caller, afresh for each request. */
export interface Instance {
  /** The firmware UUID, lower-case, as in the SMBIOS: cloud-init then trusts its cache on a reboot without network. */
  readonly uuid: string;
  readonly name: string;
  readonly namespace: string;
  /** What the guest shall call itself: a label or a fully qualified name. */
  readonly hostname: string;
  /** Where it is reached from outside, as its owner says; null: not known. */
  readonly publicIPv4: string | null;
  readonly publicHostname: string | null;
  /** The tenant: UID of the namespace, or what its annotation says instead. */
  readonly projectId: string;
  /** In the order of the VM's interfaces. */
  readonly networks: readonly InstanceNetwork[];
  readonly publicKeys: readonly PublicKey[];
  /** Passed on byte for byte: may be compressed. null: none. */
  readonly userData: Buffer | null;
  /** What cloud-init takes from the operator in addition: cloud-config or a script. null: none. */
  readonly vendorData: string | null;
  /** network_data.json as a Metal3DataTemplate says it; null: it follows from `networks`. */
  readonly networkDocument: NetworkDocument | null;
  readonly meta: Readonly<Record<string, string>>;
  /** Which of several VMs that were made together, from 0. */
  readonly launchIndex: number;
  /** null: not known, and then left out or, where a client needs it, `nova`. */
  readonly availabilityZone: string | null;
  readonly instanceType: string | null;
  /** The disk that the guest boots from, as `/dev/vda`. null: not known. */
  readonly rootDevice: string | null;
  /** What the guest once sent as its encrypted password. null: no passwords are kept here. */
  readonly password: { readonly stored: Buffer | null } | null;
}

/** allocated: by Holdfast, as listed. dhcp: by a server, as on the pod network. unknown: by others; none listed. */
type Addressing = "allocated" | "dhcp" | "unknown";

export interface InstanceNetwork {
  /** The network's name, as its definition and claims have it. */
  readonly network: string;
  /** Unique within the VM and stable: the name of its interface or network in the VM's specification. */
  readonly linkId: string;
  /** In any of the usual spellings. null: not known; such a link is not described to the guest. */
  readonly mac: string | null;
  readonly mtu: number | null;
  readonly addressing: Addressing;
  readonly addresses: readonly InstanceAddress[];
  /** As in the CNI result: without `gw`, the gateway of the interface's address of that family is meant. */
  readonly routes: readonly Route[];
  readonly dns: Dns;
  /** The interface that carries the default route when no route and no DHCP server says so. At most one. */
  readonly primary: boolean;
}

export interface InstanceAddress {
  readonly address: InterfaceAddress;
  readonly gateway: Address | null;
}

/** An SSH public key: one line in the form of `authorized_keys`. */
export interface PublicKey {
  readonly name: string;
  readonly data: string;
}

/** The first IPv4 address, that of the primary interface before others. null: the VM has none. */
export function firstIPv4(instance: Instance): Address | null {
  const inOrder = [...instance.networks].sort((a, b) => Number(b.primary) - Number(a.primary));
  for (const { addresses } of inOrder) {
    for (const { address } of addresses) if (address.address.family === 4) return address.address;
  }
  return null;
}

/** Keys as guests get them: each on one line, under a name of its own that fits a line of a listing. No empty ones. */
export function tidyKeys(keys: readonly PublicKey[]): readonly PublicKey[] {
  const names = new Set<string>();
  return keys
    .map(({ name, data }) => ({ name: onOneLine(name) || "key", data: onOneLine(data) }))
    .filter(({ data }) => data !== "")
    .map(({ name, data }) => {
      let unique = name;
      for (let n = 2; names.has(unique); n++) unique = `${name}-${n}`;
      names.add(unique);
      return { name: unique, data };
    });
}

function onOneLine(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a line break in a key's name would forge an entry of a listing
  return text.replaceAll(/[\u0000-\u0020\u007f-\u00a0\u2028\u2029]+/g, " ").trim();
}
