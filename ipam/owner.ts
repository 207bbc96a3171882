export interface OwnerKindRow {
  /** Kind of the Kubernetes object, as IPAllocations name it. */
  readonly object: string;
  readonly say: string;
  /** It keeps its addresses without attachments, until it is deleted. Other kinds lose them with the last one. */
  readonly outlivesAttachments: boolean;
  /** What it holds passes to the object created again under its name: a machine keeps its address. Others' does not. */
  readonly succeededByName: boolean;
  /** What ends it: the end of its claim, of its pod, of the last node where it could run, or of its own object. */
  readonly endsWith: "claim" | "pod" | "nodes" | "object";
  /** It is a container itself: its UID is the container ID, by which its attachments are found. */
  readonly isContainer: boolean;
}

/**
 * Every kind of owner; a new kind is a new entry here. The constraint of the database and the controller's rules follow
 * this table, and a test compares the CRD with it.
 */
export const OWNER_KINDS = {
  claim: {
    object: "IPAMClaim",
    say: "claim {namespace}/{name}",
    outlivesAttachments: true,
    succeededByName: false,
    endsWith: "claim",
    isContainer: false,
  },
  pod: {
    object: "Pod",
    say: "pod {namespace}/{name} ({interface})",
    outlivesAttachments: false,
    succeededByName: false,
    endsWith: "pod",
    isContainer: false,
  },
  container: {
    object: "Container",
    say: "container {uid} ({interface})",
    outlivesAttachments: false,
    succeededByName: false,
    endsWith: "nodes",
    isContainer: true,
  },
  addressClaim: {
    object: "IPAddressClaim",
    say: "machine claim {namespace}/{name}",
    outlivesAttachments: true,
    succeededByName: true,
    endsWith: "object",
    isContainer: false,
  },
  machineData: {
    object: "Metal3Data",
    say: "machine data {namespace}/{name} ({interface})",
    outlivesAttachments: true,
    succeededByName: true,
    endsWith: "object",
    isContainer: false,
  },
} as const satisfies Record<string, OwnerKindRow>;

type OwnerKind = keyof typeof OWNER_KINDS;
const KIND_OF_OBJECT: ReadonlyMap<string, OwnerKind> = new Map(
  Object.entries(OWNER_KINDS).map(([kind, { object }]) => [object, kind as OwnerKind]),
);
export type OwnerObject = (typeof OWNER_KINDS)[OwnerKind]["object"];

/**
 * The owner of an address. `(kind, uid, interface)` is its identity: an object created again under its old name is
 * another owner, see docs/decisions/0081. Its name is only for people, unless its kind is `succeededByName`
 * (docs/decisions/0036).
 */
export interface Owner {
  readonly kind: OwnerKind;
  /** UID of the object; the container ID for a container outside Kubernetes; `pool:<UID>` of a preallocation. */
  readonly uid: string;
  /** Interface inside the pod or container; the pool of a Metal3Data; "" for an owner not tied to one interface. */
  readonly interface: string;
  readonly namespace: string;
  readonly name: string;
  /** Cluster API's cluster of a machine, in the same namespace; for people and for moves of a cluster. */
  readonly cluster?: string | undefined;
}

export function sameOwner(
  a: Pick<Owner, "kind" | "uid" | "interface">,
  b: Pick<Owner, "kind" | "uid" | "interface">,
): boolean {
  return a.kind === b.kind && a.uid === b.uid && a.interface === b.interface;
}

/** Whether an owner takes over what a former one of its name held: no two have a name at once, so that one has gone. */
export function succeeds(owner: Owner, former: Owner): boolean {
  return (
    OWNER_KINDS[owner.kind].succeededByName &&
    owner.kind === former.kind &&
    owner.namespace === former.namespace &&
    owner.name === former.name &&
    owner.interface === former.interface &&
    owner.uid !== former.uid
  );
}

/** Whether what an ended claim had is reserved for this owner: a claim of its name, of any VM (docs/decisions/0068). */
export function isRetainedFor(owner: Owner, former: Owner): boolean {
  return (
    owner.kind === "claim" &&
    former.kind === "claim" &&
    owner.namespace === former.namespace &&
    owner.name === former.name
  );
}

/**
 * What the search for an owner's first address begins at the hash of; null: it begins anywhere. A machine's is the same
 * for every object of its name, so that it meets its former address first.
 */
export function searchSeed({ kind, uid, namespace, name, interface: named }: Owner, network: string): string | null {
  if (OWNER_KINDS[kind].succeededByName) return JSON.stringify([network, namespace, name, named]);
  return OWNER_KINDS[kind].outlivesAttachments ? uid : null;
}

export function ownerOfClaim({ uid, namespace, name }: Pick<Owner, "uid" | "namespace" | "name">): Owner {
  return { kind: "claim", uid, interface: "", namespace, name };
}

const PREALLOCATION = "pool:";

/** UID of the owner of an address that an AddressPool keeps for a claim that does not exist yet. */
export function preallocationUid(poolUid: string): string {
  return `${PREALLOCATION}${poolUid}`;
}

/** Whether an owner is a claim that does not exist yet, for which a pool keeps the address. */
export function isPreallocation({ uid }: Pick<Owner, "uid">): boolean {
  return uid.startsWith(PREALLOCATION);
}

export function ownerWithoutClaim({
  containerId,
  interface: interfaceName,
  pod,
}: {
  readonly containerId: string;
  readonly interface: string;
  readonly pod: Pick<Owner, "uid" | "namespace" | "name"> | null;
}): Owner {
  if (pod === null) return { kind: "container", uid: containerId, interface: interfaceName, namespace: "", name: "" };
  return { kind: "pod", uid: pod.uid, interface: interfaceName, namespace: pod.namespace, name: pod.name };
}

/** The owner in one line, for operators: `claim default/vm1`, `pod shop/web-0 (net1)`, `container 3fa9… (eth0)`. */
export function describeOwner(owner: Owner): string {
  return OWNER_KINDS[owner.kind].say.replace(/\{(\w+)\}/g, (_, name: keyof Owner) => owner[name] ?? "");
}

/** The holder of a retained address: `claim shop/vm1 (retained until 2026-11-26T13:00:00.000Z)`. */
export function describeRetained(holder: string, until: string): string {
  return `${holder} (retained until ${until})`;
}

/** Whether a kind of owner is a machine's: outside of Holdfast's nodes, so no guest of theirs is behind its address. */
export function isMachine(kind: OwnerKind): boolean {
  return OWNER_KINDS[kind].endsWith === "object";
}

export function kindsThat(
  holds: (row: OwnerKindRow) => boolean,
  kinds: Readonly<Record<string, OwnerKindRow>> = OWNER_KINDS,
): string[] {
  return Object.keys(kinds).filter((kind) => holds(kinds[kind] as OwnerKindRow));
}

/** The kind whose Kubernetes object has this name. An unknown one counts as a container: nothing is assumed of it. */
export function kindOfObject(object: string): OwnerKind {
  return knownKindOf(object) ?? "container";
}

/** The same; undefined: no kind's object has this name. */
export function knownKindOf(object: string): OwnerKind | undefined {
  return KIND_OF_OBJECT.get(object);
}
