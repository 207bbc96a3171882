/*
 * claims/: what an attachment requests
 *
 *   attachment-request, cni-args  on a standalone node; cluster-request: in Kubernetes
 *   manifest                      claims, definitions and content as applied to a node
 *   kube-claim-access, read-claim, vm-identity, vm-claims  an IPAMClaim and its VM
 *   pod-directory                 a pod; requested-by-vm: the addresses its VM asks for; asked-by-claim: of all VMs
 *   add-waiters                   ADDs that wait for what comes
 *   reasons/                      why an address is kept or given back
 *   pools/                        what machines get
 */

import type { PodIdentity } from "../allocations/records.ts";
import { readMac } from "../ipam/definition/mac.ts";
import { nameOrigin } from "../ipam/definition/nad-config.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import type { Configuration } from "../ipam/definition/read-keys.ts";
import { parseRequestedAddress, type RequestedAddress } from "../ipam/definition/requested-address.ts";
import { type Refusal, RefusalError, refuse } from "../ipam/refusals.ts";
import { sameAddress } from "../ipam/space/address.ts";
import { refusedBy } from "../kube/answers.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { NADS_PATH, namespacedPath } from "../kube/objects.ts";
import { DEFAULT_NAMESPACE, type ObjectName } from "../kube/views/claim-reference.ts";
import { elementFor, PRIMARY_INTERFACE, readNetworkSelection } from "../kube/views/network-selection.ts";
import type { PodView } from "../kube/views/pod-view.ts";
import type { SelectionElement } from "../kube/views/selection-element.ts";
import type { DefinitionCatalog } from "../networks/definition-catalog.ts";
import type { NadVerdict } from "../networks/nad-verdict.ts";
import { projectNad } from "../networks/nad-view.ts";
import { describeNetworkOwner, isForPrimaryInterfaces, NODES_OWN } from "../networks/network-owner.ts";
import type { NetworkOwners } from "../networks/network-owners.ts";
import { differenceRemedy, type NodeConfigurations } from "../networks/node-configurations.ts";
import { readAttachmentRequest } from "./attachment-request.ts";
import type { CniArgs } from "./cni-args.ts";
import type { PodDirectory } from "./pod-directory.ts";
import { requestedByVm } from "./requested-by-vm.ts";
import { claimOfInterface, interfaceBehind, mayBeAnothers } from "./vm-claims.ts";

export interface ClusterRequest {
  readonly pod: PodIdentity | null;
  readonly claim: ObjectName | null;
  readonly requested: readonly RequestedAddress[];
  readonly mac?: string;
  /** The VMI of another namespace that the guest migrates from. */
  readonly migratedFrom?: ObjectName;
  readonly definition: NetworkDefinition;
  readonly definitionSource: string;
  /** The NAD of the interface, `namespace/name`; null: none. */
  readonly nad: string | null;
  /** Set when no NAD but the configuration on the node names the network, and the nodes define it: its ranges. */
  readonly nodes: NetworkDefinition | null;
}

export interface RuntimeRequest {
  readonly interface: string;
  readonly args: CniArgs;
  readonly conf: Configuration;
  readonly network: string;
  /** The definition on stdin, for networks that no NAD defines. Throws RefusalError when it is invalid. */
  ownDefinition(): { readonly definition: NetworkDefinition; readonly source: string };
}

export interface ClusterRequestParts {
  readonly api: KubeApi;
  readonly pods: PodDirectory;
  readonly catalog: DefinitionCatalog;
  readonly owners: Pick<NetworkOwners, "learn" | "listAsNodes">;
  readonly configurations: Pick<NodeConfigurations, "note" | "differenceOf">;
  /** Name of the Node object that this daemon serves. */
  readonly node: string;
  /** Tells the pod's owner, and the VM's. */
  warnPod(pod: PodIdentity | null, reason: string, message: string): void;
}

