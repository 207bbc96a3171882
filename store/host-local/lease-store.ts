/*
 * store/host-local/: what host-local gave on this node before its networks were ours
 *
 *   takeover                     records what its directories hold, and follows them
 *   data-dir, machine-paths      which directory that is, and whether something hides it from the daemon
 *   lease-files                  the files of a directory
 *   lease-store                  where leases are recorded; the port
 *   record-leases                recording them in slices, each with its verdict
 *   report                       what import and check say
 */
import type { LeaseHolder } from "../../ipam/definition/host-local-lease.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import type { Owner } from "../../ipam/owner.ts";
import { type Address, formatAddress } from "../../ipam/space/address.ts";
import type { Lease } from "./lease-files.ts";

export type LeaseVerdict =
  | { readonly kind: "free" }
  /** Just recorded. */
  | { readonly kind: "taken" }
  /** Its container has the address here. */
  | { readonly kind: "recorded" }
  /** Its container has ended here; only the file is left. */
  | { readonly kind: "ended" }
  | { readonly kind: "other"; readonly holder: Owner }
  /** In no subnet of the network, so not ours to allocate. */
  | { readonly kind: "outside" }
  /** The network has no definition, so the address cannot be judged. */
  | { readonly kind: "undefined" };

export interface RecordedLease {
  readonly address: Address;
  readonly path: string;
  readonly fileId: string;
  readonly containerId: string;
  readonly interface: string;
}

export interface LeaseStore {
  /** Networks that have a definition here. */
  definitions(): readonly NetworkDefinition[];
  /** Directories of a network that were read before, also by an earlier process. */
  directories(network: string): readonly string[];
  /** Whether the owner of a lease's address may have released it. Called at every ADD, so it must be cheap. */
  mayBeFree(definition: NetworkDefinition, lease: Lease): boolean;
  /** Whether containers that were taken over from the directory are still attached. */
  isInUse(network: string, directory: string): boolean;
  /** Remembers for good that the directory was read and everything in it recorded. */
  remember(network: string, directory: string): Promise<void>;
  /** Changes nothing. */
  judge(definition: NetworkDefinition, lease: Lease): Promise<LeaseVerdict>;
  /** Records the free ones at once. May be repeated. The verdicts are in the order of the holders and their leases. */
  take(
    definition: NetworkDefinition,
    groups: readonly (readonly [LeaseHolder, readonly Lease[]])[],
  ): Promise<LeaseVerdict[][]>;
  /**
   * Ends containers whose files are all gone from a directory that could be read; `present` maps path → lease. A file
   * written again for the same container is not gone, nor is one that named nobody. Returns the recorded leases whose
   * container has ended here although its file exists.
   */
  settle(network: string, directory: string, present: ReadonlyMap<string, Lease>): Promise<RecordedLease[]>;
}

/** The holder of a lease: its container, or the file itself if it names none. Such a holder ends only with the file. */
export function leaseHolderOf(lease: Lease): LeaseHolder {
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
