import type { Holder } from "../allocations/allocation-object.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { type Address, familyBits, formatAddress, parseAddress, sameAddress } from "../ipam/space/address.ts";
import type { InterfaceAddress } from "../ipam/space/cidr.ts";
import { placeOf } from "../ipam/space/range-set.ts";
import type { ClaimView } from "../kube/views/claim-view.ts";
import { type PodAddress, type StatusAddresses, statusAddresses } from "../kube/views/held-addresses.ts";
import { elementFor, type NetworkSelection, readNetworkSelection } from "../kube/views/network-selection.ts";
import type { PodView } from "../kube/views/pod-view.ts";
import type { WhereaboutsEntry, WhereaboutsPool } from "../kube/views/whereabouts.ts";
import type { DefinitionCatalog } from "../networks/definition-catalog.ts";
import { claimHolder, wishesOf } from "./claim-wishes.ts";
import { POD_INTERFACES_MAX, withinBounds } from "./pod-bounds.ts";

export interface ImportCandidate {
  readonly one: InterfaceAddress;
  readonly holder: Holder;
  /** The object that says so, for people. */
  readonly foundIn: string;
}

export interface CandidateOptions {
  readonly definitions: Pick<DefinitionCatalog, "definitionOf" | "networkOfNad" | "permits">;
  /** The configuration on a node, for pods attached without a NAD: the addresses of pods themselves count in it. */
  readonly nodes: NetworkDefinition | null;
  /** For a pod's address whose claim was not added: "pod" (default) gives it to the pod. */
  readonly unknownClaim?: "pod" | "skip";
  /** Addresses of the network that are already recorded for a pod. */
  readonly recordedOf?: (pod: PodView) => readonly Address[];
  /** What a claim has on the network; absent: nothing. */
  readonly hadBy?: (claim: ClaimView) => readonly Address[];
  /** What a pod reports, for callers that read a pod for several networks. */
  readonly addressesOf?: (pod: PodView) => StatusAddresses;
}
interface ReportingPod {
  readonly pod: PodView;
  readonly held: readonly PodAddress[];
}

/** The kubelet's name for the interface of `status.podIPs`. */
const PRIMARY_INTERFACE = "eth0";

/**
 * Collects the addresses of one network that claims, living pods and whereabouts have. Add every claim and every IPPool
 * first, then every pod. Malformed entries are named in `problems` and skipped.
 */
export class ImportCandidates {
  readonly problems: string[] = [];
  /** Addresses that pods report but cannot have on the network; of `all` or `ofPods`. */
  refusedCount = 0;
  readonly #network: string;
  readonly #options: CandidateOptions;
  readonly #claims = new Map<string, ClaimView>();
  readonly #entries: WhereaboutsEntry[] = [];
  /** Keys of pods that whereabouts names. */
  readonly #named = new Set<string>();
  readonly #pods = new Map<string, ReportingPod>();

  constructor(network: string, options: CandidateOptions) {
    this.#network = network;
    this.#options = options;
  }

  get network(): string {
    return this.#network;
  }

  /** Whether the addresses that kubelets report count (CandidateOptions.nodes). */
  get isOfNodes(): boolean {
    return this.#options.nodes !== null;
  }