/** The pod that CNI_ARGS name; null when they name none. */
export function podNameIn(args: CniArgs): PodIdentity | null {
  const name = args.get("K8S_POD_NAME") ?? "";
  if (name === "") return null;
  return {
    name,
    namespace: args.get("K8S_POD_NAMESPACE") || DEFAULT_NAMESPACE,
    uid: args.get("K8S_POD_UID") ?? "",
  };
}

/** Reads pod, network selection element and NAD of an ADD. Throws RefusalError and ApiAway. */
export async function readClusterRequest(
  parts: ClusterRequestParts,
  request: RuntimeRequest,
  deadlineMs: number,
): Promise<ClusterRequest> {
  const { args, conf } = request;
  const named = podNameIn(args);
  const asked = readAttachmentRequest(args, conf);
  const found = named === null ? null : await parts.pods.find(named, deadlineMs);
  if (found !== null) refuseOtherNode(found.view, parts.node);
  const element = found === null || named === null ? null : await elementOf(parts, request, named, found, deadlineMs);
  const { definition, source, isOfNodes } = await definitionOf(
    parts,
    request,
    { element, pod: found?.view ?? null },
    deadlineMs,
  );
  const namespace = named?.namespace ?? DEFAULT_NAMESPACE;
  const claim =
    found === null || element === null
      ? null
      : await claimOf(parts.pods, found.view, element, request.interface, deadlineMs);
  const askedByVm = found === null ? [] : await requestedByVm(parts, found.view, request.interface, deadlineMs);
  const byElement = claim === null ? null : { namespace, name: claim };
  const mac = element?.mac
    ? readMac({ key: "the network selection element's mac", value: element.mac })
    : (asked.mac ?? null);
  const migratedFrom = found?.view.isMigrationTarget ? await parts.pods.migratedFrom(found.view, deadlineMs) : null;
  return {
    // Of a static pod this is the kubelet's own UID, which outlives its objects in the API.
    pod: found === null || named === null ? null : { ...named, uid: found.view.staticUid ?? found.view.uid },
    claim: byElement ?? (hasClaimInConfig(conf) ? asked.claim : null),
    requested: merged([
      (element?.ips ?? []).map((text) => parseRequestedAddress(text, "the network selection element's ips")),
      askedByVm,
      asked.requested,
    ]),
    ...(mac === null ? {} : { mac }),
    ...(migratedFrom === null ? {} : { migratedFrom }),
    definition,
    definitionSource: source,
    nad: element?.nad ? `${element.nad.namespace}/${element.nad.name}` : null,
    nodes: isOfNodes ? definition : null,
  };
}

/** A daemon under a wrong name would make its containers look lost, so it refuses every ADD. */
function refuseOtherNode(pod: PodView, node: string): void {
  if (pod.node === null || pod.node === node) return;
  throw new RefusalError(refuse("WRONG_NODE", { pod: pod.key, actual: pod.node, node }));
}

/** null: its element names none. In a launcher pod the interface tells which claim, whichever the element names. */
async function claimOf(
  pods: PodDirectory,
  pod: PodView,
  { claim }: SelectionElement,
  interfaceName: string,
  deadlineMs: number,
): Promise<string | null> {
  if (!claim || pod.vmi === null || !mayBeAnothers(pod.vmi.name, claim, interfaceName)) return claim || null;
  const vmi = await pods.readVmi(pod, deadlineMs);
  const own = vmi && interfaceBehind(vmi.interfaces, interfaceName);
  return own ? claimOfInterface(pod.vmi.name, own.name) : claim;
}

/** A pod counts as having no selection for this interface only when it was read just now. */
async function elementOf(
  { pods }: ClusterRequestParts,
  request: RuntimeRequest,
  named: PodIdentity,
  found: { view: PodView; fresh: boolean },
  deadlineMs: number,
): Promise<SelectionElement | null> {
  const read = (view: PodView) => elementFor(readNetworkSelection(view.annotations, view.namespace), request.interface);
  if (found.fresh) return read(found.view);
  let element: SelectionElement | null = null;
  try {
    element = read(found.view);
  } catch (error) {
    if (!(error instanceof RefusalError)) throw error;
  }
  return element ?? read(await pods.read(named, deadlineMs));
}

