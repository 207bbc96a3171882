import { soundAddress } from "../allocations/allocation-object.ts";
import { type Address, parseAddress } from "../ipam/space/address.ts";
import type { IPAllocation } from "../kube/objects.ts";

/** The owners whose records count as a pod's. */
interface RecordedPod {
  readonly namespace: string;
  readonly uid: string;
  readonly staticUid: string | null;
  /** Claims of its namespace that it names. */
  readonly claims: readonly string[];
}

/** Recorded addresses of pods on each network, and claims by name: they limit a pod that keeps changing annotations. */
export class OwnerRecords {
  readonly #byOwner = new Map<string, Address[]>();

  /** `address`: the address if it is known, null if it is malformed. */
  add(object: IPAllocation, address: string | null = soundAddress(object)): void {
    if (address === null || object.status?.state !== "Bound") return;
    const { network, owner } = object.spec;
    if (owner.kind === "Container") return;
    const key = `${network} ${owner.kind === "Pod" ? owner.uid : `${owner.namespace}/${owner.name}`}`;
    const known = this.#byOwner.get(key);
    if (known === undefined) this.#byOwner.set(key, [parseAddress(address)]);
    else known.push(parseAddress(address));
  }

  /** The list is read again from the start. */
  forget(): void {
    this.#byOwner.clear();
  }

  of(network: string, { namespace, uid, staticUid, claims }: RecordedPod): Address[] {
    const owners = [uid, staticUid ?? uid, ...claims.map((name) => `${namespace}/${name}`)];
    return [...new Set(owners)].flatMap((owner) => this.#byOwner.get(`${network} ${owner}`) ?? []);
  }
}
