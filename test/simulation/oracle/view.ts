/** An object of the API as JSON has it. */
// biome-ignore lint/suspicious/noExplicitAny: objects of every kind
export type PlainObject = any;

/** One write, as etcd tells it. */
export interface PlainChange {
  readonly storage: string;
  readonly key: string;
  readonly object: PlainObject;
  readonly previous: PlainObject | null;
  readonly deleted: boolean;
}

/** What the oracle needs of etcd: it reads, and hears of every write. */
export interface PlainStore {
  readonly revision: number;
  /** How often it went back to what was saved; then nobody hears what has changed. */
  readonly restores: number;
  get(storage: string, key: string): PlainObject | null;
  range(storage: string, prefix: string): { readonly key: string; readonly object: PlainObject }[];
  listen(listener: (change: PlainChange) => void): void;
}

export const ALLOCATIONS = "ipam.holdfast.dev/ipallocations";
export const NETWORKS = "ipam.holdfast.dev/ipnetworks";
export const CLAIMS = "k8s.cni.cncf.io/ipamclaims";
export const PODS = "/pods";
export const NADS = "k8s.cni.cncf.io/network-attachment-definitions";
export const NODES = "/nodes";
export const LEASES = "coordination.k8s.io/leases";
export const VMIS = "kubevirt.io/virtualmachineinstances";
export const VMS = "kubevirt.io/virtualmachines";
