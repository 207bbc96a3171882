import type { AnsweredAddress } from "../allocations/records.ts";
import type { Dns, Route } from "../ipam/definition/routes-and-dns.ts";
import type { Owner } from "../ipam/owner.ts";

/** Answer of `GET /v1/identity`. */
export interface IdentityAnswer {
  /** The requested network, or the only one with the address; null for a request about a pod, VM or container. */
  readonly network: string | null;
  readonly identity: IdentityView;
}

/** The identity behind an address: one VM, one pod, or one container. The pods of a migrating VM are one identity. */
export interface IdentityView {
  /**
   * running: it has a pod or container. migrating: two pods of one VM. stopped: a claim holds the addresses and nothing
   * uses them. released-recently: the address is cooling down; this is its former holder.
   */
  readonly state: "running" | "migrating" | "stopped" | "released-recently";
  readonly vm: IdentityVm | null;
  /** Containers that use the addresses now; those of other nodes only in an answer for the whole cluster. */
  readonly pods: readonly IdentityPod[];
  /** One for each network and interface, in the order in which they were attached. */
  readonly interfaces: readonly IdentityInterface[];
}

export interface IdentityVm {
  readonly namespace: string;
  readonly name: string;
  /** UID of the VirtualMachine; "" where only a VirtualMachineInstance is known. */
  readonly uid: string;
  /** UID of the running VirtualMachineInstance; null: not known or none. */
  readonly vmiUid: string | null;
  /** As the guest's SMBIOS shows it, lower-case; null: not known. */
  readonly firmwareUuid: string | null;
}

/** A container that uses the addresses, with its pod, if it has one. */
export interface IdentityPod {
  readonly namespace: string | null;
  readonly name: string | null;
  readonly uid: string | null;
  readonly node: string;
  readonly containerID: string;
  /** RFC 3339. */
  readonly since: string;
}

/** Where guests ask, on every network. */
export const METADATA_ADDRESS = "169.254.169.254";

export interface IdentityInterface {
  readonly network: string;
  /** Name in the pod, `net1`; null while nothing runs. */
  readonly interface: string | null;
  readonly owner: Owner;
  /** `namespace/name`; null: no claim. */
  readonly claim: string | null;
  readonly addresses: readonly AnsweredAddress[];
  /** What the running VM asks for on it by annotation, without prefix length; absent: nothing, or not known here. */
  readonly asked?: readonly string[];
  /** As requested; null: not known here. */
  readonly mac: string | null;
  /** null: not known. */
  readonly mtu: number | null;
  readonly routes: readonly Route[];
  readonly dns: Dns;
  /** null: the network has no metadata, or no definition any more. */
  readonly metadata: {
    readonly address: string;
    readonly tokens: "off" | "optional" | "required";
  } | null;
  /** The component that allocated the addresses. */
  readonly source: "holdfast" | "ovn-kubernetes";
}
