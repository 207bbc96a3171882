import type { LeaseHolder } from "../../ipam/definition/host-local-lease.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import type { Owner } from "../../ipam/owner.ts";
import { type Address, formatAddress } from "../../ipam/space/address.ts";
import type { Lease } from "./lease-files.ts";

/** What a lease of host-local is to Holdfast. */
export type LeaseVerdict =
  /** Nobody has the address: to be recorded. */
  | { readonly kind: "free" }
  /** Recorded just now. */
  | { readonly kind: "taken" }
  /** Its container has the address here. */
  | { readonly kind: "recorded" }
  /** Its container has ended here, and only the file is left. */
  | { readonly kind: "ended" }
  /**
   * Somebody else has the address. `byItsPod`: a pod that was recorded while it ran, before any container of it was known
   * here. The container in the file is that pod's, as far as anybody can tell: files of host-local's do not name pods.
   */
  | { readonly kind: "other"; readonly holder: Owner; readonly byItsPod?: boolean }
  /** In no subnet of the network, so not ours to give. */
  | { readonly kind: "outside" }
  /** Nothing defines the network, so nobody can tell. */
  | { readonly kind: "undefined" };

/** A lease that was recorded. */
export interface RecordedLease {
  readonly address: Address;
  readonly path: string;
  readonly fileId: string;
  readonly containerId: string;
  readonly interface: string;
}

/** Where leases are recorded: the truth of this node, or of the cluster with this node's journal. */
export interface LeaseBook {
  /** Networks that have a definition here. */
  definitions(): readonly NetworkDefinition[];
  /** Folders that were read before, also by an earlier process. */
  folders(): readonly { readonly network: string; readonly folder: string }[];
  /** Whether containers of a network were taken over, and nothing is known of the folder: the journal was lost, and began anew. */
  hasForgotten(network: string): boolean;
  /** Whether somebody who had the address of a lease may have released it: asked at every ADD, so at no cost. */
  mayBeFree(definition: NetworkDefinition, lease: Lease): boolean;
  /** Whether containers that were taken over from the folder have not ended. */
  isInUse(network: string, folder: string): boolean;
  /** Remembers for good that the folder was read and everything in it recorded. */
  remember(network: string, folder: string): Promise<void>;
  /** Changes nothing. */
  judge(definition: NetworkDefinition, lease: Lease): Promise<LeaseVerdict>;
  /** Records the free ones of the leases of one holder, all at once. Harmless when done twice. The verdicts are in their order. */
  take(definition: NetworkDefinition, holder: LeaseHolder, leases: readonly Lease[]): Promise<LeaseVerdict[]>;
  /**
   * Ends containers whose files are all gone from a folder that could be read, `present` being path → lease. A file that was
   * written anew for the same container is not gone, nor is one that named nobody. Returns the recorded leases whose
   * container has ended here although its file is there.
   */
  settle(network: string, folder: string, present: ReadonlyMap<string, Lease>): Promise<RecordedLease[]>;
}

/** Who has a lease: its container, or the file itself where it names none. Such a holder ends with the file only. */
export function holderOf(lease: Lease): LeaseHolder {
  return lease.holder ?? unknownHolder(lease.address);
}

export function unknownHolder(address: Address): LeaseHolder {
  return { containerId: `host-local-${formatAddress(address).replaceAll(":", "-")}`, interface: "" };
}

/** Whether an owner is the container of a lease. Older versions of host-local did not record the interface. */
export function isHeldBy(owner: Owner, holder: LeaseHolder): boolean {
  if (owner.kind !== "container" || owner.uid !== holder.containerId) return false;
  return owner.interface === "" || holder.interface === "" || owner.interface === holder.interface;
}
