import { isDeepStrictEqual } from "node:util";
import { countingOf } from "../../ipam/counting.ts";
import { inRangeSetOrder } from "../../ipam/decide-addresses.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { formatInterfaceAddress, type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { attachmentsIn } from "../../kube/objects.ts";
import { CLAIM_LIST_MAX, listedAddresses } from "../../kube/views/claim-view.ts";
import { type ClaimFact, type Facts, type Found, isPod, type PodFact, present, UNKNOWN, type Wants } from "./facts.ts";
import type { JudgedAllocation, Rules } from "./verdict.ts";

/** One address that a claim has. */
export interface Had extends InterfaceAddress {
  readonly name: string;
  readonly network: string;
  readonly isAttached: boolean;
  /** A pod that lives reports it. */
  readonly isReported: boolean;
  /** Of several in one subnet the one that counts; one of no subnet counts for itself. */
  readonly counts: boolean;
}

/** What a claim has, on all networks, and what its network and list are to say of that. */
export interface ClaimSays {
  readonly had: readonly Had[];
  readonly network: string;
  readonly ips: readonly string[];
  /** The claim says so. */
  readonly isRight: boolean;
}

/** List and network of a claim as its allocations have them (docs/decisions/0093). Unknown where a fact is. */
export function claimSays(
  claim: ClaimFact,
  allocations: readonly JudgedAllocation[],
  wants: Wants,
  facts: Pick<Facts, "pod" | "networkOfNad">,
  { definitionOf }: Pick<Rules, "definitionOf">,
): Found<ClaimSays> {
  const had: Had[] = [];
  const listed = listedAddresses(claim);
  // In whichever order they were found, the claim says the same.
  for (const network of [...new Set(allocations.map(({ object }) => object.spec.network))].sort()) {
    const definition = definitionOf(network);
    if (definition === null) return UNKNOWN;
    const here: Omit<Had, "counts">[] = [];
    for (const one of allocations.filter(({ object }) => object.spec.network === network)) {
      const isReported = reported(one, facts);
      if (isReported === null) return UNKNOWN;
      const { metadata, spec } = one.object;
      const isAttached = attachmentsIn(one.object).length > 0;
      here.push({ ...parseInterfaceAddress(spec.address), name: metadata.name, network, isAttached, isReported });
    }
    const { counts, besides } = countingOf(definition, here, listed, ({ isReported }) => isReported);
    had.push(...counts.map((one) => ({ ...one, counts: true })), ...besides.map((one) => ({ ...one, counts: false })));
  }
  const [first] = had;
  if (first === undefined) return present(said(claim, had, { network: claim.network, ips: claim.ips }));
  const networks = new Set(had.map(({ network }) => network));
  const network = [wants.network, claim.network].find((one) => one !== null && networks.has(one)) ?? first.network;
  const rangeSets = definitionOf(network)?.rangeSets ?? [];
  const counting = had.filter((one) => one.network === network && one.counts);
  const besides = had.filter(
    (one) =>
      !counting.includes(one) && ((one.network !== network && one.counts) || one.isAttached || isAskedFor(one, wants)),
  );
  const texts = [...inRangeSetOrder({ rangeSets }, counting), ...besides].map(formatInterfaceAddress);
  return present(said(claim, had, { network, ips: [...new Set(texts)].slice(0, CLAIM_LIST_MAX) }));
}

export function isAskedFor({ network, address }: Pick<Had, "network" | "address">, wants: Wants): boolean {
  return network === wants.network && wants.asks.includes(formatAddress(address));
}

/**
 * Whether a claim's VM runs where no claim can follow it: a launcher of it lives, and no living pod names the claim.
 */
export function hasLeft(
  { namespace, name }: ClaimFact,
  { network, vmi }: Wants,
  facts: Pick<Facts, "podsNaming" | "launcherLives">,
): Found<boolean> {
  if (network !== null || vmi === null) return present(false);
  const naming = facts.podsNaming(namespace, name);
  if (naming.kind !== "present" || naming.it.length > 0) return naming.kind === "present" ? present(false) : UNKNOWN;
  return facts.launcherLives(namespace, vmi);
}

function said(claim: ClaimFact, had: readonly Had[], says: Pick<ClaimSays, "network" | "ips">): ClaimSays {
  return { ...says, had, isRight: says.network === claim.network && isDeepStrictEqual(says.ips, claim.ips) };
}

/** Whether a living pod reports it; null: not known. */
function reported(one: JudgedAllocation, facts: Pick<Facts, "pod" | "networkOfNad">): boolean | null {
  for (const { pod } of attachmentsIn(one.object)) {
    if (pod === undefined) continue;
    const found = facts.pod(pod.namespace, pod.name);
    if (found.kind === "unknown") return null;
    if (found.kind === "absent" || !isPod(found.it, pod.uid) || found.it.terminal) continue;
    if (found.it.addressesCut || reports(found.it, one, facts)) return true;
  }
  return false;
}

/** Only an address that certainly came through another network's NAD is excluded. */
function reports({ addresses }: PodFact, one: JudgedAllocation, facts: Pick<Facts, "networkOfNad">): boolean {
  return addresses.some(({ address, nad }) => {
    if (address !== one.address) return false;
    const found = nad === null ? null : facts.networkOfNad(nad);
    return found?.kind !== "present" || found.it === one.object.spec.network;
  });
}
