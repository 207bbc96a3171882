import { type Address, parseAddress } from "../ipam/space/address.ts";
import type { IPAllocation } from "../kube/objects.ts";
import { soundAddress } from "../store/cluster/allocations/allocation-object.ts";

/** Whose records count as a pod's. */
interface RecordedPod {
  readonly namespace: string;
  readonly uid: string;
  readonly staticUid: string | null;
  /** Claims of its namespace that it names. */
  readonly claims: readonly string[];
}

/**
 * What pods have on each network, and claims by their names, as far as it is known: a pod that changes its annotations again and
 * again gets no more than once.
 */
export class OwnerRecords {
  readonly #byOwner = new Map<string, Address[]>();

  /** `address`: its address where that is known, null where it is not sound. */
  add(object: IPAllocation, address: string | null = soundAddress(object)): void {
    if (address === null || object.status?.state !== "Bound") return;
    const { network, owner } = object.spec;
    if (owner.kind === "Container") return;
    const key = `${network} ${owner.kind === "Pod" ? owner.uid : `${owner.namespace}/${owner.name}`}`;
    const known = this.#byOwner.get(key);
    if (known === undefined) this.#byOwner.set(key, [parseAddress(address)]);
    else known.push(parseAddress(address));
  }

  /** The list has begun anew. */
  forget(): void {
    this.#byOwner.clear();
  }

  of(network: string, { namespace, uid, staticUid, claims }: RecordedPod): Address[] {
    const owners = [uid, staticUid ?? uid, ...claims.map((name) => `${namespace}/${name}`)];
    return [...new Set(owners)].flatMap((owner) => this.#byOwner.get(`${network} ${owner}`) ?? []);
  }
}
