import type { Owner } from "../ipam/owner.ts";
import { compareAddresses } from "../ipam/space/address.ts";
import { parseInterfaceAddress } from "../ipam/space/cidr.ts";
import { isoTime } from "../platform/time.ts";
import type { AllocationView, AnsweredAddress, Attachment, AttachmentView } from "../store/records.ts";

/** A container that uses an address. */
export type Use = Omit<AttachmentView, "netns">;

/** One address in somebody's hands, from whatever source: what identities are put together from. */
export interface Holding {
  readonly network: string;
  readonly address: AnsweredAddress;
  readonly state: AllocationView["state"];
  readonly owner: Owner;
  /** The VM as the allocation has it; null: it says none, or only the journal was asked. */
  readonly vm: AllocationView["vm"];
  readonly mac: string | null;
  readonly uses: readonly Use[];
}

/** What an attachment of this node holds, as it was answered. */
export function holdingsOf(attachment: Attachment): Holding[] {
  const { network, owner, mac, containerId, interface: name, node, pod, sinceMs } = attachment;
  const use: Use = { containerID: containerId, interface: name, node, pod, since: isoTime(sinceMs) };
  return attachment.ips.map((address) => ({
    network,
    address,
    state: "Bound" as const,
    owner,
    vm: null,
    mac,
    uses: [use],
  }));
}

/** The same address once, with everybody who uses it. */
export function merged(holdings: readonly Holding[]): Holding[] {
  const byAddress = new Map<string, Holding>();
  for (const one of holdings) {
    const key = `${one.network} ${one.address.address}`;
    const other = byAddress.get(key);
    byAddress.set(
      key,
      other === undefined ? one : { ...other, uses: [...other.uses, ...unknownTo(other, one)] },
    );
  }
  return [...byAddress.values()];
}

function unknownTo(known: Holding, { uses }: Holding): Use[] {
  return uses.filter(
    (use) =>
      !known.uses.some((one) => one.containerID === use.containerID && one.interface === use.interface),
  );
}

/** Those in use in the order in which they came, as far as whole seconds tell; then by network and address. */
export function inOrder(holdings: readonly Holding[]): Holding[] {
  // The addresses of one interface stay together, though their objects may have been written in two seconds.
  const since = new Map<string, string>();
  for (const one of holdings) {
    const [key, at] = [interfaceKey(one), one.uses[0]?.since ?? ""];
    const earliest = since.get(key);
    if (earliest === undefined || at < earliest) since.set(key, at);
  }
  const keyed = holdings.map((holding) => {
    const { address } = parseInterfaceAddress(holding.address.address);
    return { holding, address, since: since.get(interfaceKey(holding)) ?? "" };
  });
  keyed.sort(
    (a, b) =>
      compareTexts(a.since, b.since) ||
      compareTexts(a.holding.network, b.holding.network) ||
      compareAddresses(a.address, b.address),
  );
  return keyed.map(({ holding }) => holding);
}

/** The same for all addresses of one interface, and of no other. */
export function interfaceKey({ network, owner, uses }: Holding): string {
  return [network, uses[0]?.interface ?? "", owner.kind, owner.uid, owner.interface].join(" ");
}

/** Everybody who uses any of them, each container once, in the order in which they came. */
export function containersOf(holdings: readonly Holding[]): Use[] {
  const byContainer = new Map<string, Use>();
  for (const { uses } of holdings) {
    for (const use of uses) if (!byContainer.has(use.containerID)) byContainer.set(use.containerID, use);
  }
  return [...byContainer.values()].sort((a, b) => compareTexts(a.since, b.since));
}

/** What makes two containers users of their own right: sandboxes of one pod are not. */
export function userKey({ pod, containerID }: Pick<Use, "pod" | "containerID">): string {
  if (pod === null) return `container ${containerID}`;
  return pod.uid === "" ? `pod ${pod.namespace}/${pod.name}` : `pod ${pod.uid}`;
}

function compareTexts(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