/**
 * The network's definition, once its owner is known to admit this interface. With a NAD, its namespace decides;
 * without, the pod's namespace does, unless the network belongs to the nodes, which give it to every pod: a pod's
 * annotation may have been removed since the runtime read it. If the nodes' configuration has ranges itself, a NAD of
 * the same name may not differ: otherwise anybody who can write NADs could define the primary interface of every pod.
 */
async function definitionOf(
  parts: ClusterRequestParts,
  request: RuntimeRequest,
  { element, pod }: { readonly element: SelectionElement | null; readonly pod: PodView | null },
  deadlineMs: number,
): Promise<{ definition: NetworkDefinition; source: string; isOfNodes: boolean }> {
  const { api, catalog, owners } = parts;
  const { network } = request;
  const key = element?.nad ? `${element.nad.namespace}/${element.nad.name}` : null;
  // The watch may be behind: the pods of a NAD that was just switched to the network have addresses already.
  if (element?.nad && key !== null && namedBy(catalog.verdict(key)) !== network) {
    await readNad(api, catalog, element.nad, deadlineMs);
  }
  const verdict: NadVerdict = key === null ? { kind: "unknown" } : catalog.verdict(key);
  if (verdict.kind === "broken") throw new RefusalError(verdict.refusal);
  const byNodes = key === null || catalog.isFromFile(key);
  if (byNodes) parts.configurations.note(request);
  await owners.learn(network, { byNodes, deadlineMs });
  catalog.refuseUnreadable(network);
  if (whyNotIn(parts, request, element, pod) !== null) await owners.learn(network, { fresh: true, deadlineMs });
  const refusal = whyNotIn(parts, request, element, pod);
  if (refusal !== null) throw new RefusalError(refusal);
  const now = key === null ? verdict : catalog.verdict(key);
  if (now.kind === "conflict" && now.network === network) {
    const [other, definition] = [describeNad(catalog, now.other), describeNad(catalog, now.by)];
    const remedy = "give one of them another name";
    throw new RefusalError(refuse("DEFINITION_CONFLICT", { other, network, definition, remedy }));
  }
  const isOfNodes = (key === null || catalog.networkOfNad(key) !== network) && areNodes(parts, request);
  const counting = catalog.definitionOf(network);
  if (counting !== null) return { ...counting, isOfNodes };
  const { definition, source } = request.ownDefinition();
  return { definition: catalog.reservations.within(definition), source, isOfNodes };
}

/**
 * Whether the nodes' own configuration gives this interface its network: the network belongs to administrators, or the
 * IPNetwork lists these very subnets as the nodes', from before a namespace owned it.
 */
function areNodes(
  { catalog, owners }: ClusterRequestParts,
  { network, interface: name, ownDefinition }: RuntimeRequest,
): boolean {
  const owner = catalog.ownerOf(network);
  if (owner === null || owner.definedIn === NODES_OWN) return true;
  if (name !== PRIMARY_INTERFACE) return false;
  if (isForPrimaryInterfaces(owner.definedIn)) return true;
  return owners.listAsNodes(network, (catalog.definitionOf(network) ?? ownDefinition()).definition);
}

/** The network that a NAD names; null: it is not one of ours. */
function namedBy(verdict: NadVerdict): string | null {
  return "network" in verdict ? verdict.network : null;
}

/** Why this interface may not use its network, as far as the owner is known; null: it may. */
function whyNotIn(
  parts: ClusterRequestParts,
  request: RuntimeRequest,
  element: SelectionElement | null,
  pod: PodView | null,
): Refusal | null {
  const nad = element?.nad ?? null;
  const byFile = nad === null || parts.catalog.isFromFile(`${nad.namespace}/${nad.name}`);
  return whyNotLetIn(parts, request, nad, pod) ?? (byFile ? whyNotDefined(parts, request) : null);
}

