import type { AllocationView, AnsweredAddress, Attachment, AttachmentView } from "../allocations/records.ts";
import type { Owner } from "../ipam/owner.ts";
import { compareAddresses } from "../ipam/space/address.ts";
import { parseInterfaceAddress } from "../ipam/space/cidr.ts";
import { isoTime } from "../platform/time.ts";

/** A container that uses an address. */
export type Use = Omit<AttachmentView, "netns">;

/** One held address, from whatever source: what identities are composed of. */
export interface Holding {
  readonly network: string;
  readonly address: AnsweredAddress;
  readonly state: AllocationView["state"];
  readonly owner: Owner;
  /** The VM according to the allocation; null: it names none, or only the journal was read. */
  readonly vm: AllocationView["vm"];
  readonly mac: string | null;
  readonly uses: readonly Use[];
}
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

/** Merges holdings of the same address, with all their users. */
export function merged(holdings: readonly Holding[]): Holding[] {
  const byAddress = new Map<string, Holding>();
  for (const one of holdings) {
    const key = `${one.network} ${one.address.address}`;
    const other = byAddress.get(key);
    byAddress.set(key, other === undefined ? one : { ...other, uses: [...other.uses, ...unknownTo(other, one)] });
  }
  return [...byAddress.values()];
}

function unknownTo(known: Holding, { uses }: Holding): Use[] {
  return uses.filter(
    (use) => !known.uses.some((one) => one.containerID === use.containerID && one.interface === use.interface),
  );
}

/** In the order of attachment, as far as whole seconds tell; then by network and address. */
export function inOrder(holdings: readonly Holding[]): Holding[] {
  // The addresses of one interface stay together, though their objects may have been written in different seconds.
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

/** Equal for all addresses of one interface, and for no other. */
export function interfaceKey({ network, owner, uses }: Holding): string {
  return [network, uses[0]?.interface ?? "", owner.kind, owner.uid, owner.interface].join(" ");
}

/** All users of these addresses, each container once, in the order of attachment. */
export function containersOf(holdings: readonly Holding[]): Use[] {
  const byContainer = new Map<string, Use>();
  for (const { uses } of holdings) {
    for (const use of uses) if (!byContainer.has(use.containerID)) byContainer.set(use.containerID, use);
  }
  return [...byContainer.values()].sort((a, b) => compareTexts(a.since, b.since));
}

/** Identifies a user: sandboxes of one pod are the same user. */
export function userKey({ pod, containerID }: Pick<Use, "pod" | "containerID">): string {
  if (pod === null) return `container ${containerID}`;
  return pod.uid === "" ? `pod ${pod.namespace}/${pod.name}` : `pod ${pod.uid}`;
}

function compareTexts(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
