import type { AnsweredAddress, Attachment, PodIdentity } from "../allocations/records.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import type { Dns, Route } from "../ipam/definition/routes-and-dns.ts";
import { OWNER_KINDS } from "../ipam/owner.ts";
import { formatAddress } from "../ipam/space/address.ts";
import { parseInterfaceAddress } from "../ipam/space/cidr.ts";
import { placeOf } from "../ipam/space/range-set.ts";
import { containersOf, type Holding, interfaceKey, merged, userKey } from "./holding.ts";
import {
  type IdentityInterface,
  type IdentityPod,
  type IdentityView,
  type IdentityVm,
  METADATA_ADDRESS,
} from "./wire.ts";

export type AttachmentSummary = Pick<Attachment, "network" | "containerId" | "interface" | "ips">;

/** A file must be read first: after `learn` the same question can be answered. */
export class NotLearnt extends Error {
  readonly learn: () => Promise<void>;

  constructor(learn: () => Promise<void>) {
    super("not read yet");
    this.learn = learn;
  }
}

export interface NetworkFacts {
  definition(network: string): NetworkDefinition | undefined;
  /** Throws NotLearnt when it is in a file that was not read recently. */
  dns(definition: NetworkDefinition): Dns;
  /** For interfaces of a network as the plugin was last configured; null: not known here. */
  mtu(network: string): number | null;
  /** As a pod's plugins reported it for an interface; null: not known here. */
  mac(pod: PodIdentity, interfaceName: string): string | null;
  /** What a pod's VM asks for on an interface. Absent where nobody runs VMs. */
  asked?(pod: PodIdentity, interfaceName: string): readonly string[];
  /** Routes of an attachment's CNI result; `earlier` are those of the same identity before it. null: nothing runs. */
  routes(
    definition: NetworkDefinition,
    attachment: AttachmentSummary | null,
    earlier: readonly AttachmentSummary[],
  ): readonly Route[];
}

/** The identity that holds these addresses: all of one VM, pod or container, and at least one. */
export function composeIdentity(
  holdings: readonly Holding[],
  vm: IdentityVm | null,
  facts: NetworkFacts,
): IdentityView {
  const all = merged(holdings);
  const users = containersOf(all);
  return {
    state: stateOf(all),
    vm,
    pods: users.map(({ pod, node, containerID, since }): IdentityPod => {
      const { namespace, name, uid } = pod ?? { namespace: null, name: null, uid: null };
      return { namespace, name, uid, node, containerID, since };
    }),
    interfaces: interfacesOf(all, facts),
  };
}
export function stateOf(holdings: readonly Holding[]): IdentityView["state"] {
  const users = new Set(holdings.flatMap(({ uses }) => uses.map(userKey)));
  if (users.size > 1) return "migrating";
  if (users.size === 1) return "running";
  // Without its container a pod's address is about to be released, whatever its record still says.
  const isHeld = holdings.some(({ state, owner }) => state === "Bound" && OWNER_KINDS[owner.kind].outlivesAttachments);
  return isHeld ? "stopped" : "released-recently";
}

/** The gateway that a definition gives to an address, as in a CNI result. */
export function withGateway(address: string, definition: NetworkDefinition | undefined): AnsweredAddress {
  if (definition === undefined) return { address };
  const gateway = placeOf(definition.rangeSets, parseInterfaceAddress(address).address)?.subnet.gateway;
  return gateway ? { address, gateway: formatAddress(gateway) } : { address };
}

/** Grouped by the interface's name in the pod while something runs: both pods of a migration have the same names. */
function interfacesOf(holdings: readonly Holding[], facts: NetworkFacts): IdentityInterface[] {
  const groups = new Map<string, Holding[]>();
  for (const one of holdings) {
    const key = interfaceKey(one);
    const group = groups.get(key);
    if (group) group.push(one);
    else groups.set(key, [one]);
  }
  const attachments: AttachmentSummary[] = [];
  return [...groups.values()].map((group) => {
    const attachment = attachmentOf(group);
    const view = viewOf(group, attachment, attachments, facts);
    if (attachment !== null) attachments.push(attachment);
    return view;
  });
}

function attachmentOf(holdings: readonly Holding[]): AttachmentSummary | null {
  const { network, uses } = holdings[0] as Holding;
  const [use] = uses;
  if (use === undefined) return null;
  const ips = holdings.map(({ address }) => address);
  return { network, containerId: use.containerID, interface: use.interface, ips };
}

function viewOf(
  holdings: readonly Holding[],
  attachment: AttachmentSummary | null,
  earlier: readonly AttachmentSummary[],
  facts: NetworkFacts,
): IdentityInterface {
  const { network, owner } = holdings[0] as Holding;
  const definition = facts.definition(network);
  const asked = askedBy(holdings, facts);
  return {
    network,
    interface: attachment?.interface ?? null,
    owner,
    claim: owner.kind === "claim" ? `${owner.namespace}/${owner.name}` : null,
    addresses: holdings.map(({ address }) => address),
    ...(asked.length === 0 ? {} : { asked }),
    mac: holdings.find(({ mac }) => mac !== null)?.mac ?? reportedMac(holdings, facts),
    mtu: facts.mtu(network),
    routes: definition === undefined ? [] : facts.routes(definition, attachment, earlier),
    dns: definition === undefined ? {} : facts.dns(definition),
    metadata: metadataOf(definition),
    source: "holdfast",
  };
}

function askedBy(holdings: readonly Holding[], facts: NetworkFacts): readonly string[] {
  for (const { pod, interface: name } of holdings.flatMap(({ uses }) => uses)) {
    const asked = (pod && facts.asked?.(pod, name)) ?? [];
    if (asked.length > 0) return asked;
  }
  return [];
}

function reportedMac(holdings: readonly Holding[], facts: NetworkFacts): string | null {
  for (const { pod, interface: name } of holdings.flatMap(({ uses }) => uses)) {
    const mac = pod && facts.mac(pod, name);
    if (mac !== null) return mac;
  }
  return null;
}

function metadataOf(definition: NetworkDefinition | undefined): IdentityInterface["metadata"] {
  const metadata = definition?.metadata ?? null;
  return metadata && { address: METADATA_ADDRESS, tokens: metadata.tokens };
}