/** Why the owner of the network does not admit this interface; null: it does. */
function whyNotLetIn(
  parts: ClusterRequestParts,
  request: RuntimeRequest,
  nad: ObjectName | null,
  pod: PodView | null,
): Refusal | null {
  const { catalog } = parts;
  const { network, interface: interfaceName } = request;
  const owner = catalog.ownerOf(network);
  if (owner === null) return null;
  if (nad === null && areNodes(parts, request)) return null;
  // The NAD may have been edited since the runtime read it: only a file on the nodes is written by administrators.
  if (nad !== null && owner.definedIn === NODES_OWN && catalog.isFromFile(`${nad.namespace}/${nad.name}`)) return null;
  const namespace = nad?.namespace ?? pod?.namespace ?? null;
  const told = { network, owner: describeNetworkOwner(owner) };
  // Without a pod, the request comes from an administrator of the node.
  if (namespace !== null && !catalog.permits(network, namespace)) {
    const user = nad
      ? `NetworkAttachmentDefinition ${describeNad(catalog, `${nad.namespace}/${nad.name}`)}`
      : `pod ${pod?.key}, whose ${interfaceName} has no NetworkAttachmentDefinition,`;
    const isPrimary = nad === null && interfaceName === PRIMARY_INTERFACE;
    const to = isPrimary ? "--administrators (the cluster's default network)" : `--namespace ${namespace}`;
    return refuse("NETWORK_NOT_SHARED", { ...told, namespace, user, to });
  }
  return catalog.definitionOf(network) === null ? refuse("DEFINITION_MISSING", told) : null;
}

/** With a note where nobody wrote the name of its network. */
function describeNad(catalog: DefinitionCatalog, key: string): string {
  return `${key}${nameOrigin(catalog.configOf(key) ?? "")}`;
}

/** Why the definition in force cannot replace the node's configuration in the request; null: it can. */
function whyNotDefined(
  { catalog, configurations, node }: ClusterRequestParts,
  request: RuntimeRequest,
): Refusal | null {
  const { network } = request;
  const counting = catalog.definitionOf(network);
  const difference = counting === null ? null : configurations.differenceOf(request, counting);
  if (counting === null || difference === null) return null;
  return refuse("DEFINITION_CONFLICT", {
    other: `the configuration on node ${node}`,
    network,
    definition: `NetworkAttachmentDefinition ${counting.by} (other ${difference})`,
    remedy: differenceRemedy(network, counting),
  });
}

/** A NAD newer than the watch has delivered so far. */
async function readNad(api: KubeApi, catalog: DefinitionCatalog, nad: ObjectName, deadlineMs: number): Promise<void> {
  const path = namespacedPath(NADS_PATH, nad.namespace, nad.name);
  const read = await new ObjectClient(api, "add").get(path, deadlineMs);
  if (read.kind === "present") catalog.upsert(projectNad(read.object), { isAhead: true });
  else if (read.kind === "refused") {
    throw refusedBy(read.answer, `read NetworkAttachmentDefinition ${nad.namespace}/${nad.name}`);
  }
}

/** Outside Kubernetes, CNI_ARGS may name a claim; here only the pod and its network's configuration do. */
function hasClaimInConfig(conf: Configuration): boolean {
  const cni = (conf.args as { cni?: Record<string, unknown> } | undefined)?.cni;
  return Boolean(cni?.["ipam-claim-reference"]);
}

/** In this order, of which the first is named where two disagree (assignRequests). The same address counts once. */
function merged(sources: readonly (readonly RequestedAddress[])[]): RequestedAddress[] {
  const all: RequestedAddress[] = [];
  for (const one of sources.flat()) if (!all.some(({ address }) => sameAddress(address, one.address))) all.push(one);
  return all;
}
