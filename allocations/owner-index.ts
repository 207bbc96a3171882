import { isMachine, knownKindOf, OWNER_KINDS, type Owner } from "../ipam/owner.ts";
import type { IPAllocation } from "../kube/objects.ts";
import { isSound } from "./allocation-object.ts";
import { fromAllocationOwner } from "./owners.ts";

/**
 * Allocations of machines by owner, kept in step with a followed copy of all. An owner that takes over by name is found
 * together with those that it succeeds. Of any other allocation, of which there may be a hundred thousand, nothing is
 * kept.
 */
export class OwnerIndex {
  readonly #byOwner = new Map<string, Map<string, IPAllocation>>();
  /** The key under which an allocation is found, by its name. */
  readonly #keys = new Map<string, string>();

  /** Allocations of this very owner, and of those of its name where it succeeds them; on all networks. */
  of(owner: Owner): IPAllocation[] {
    return [...(this.#byOwner.get(keyOf(owner))?.values() ?? [])];
  }

  put(object: IPAllocation): void {
    const { name } = object.metadata;
    this.remove(name);
    const kind = knownKindOf(object.spec?.owner?.kind);
    if (kind === undefined || !isMachine(kind) || !isSound(object)) return;
    const key = keyOf(fromAllocationOwner(object.spec.owner));
    this.#keys.set(name, key);
    const known = this.#byOwner.get(key);
    if (known) known.set(name, object);
    else this.#byOwner.set(key, new Map([[name, object]]));
  }

  remove(name: string): void {
    const key = this.#keys.get(name);
    if (key === undefined) return;
    this.#keys.delete(name);
    const known = this.#byOwner.get(key);
    known?.delete(name);
    if (known?.size === 0) this.#byOwner.delete(key);
  }
}

function keyOf({ kind, uid, interface: interfaceName, namespace, name }: Owner): string {
  return OWNER_KINDS[kind].succeededByName
    ? `${kind} ${namespace}/${name} ${interfaceName}`
    : `${kind} ${uid} ${interfaceName}`;
}
