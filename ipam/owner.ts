/**
 * Who an address belongs to. `(kind, uid, interface)` is the identity; `namespace` and `name` are for people
 * and never compared, so that an object created again under its old name is somebody else.
 * See docs/decisions/0015.
 */
export interface Owner {
  readonly kind: "claim" | "pod" | "container";
  /** UID of the IPAMClaim or pod; the container ID for a container outside Kubernetes. */
  readonly uid: string;
  /** Interface name inside the pod or container; "" for a claim. */
  readonly interface: string;
  readonly namespace: string;
  readonly name: string;
}

export function sameOwner(a: Owner, b: Owner): boolean {
  return a.kind === b.kind && a.uid === b.uid && a.interface === b.interface;
}

/** One line that tells an operator who this is: `claim default/vm1`, `pod shop/web-0 (net1)`, `container 3fa9… (eth0)`. */
export function describeOwner(owner: Owner): string {
  switch (owner.kind) {
    case "claim":
      return `claim ${owner.namespace}/${owner.name}`;
    case "pod":
      return `pod ${owner.namespace}/${owner.name} (${owner.interface})`;
    case "container":
      return `container ${owner.uid} (${owner.interface})`;
  }
}