  addClaim(claim: ClaimView): void {
    if (claim.network === this.#network) this.#claims.set(claim.key, claim);
  }

  /** An IPPool of whereabouts; only what lies in the network's subnets counts. */
  addPool(pool: WhereaboutsPool): void {
    const rangeSets = this.#definition?.rangeSets ?? [];
    const entries = pool.entries.filter(({ address }) => placeOf(rangeSets, address) !== null);
    if (entries.length > 0) this.problems.push(...pool.problems);
    this.#entries.push(...entries);
    for (const { pod } of entries) if (pod !== null) this.#named.add(`${pod.namespace}/${pod.name}`);
  }

  /** A pod that was projected with its addresses. */
  addPod(pod: PodView): void {
    if (pod.terminal) return;
    const { held, problems } = this.#statusOf(pod);
    this.problems.push(...problems.map((one) => `Pod ${pod.key}: ${one}`));
    if (this.concerns(pod)) this.#pods.set(pod.key, { pod, held });
  }

  /** Whether a pod may have an address here, as far as its metadata tells. */
  concerns(pod: PodView): boolean {
    if (this.#named.has(pod.key)) return true;
    const { held } = this.#statusOf(pod);
    return (held.length > 0 || this.isOfNodes) && this.#heldHere({ pod, held }).length > 0;
  }

  /** The list is read again from the start. */
  forgetClaims(): void {
    this.#claims.clear();
  }

  forgetPools(): void {
    this.#entries.length = 0;
    this.#named.clear();
  }

  forgetPods(): void {
    this.#pods.clear();
  }

  /** Each address once. A claim precedes a pod, and of two pods the first of ofPods: the first has the address. */
  all(): ImportCandidate[] {
    const byAddress = new Map<string, ImportCandidate>();
    const add = (candidate: ImportCandidate) => {
      const key = formatAddress(candidate.one.address);
      if (!byAddress.has(key)) byAddress.set(key, candidate);
    };
    for (const claim of [...this.#claims.values()].sort(older)) this.#ofClaim(claim).forEach(add);
    for (const candidate of this.ofPods()) add(candidate);
    for (const entry of this.#entries) this.#ofEntry(entry).forEach(add);
    return [...byAddress.values()];
  }

  /** What pods alone report, the oldest first; last those between two sandboxes: others may have got what they had. */
  ofPods(): ImportCandidate[] {
    this.refusedCount = 0;
    const pods = [...this.#pods.values()].sort(
      (a, b) => Number(a.pod.lacksSandbox) - Number(b.pod.lacksSandbox) || older(a.pod, b.pod),
    );
    return pods.flatMap((one) => this.#ofPod(one));
  }

  #ofClaim(claim: ClaimView): ImportCandidate[] {
    if (this.#definition === null || !this.#options.definitions.permits(this.#network, claim.namespace)) return [];
    const foundIn = `IPAMClaim ${claim.key}`;
    return wishesOf(claim, this.#definition, this.#options.hadBy?.(claim)).map((one) => ({
      one,
      holder: claimHolder(claim),
      foundIn,
    }));
  }

  #ofPod(reporting: ReportingPod): ImportCandidate[] {
    const { pod } = reporting;
    // Until its kubelet has accepted it, everything in the pod was written by whoever created it.
    if (!pod.taken) return [];
    const selection = this.#attempt(() => readNetworkSelection(pod.annotations, pod.namespace));
    return this.#bounded(reporting, selection).flatMap((held) => {
      const holder = this.#holderOf(pod, held, selection);
      if (holder === null) return [];
      const one = withMask(held.address, held.prefixLength, this.#definition);
      return [{ one, holder, foundIn: `Pod ${pod.key}` }];
    });
  }

  /** The interfaces of the pod on the network; one for a pod that no longer selects any of its definitions. */
  #bounded(reporting: ReportingPod, selection: NetworkSelection | null): readonly PodAddress[] {
    const { pod } = reporting;
    const selected = [...(selection?.elements ?? []), selection?.primary ?? null].filter(
      (one) => one?.nad && this.#networkOf(one.nad) === this.#network,
    ).length;
    const interfaceCount = Math.max(1, selected + (this.#options.nodes === null ? 0 : 1));
    const own = this.#primaryAddresses(pod);
    const { kept, surplus, heldBack } = withinBounds(this.#heldHere(reporting), {
      rangeSets: this.#definition?.rangeSets ?? [],
      interfaceCount,
      recorded: this.#options.recordedOf?.(pod) ?? [],
      isKubelets: ({ nad, address }) => nad === null && own.some((one) => sameAddress(one, address)),
    });
    const limit = Math.min(interfaceCount, POD_INTERFACES_MAX);
    this.#refuse(pod, surplus, `more addresses than its interfaces on the network can have (${limit} of each subnet)`);
    this.#refuse(pod, heldBack, "addresses that the network never gives (gateway, excluded or outside of its subnets)");
    return kept;
  }

  #refuse(pod: PodView, refused: readonly PodAddress[], why: string): void {
    if (refused[0] === undefined) return;
    this.refusedCount += refused.length;
    const which = `${formatAddress(refused[0].address)}${refused.length > 1 ? " and others" : ""}`;
    this.problems.push(`Pod ${pod.key} reports ${refused.length} ${why}: ${which}`);
  }

  /** The claim that the pod's selection names for the interface, if it exists; else the pod. null: not known yet. */
  #holderOf(pod: PodView, held: PodAddress, selection: NetworkSelection | null): Holder | null {
    const elements = selection?.elements ?? [];
    const ofNad = elements.filter(({ nad }) => nad?.namespace === held.nad?.namespace && nad?.name === held.nad?.name);
    const ofInterface = ofNad.filter(
      (one) => (one.interface ?? `net${one.position}`) === held.interface || held.interface === "",
    );
    // Two interfaces on one NAD: which of them has the address is unknown, so that a claim would be a guess.
    const element = ofInterface.length === 1 ? ofInterface[0] : undefined;
    // kubevirt/ipam-extensions names one claim for all interfaces of a VM on one NAD: whose, the pod does not say.
    const isShared = elements.filter((one) => one.claim === element?.claim).length > 1;
    const claim = element?.claim && !isShared ? this.#claims.get(`${pod.namespace}/${element.claim}`) : undefined;
    const mac = held.mac === null ? {} : { mac: held.mac };
    if (claim !== undefined) return { ...claimHolder(claim), ...mac };
    if (element?.claim && !isShared && this.#options.unknownClaim === "skip") return null;
    const interfaceName =
      held.interface !== "" || element === undefined ? held.interface : (element.interface ?? `net${element.position}`);
    const { namespace, name } = pod;
    // The runtime identifies a static pod by this UID, and so does every ADD.
    const uid = pod.staticUid ?? pod.uid;
    return {
      owner: { kind: "Pod", namespace, name, uid, interface: interfaceName },
      attachment: null,
      ...(pod.node === null ? {} : { node: pod.node }),
      ...mac,
    };
  }

  /** The pod that whereabouts names, if it is certainly the same; else the container, until whereabouts releases it. */
  #ofEntry(entry: WhereaboutsEntry): ImportCandidate[] {
    const one = withMask(entry.address, null, this.#definition);
    const foundIn = `IPPool ${entry.pool}`;
    const named = entry.pod === null ? undefined : this.#pods.get(`${entry.pod.namespace}/${entry.pod.name}`);
    const held = named === undefined ? null : this.#heldOfEntry(named, entry);
    if (named !== undefined && held !== null) {
      const network = held.nad === null ? null : this.#networkOf(held.nad);
      if (network !== null && network !== this.#network) return [];
      const { annotations, namespace } = named.pod;
      const selection = this.#attempt(() => readNetworkSelection(annotations, namespace));
      const holder = this.#holderOf(named.pod, held, selection);
      if (holder !== null) return [{ one, holder, foundIn }];
    }
    const { namespace = "", name = "" } = entry.pod ?? {};
    const uid = entry.containerId || "unknown";
    const owner = { kind: "Container", namespace, name, uid, interface: entry.interface } as const;
    return [{ one, holder: { owner, attachment: null, importedFrom: foundIn }, foundIn }];
  }

  /** What the pod reports of the entry's interface. null: another address, so the entry is of a former pod. */
  #heldOfEntry({ pod, held }: ReportingPod, entry: WhereaboutsEntry): PodAddress | null {
    const reported = held.find(({ address }) => sameAddress(address, entry.address));
    if (reported !== undefined) return reported;
    const { address, interface: name } = entry;
    const selection = this.#attempt(() => readNetworkSelection(pod.annotations, pod.namespace));
    const ofNetwork = (selection?.elements ?? []).filter(
      ({ nad }) => nad !== null && this.#networkOf(nad) === this.#network,
    );
    const element = selection && name !== "" ? elementFor(selection, name) : ofNetwork[0];
    const interfaceName = name || (element ? (element.interface ?? `net${element.position}`) : "");
    const others = held.some((one) => one.interface === interfaceName && one.address.family === address.family);
    if (others || interfaceName === "") return null;
    return {
      nad: element?.nad ?? null,
      network: null,
      interface: interfaceName,
      address,
      prefixLength: null,
      mac: null,
    };
  }

  /**
   * The addresses of a pod on this network, those that the kubelet reports first. A network's bare name in an
   * annotation counts only if the nodes' own configuration defines that network: otherwise any pod could write it.
   */
  #heldHere({ pod, held }: ReportingPod): PodAddress[] {
    const byNodes = this.#options.nodes !== null;
    const reported = held.filter((one) =>
      one.nad === null ? byNodes && one.network === this.#network : this.#networkOf(one.nad) === this.#network,
    );
    const own = this.#primaryAddresses(pod).flatMap((address): PodAddress[] => {
      const same = held.filter((one) => sameAddress(one.address, address));
      // It came through a NAD, and belongs to that NAD's network.
      if (same.some(({ nad }) => nad !== null)) return [];
      const interfaceName = same[0]?.interface || PRIMARY_INTERFACE;
      const mac = same[0]?.mac ?? null;
      return [{ nad: null, network: null, interface: interfaceName, address, prefixLength: null, mac }];
    });
    return [...own, ...reported.filter((one) => !own.some(({ address }) => sameAddress(address, one.address)))];
  }

  /** A pod's own addresses in the subnets that the nodes' configuration gives to the network. */
  #primaryAddresses(pod: PodView): Address[] {
    const { nodes } = this.#options;
    if (nodes === null) return [];
    const addresses = pod.podIPs.map((text) => this.#attempt(() => parseAddress(text)));
    return addresses.filter((one) => one !== null && placeOf(nodes.rangeSets, one) !== null) as Address[];
  }

  #statusOf(pod: PodView): StatusAddresses {
    return (this.#options.addressesOf ?? statusAddresses)(pod);
  }

  #networkOf({ namespace, name }: { readonly namespace: string; readonly name: string }): string | null {
    return this.#options.definitions.networkOfNad(`${namespace}/${name}`);
  }

  get #definition(): NetworkDefinition | null {
    const { definitions, nodes } = this.#options;
    return definitions.definitionOf(this.#network)?.definition ?? nodes;
  }

  #attempt<T>(read: () => T): T | null {
    try {
      return read();
    } catch (error) {
      this.problems.push((error as Error).message);
      return null;
    }
  }
}

function older(a: { creationTimestamp: string; key: string }, b: { creationTimestamp: string; key: string }): number {
  if (a.creationTimestamp !== b.creationTimestamp) return a.creationTimestamp < b.creationTimestamp ? -1 : 1;
  return a.key < b.key ? -1 : 1;
}

/** The known mask, else that of the subnet that contains the address, else a full-length one. */
function withMask(
  address: Address,
  prefixLength: number | null,
  definition: NetworkDefinition | null,
): InterfaceAddress {
  const place = definition === null ? null : placeOf(definition.rangeSets, address);
  return {
    address,
    prefixLength: prefixLength ?? place?.subnet.cidr.prefixLength ?? familyBits(address.family),
  };
}
