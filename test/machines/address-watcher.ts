import type { KubeObject } from "../harness/kube-api.ts";
import type { ApiServer } from "../harness/kube-fake/api-server.ts";
import type { Change } from "../harness/kube-fake/etcd.ts";

const ADDRESSES = "ipam.cluster.x-k8s.io/ipaddresses";
const CLAIMS = "ipam.cluster.x-k8s.io/ipaddressclaims";
const ALLOCATIONS = "ipam.holdfast.dev/ipallocations";
const ALLOCATION = "ipam.holdfast.dev/allocation";

/** Looks at the IPAddresses of one network after every write of anybody to the server in memory. */
export class AddressWatcher {
  readonly faults: string[] = [];
  /**
   * What one controller never does. Two that lead at once, which the lease prevents, may: one reserves, tells or
   * releases while the other does. No address is two claims' by that, and what is left is withdrawn or told again.
   */
  readonly races: string[] = [];
  /** IPAddresses that were created. */
  told = 0;
  readonly #server: ApiServer;
  /** By the claim's UID. */
  readonly #addresses = new Map<string, string>();
  /** UIDs of IPAddresses whose claim had gone when they came. */
  readonly #late = new Set<string>();

  constructor(server: ApiServer) {
    this.#server = server;
    server.etcd.listen((change) => this.#look(change));
  }

  #look(change: Change): void {
    if (change.storage === ADDRESSES && !change.deleted) this.#lookAtAddress(change);
    if (change.storage === ALLOCATIONS) this.#lookAtAllocation(change);
  }

  #lookAtAddress({ object, previous }: Change): void {
    const { uid: ownUid, name, annotations, ownerReferences = [] } = object.metadata;
    const { address } = object.spec;
    const uid = ownerReferences.find(({ kind }: KubeObject) => kind === "IPAddressClaim")?.uid;
    if (previous === null) {
      this.told += 1;
      if (!this.#isClaim(uid)) this.#late.add(ownUid);
    }
    if (this.isLeftover(object)) return;
    const others = this.#all(ADDRESSES).filter((one) => one.spec.address === address && !this.isLeftover(one));
    if (others.length > 1)
      this.faults.push(`${address} is told to ${others.map(({ metadata }) => metadata.name).join(" and ")}`);
    const allocation = this.#server.etcd.get(ALLOCATIONS, annotations?.[ALLOCATION] ?? "");
    if (previous === null) {
      if (allocation?.status?.state !== "Bound")
        this.races.push(`${name} is told ${address}, which is ${allocation?.status?.state ?? "nobody's"}`);
      else if (allocation.spec.owner.uid !== uid)
        this.faults.push(`${name} is told ${address}, which is held by ${allocation.spec.owner.name}`);
    }
    const before = this.#addresses.get(uid) ?? address;
    if (before !== address) this.races.push(`${name} is told ${address}, and was told ${before}`);
    if (uid !== undefined) this.#addresses.set(uid, address);
  }

  /**
   * Whether an IPAddress came when its claim had gone, and no other claim has taken it over: nobody reads it. Its
   * creation may wait for ten seconds, for admission or on its way, and a sweep of these tests for one: by then its
   * address may be another claim's.
   */
  isLeftover({ metadata }: KubeObject): boolean {
    return this.#late.has(metadata.uid) && !metadata.ownerReferences?.some(({ uid }: KubeObject) => this.#isClaim(uid));
  }

  /** An address that cools down, or is nobody's, is told to no claim that lives. */
  #lookAtAllocation({ object, deleted }: Change): void {
    if (!deleted && object.status?.state === "Bound") return;
    for (const { metadata } of this.#all(ADDRESSES))
      if (
        metadata.annotations?.[ALLOCATION] === object.metadata.name &&
        metadata.ownerReferences?.some(({ uid }: KubeObject) => this.#isClaim(uid))
      )
        this.races.push(`${metadata.name} is told ${object.spec.address}, which is Bound no more`);
  }

  #isClaim(uid: string | undefined): boolean {
    return this.#all(CLAIMS).some(({ metadata }) => metadata.uid === uid);
  }

  #all(storage: string): KubeObject[] {
    return this.#server.etcd.range(storage, "").map(({ object }) => object);
  }
}
