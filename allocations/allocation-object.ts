import { type Address, formatAddress, parseAddress } from "../ipam/space/address.ts";
import { formatInterfaceAddress, type InterfaceAddress } from "../ipam/space/cidr.ts";
import { allocationName, labelValue, nodeLabel } from "../kube/object-names.ts";
import {
  type AllocationAttachment,
  type AllocationOwner,
  ANNOTATION_IMPORTED_FROM,
  API_VERSION,
  attachmentKey,
  BOUND_FINALIZER,
  type IPAllocation,
  LABEL_CLAIM,
  LABEL_NETWORK,
  LABEL_OWNER,
  LABEL_STATE,
  NODE_LABELS,
  type ObjectMeta,
} from "../kube/objects.ts";

type Status = NonNullable<IPAllocation["status"]>;

const STATES: ReadonlySet<string | undefined> = new Set(["Bound", "Retained", "Cooling"]);

/** What an allocation records about its holder. */
export interface Holder {
  readonly owner: AllocationOwner;
  readonly vm?: { readonly name: string; readonly uid: string } | undefined;
  readonly mac?: string | undefined;
  /** null: nothing is attached yet (imported or adopted). */
  readonly attachment: AllocationAttachment | null;
  /** Node of a pod without an attachment: its container may run for as long as that node exists. */
  readonly node?: string;
  /** The record that it comes from, of another system: a container's address is held while that exists. */
  readonly importedFrom?: string;
}

/** The holder of an attachment's addresses. */
export type AttachedHolder = Holder & { readonly attachment: AllocationAttachment };

/** The object whose creation is the allocation. `time` is RFC 3339, for people. */
export function newAllocation(
  network: string,
  one: InterfaceAddress,
  holder: Holder,
  time: string,
): Omit<IPAllocation, "metadata"> & { metadata: object } {
  const address = formatInterfaceAddress(one);
  const status: Status = {
    state: "Bound",
    since: time,
    attachments: holder.attachment === null ? {} : keyed(holder.attachment),
    node: holder.attachment?.node ?? holder.node ?? "",
  };
  return {
    apiVersion: API_VERSION,
    kind: "IPAllocation",
    metadata: {
      name: allocationName(network, one.address),
      labels: {
        [LABEL_NETWORK]: labelValue(network),
        [LABEL_OWNER]: labelValue(holder.owner.uid),
        ...claimLabel(holder.owner),
        [LABEL_STATE]: "Bound",
        ...nodeLabels(status),
      },
      ...(holder.importedFrom === undefined
        ? {}
        : { annotations: { [ANNOTATION_IMPORTED_FROM]: holder.importedFrom } }),
      finalizers: [BOUND_FINALIZER],
    },
    spec: { network, address, ...spec(holder) },
    status,
  };
}

/** A Cooling or Retained object bound to its next holder, to be replaced at the resourceVersion that was read. */
export function takenOver(
  object: IPAllocation,
  one: InterfaceAddress,
  holder: Holder,
  time: string,
): Omit<IPAllocation, "metadata"> & { readonly metadata: ObjectMeta } {
  const fresh = newAllocation(object.spec.network, one, holder, time);
  const metadata = object.metadata;
  const { [ANNOTATION_IMPORTED_FROM]: _, ...annotations } = metadata.annotations ?? {};
  const { [LABEL_CLAIM]: __, ...labels } = withoutNodes(metadata.labels);
  return {
    ...fresh,
    metadata: {
      ...metadata,
      labels: { ...labels, ...(fresh.metadata as { labels: object }).labels },
      annotations: { ...annotations, ...(fresh.metadata as { annotations?: object }).annotations },
      finalizers: [...foreignFinalizers(object), BOUND_FINALIZER],
    },
  };
}

/** A Bound object whose attachments go on for another owner. */
export function handedOver(object: IPAllocation, one: InterfaceAddress, holder: Holder, time: string): object {
  const { mac } = object.spec;
  return withStatus(takenOver(object, one, { ...holder, mac }, time), object.status ?? {});
}

/**
 * Whether an attachment's address has been handed over to a claim while it was in use: the controller changes the owner
 * alone (docs/decisions/0062).
 */
export function isHandedOver({ spec, status }: IPAllocation, key: string): boolean {
  return spec.owner.kind === "IPAMClaim" && status?.state === "Bound" && key in (status.attachments ?? {});
}

/**
 * The object with one more attachment, the newest. It runs the same guest as the others, and so came from where they
 * came from: a guest that has crossed namespaces migrates again within the new one.
 */
export function withAttachment(object: IPAllocation, attachment: AllocationAttachment): object {
  const others = object.status?.attachments ?? {};
  const source = Object.values(others).find(({ migratedFrom }) => migratedFrom)?.migratedFrom;
  const attachments = { ...others, ...keyed(source ? { migratedFrom: source, ...attachment } : attachment) };
  return withStatus(object, { ...object.status, attachments, node: attachment.node });
}

/** The object with the prefix length that its subnet has now. */
export function withPrefixLength(object: IPAllocation, one: InterfaceAddress): IPAllocation {
  return { ...object, spec: { ...object.spec, address: formatInterfaceAddress(one) } };
}

/** The object of a pod without attachments, with the node that it runs on. */
export function withNode(object: IPAllocation, node: string): object {
  return withStatus(object, { ...object.status, node });
}

/** The object without some attachments. */
export function withoutAttachments(object: IPAllocation, keys: readonly string[]): IPAllocation {
  const left = Object.entries(object.status?.attachments ?? {}).filter(([key]) => !keys.includes(key));
  const node = left.map(([, one]) => one).toSorted((a, b) => (a.since < b.since ? 1 : -1))[0]?.node ?? "";
  return withStatus(object, { ...object.status, attachments: Object.fromEntries(left), node });
}

/** As withoutAttachments; the node of the last one stays where its container may still run. */
export function pruned(object: IPAllocation, keys: readonly string[], ended = false): IPAllocation {
  const left = withoutAttachments(object, keys);
  if (ended || Object.keys(left.status?.attachments ?? {}).length > 0) return left;
  return withStatus(left, { ...left.status, node: object.status?.node ?? "" });
}

/** Whether no container is attached any more, and each one that was has certainly ended. */
export function allEnded({ status }: IPAllocation): boolean {
  const count = Object.keys(status?.attachments ?? {}).length;
  return count === 0 && (status?.node ?? "") === "";
}

/** Whether it was found on record elsewhere, not given by Holdfast. */
export function wasImported({ metadata }: IPAllocation): boolean {
  return metadata.annotations?.[ANNOTATION_IMPORTED_FROM] !== undefined;
}

/** Whether a request for the very address need not wait for the end of its cool-down. See docs/decisions/0058. */
export function mayReturn({ metadata, spec, status }: IPAllocation, owner: { namespace?: string }): boolean {
  return (
    status?.state === "Cooling" &&
    status.holderEnded === true &&
    metadata.deletionTimestamp === undefined &&
    (spec.owner.namespace ?? "") === (owner.namespace ?? "")
  );
}

/**
 * Bound → Cooling in one write. The object still names the former owner, who may take the address back. One that is
 * being deleted would go with its finalizer: it keeps it until it has cooled down, so that whatever goes while it is
 * Bound was taken by somebody else than us.
 */
export function cooled(object: IPAllocation, time: string, holderEnded = false): object {
  const { metadata, status } = object;
  const labels = { ...metadata.labels, [LABEL_STATE]: "Cooling" };
  const wouldGo = metadata.deletionTimestamp !== undefined && status?.state !== "Cooling";
  const finalizers = wouldGo ? metadata.finalizers : foreignFinalizers(object);
  const released = { ...object, metadata: { ...metadata, labels, finalizers } };
  return withStatus(released, {
    ...{ state: "Cooling", since: time, attachments: {}, node: "" },
    ...(holderEnded ? { holderEnded } : {}),
  });
}

/**
 * Bound → Retained in one write. It keeps the finalizer: nobody else gets the address before `until`, RFC 3339, also
 * when somebody deletes the object.
 */
export function retained(object: IPAllocation, time: string, until: string): object {
  const { metadata, spec } = object;
  const labels = { ...metadata.labels, ...claimLabel(spec.owner), [LABEL_STATE]: "Retained" };
  return withStatus(
    { ...object, metadata: { ...metadata, labels } },
    { state: "Retained", since: time, retainedUntil: until, attachments: {}, node: "" },
  );
}

/** Whether the object matches its name and can be used; others are left alone and reported. */
export function isSound(object: IPAllocation): boolean {
  return soundAddress(object) !== null;
}

/** The address of a sound object, canonical, without mask; null: the object is not sound. */
export function soundAddress(object: IPAllocation): string | null {
  try {
    const address = addressOf(object);
    const sound =
      allocationName(object.spec.network, address) === object.metadata.name &&
      typeof object.spec.owner?.uid === "string" &&
      STATES.has(object.status?.state);
    return sound ? formatAddress(address) : null;
  } catch {
    return null;
  }
}

export function addressOf(object: IPAllocation): Address {
  return parseAddress(object.spec.address.split("/")[0] ?? "");
}

export function sameAllocationOwner(
  a: Pick<AllocationOwner, "kind" | "uid" | "interface">,
  b: Pick<AllocationOwner, "kind" | "uid" | "interface">,
): boolean {
  return a.kind === b.kind && a.uid === b.uid && (a.interface ?? "") === (b.interface ?? "");
}

function spec({ owner, vm, mac }: Holder): Pick<IPAllocation["spec"], "owner" | "vm" | "mac"> {
  return {
    owner,
    ...(vm === undefined ? {} : { vm }),
    ...(mac === undefined ? {} : { mac }),
  };
}

/** A claim that is created again finds by its name what its predecessor had. */
function claimLabel({ kind, namespace, name }: AllocationOwner): { readonly [label: string]: string } {
  return kind === "IPAMClaim" ? { [LABEL_CLAIM]: labelValue(`${namespace}/${name}`) } : {};
}

/** The object with another status, and the labels of the nodes in it. */
function withStatus<T extends { readonly metadata: Pick<ObjectMeta, "labels"> }>(
  object: T,
  status: Status,
): T & { status: Status } {
  const labels = { ...withoutNodes(object.metadata.labels), ...nodeLabels(status) };
  return { ...object, metadata: { ...object.metadata, labels }, status };
}

/** The nodes that must find it: those of its attachments, and the one where its container may still run. */
function nodeLabels({ attachments, node = "" }: Status): Record<string, string> {
  const nodes = [...Object.values(attachments ?? {}).map((one) => one.node), node];
  return Object.fromEntries(nodes.filter((one) => one !== "").map((one) => [nodeLabel(one), ""]));
}

function withoutNodes(labels: ObjectMeta["labels"] = {}): Record<string, string> {
  return Object.fromEntries(Object.entries(labels).filter(([key]) => !key.startsWith(NODE_LABELS)));
}

function keyed({
  containerID,
  interface: interfaceName,
  ...stored
}: AllocationAttachment): NonNullable<Status["attachments"]> {
  return { [attachmentKey(containerID, interfaceName)]: stored };
}

function foreignFinalizers(object: IPAllocation): string[] {
  return (object.metadata.finalizers ?? []).filter((one) => one !== BOUND_FINALIZER);
}
