import { formatAddress } from "../ipam/address.ts";
import type { InterfaceAddress } from "../ipam/cidr.ts";
import type { Holder } from "../store/kubernetes/allocation-object.ts";
import { type ClaimView, projectClaim } from "./claim-view.ts";
import type { DefinitionBook } from "./definition-book.ts";
import { type HeldAddress, statusAddresses } from "./held-addresses.ts";
import { listedAddress, withMask } from "./listed-address.ts";
import { type NetworkSelection, readNetworkSelection } from "./network-selection.ts";
import { type PodView, projectPod } from "./pod-view.ts";

/** An address that is in use, and by whom. */
export interface ImportCandidate {
  readonly one: InterfaceAddress;
  readonly holder: Holder;
}

type Definitions = Pick<DefinitionBook, "definitionOf" | "networkOfNad">;

/**
 * Collects the addresses of one network that claims and living pods have. Give it every claim, then every pod. What
 * makes no sense is named in `problems` and left out.
 */
export class ImportCandidates {
  readonly problems: string[] = [];
  readonly #network: string;
  readonly #definitions: Definitions;
  readonly #claims = new Map<string, ClaimView>();
  readonly #pods: PodView[] = [];

  constructor(network: string, definitions: Definitions) {
    this.#network = network;
    this.#definitions = definitions;
  }

  addClaim(object: unknown): void {
    const claim = this.#attempt(() => projectClaim(object));
    if (claim?.network === this.#network) this.#claims.set(claim.key, claim);
  }

  addPod(object: unknown): void {
    const pod = this.#attempt(() => projectPod(object, { addresses: true }));
    if (pod === null) return;
    const { held, problems } = statusAddresses(pod);
    this.problems.push(...problems.map((one) => `Pod ${pod.key}: ${one}`));
    if (held.some((one) => this.#isOurs(one))) this.#pods.push(pod);
  }

  /** The list has begun anew. */
  forgetClaims(): void {
    this.#claims.clear();
  }

  forgetPods(): void {
    this.#pods.length = 0;
  }

  /** Each address once. A claim comes before a pod, and the older of two before the younger: the first has the address. */
  all(): ImportCandidate[] {
    const byAddress = new Map<string, ImportCandidate>();
    const add = (candidate: ImportCandidate) => {
      const key = formatAddress(candidate.one.address);
      if (!byAddress.has(key)) byAddress.set(key, candidate);
    };
    for (const claim of [...this.#claims.values()].sort(older)) this.#ofClaim(claim).forEach(add);
    for (const pod of [...this.#pods].sort(older)) this.#ofPod(pod).forEach(add);
    return [...byAddress.values()];
  }

  #ofClaim(claim: ClaimView): ImportCandidate[] {
    return claim.ips.flatMap((text) => {
      const one = listedAddress(text, this.#definition);
      if (one !== null) return [{ one, holder: claimHolder(claim) }];
      this.problems.push(`IPAMClaim ${claim.key}: ${text} is no address`);
      return [];
    });
  }

  #ofPod(pod: PodView): ImportCandidate[] {
    const selection = this.#attempt(() => readNetworkSelection(pod.annotations, pod.namespace));
    return statusAddresses(pod)
      .held.filter((one) => this.#isOurs(one))
      .map((held) => ({
        one: withMask(held.address, held.prefixLength, this.#definition),
        holder: this.#holderOf(pod, held, selection),
      }));
  }

  /** The claim that the pod's selection names for the interface, where it exists; else the pod. */
  #holderOf(pod: PodView, held: HeldAddress, selection: NetworkSelection | null): Holder {
    const elements = selection?.elements ?? [];
    const ofNad = elements.filter(
      ({ nad }) => nad?.namespace === held.nad?.namespace && nad?.name === held.nad?.name,
    );
    const ofInterface = ofNad.filter(
      (one) => (one.interface ?? `net${one.position}`) === held.interface || held.interface === "",
    );
    // Two interfaces on one NAD, and nobody says which of them has the address: a claim would be a guess.
    const element = ofInterface.length === 1 ? ofInterface[0] : undefined;
    const claim = element?.claim ? this.#claims.get(`${pod.namespace}/${element.claim}`) : undefined;
    const mac = held.mac === null ? {} : { mac: held.mac };
    if (claim !== undefined) return { ...claimHolder(claim), ...mac };
    const interfaceName =
      held.interface !== "" || element === undefined
        ? held.interface
        : (element.interface ?? `net${element.position}`);
    const { namespace, name } = pod;
    // The runtime knows a static pod by this UID, and so does every ADD.
    const uid = pod.staticUid ?? pod.uid;
    return {
      owner: { kind: "Pod", namespace, name, uid, interface: interfaceName },
      attachment: null,
      ...mac,
    };
  }

  #isOurs({ nad }: HeldAddress): boolean {
    return nad !== null && this.#definitions.networkOfNad(`${nad.namespace}/${nad.name}`) === this.#network;
  }

  get #definition() {
    return this.#definitions.definitionOf(this.#network)?.definition ?? null;
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

/** A claim as the owner of an address that it lists, from before anybody attached to it. */
export function claimHolder(claim: ClaimView): Holder {
  const { namespace, name, uid, vm } = claim;
  return {
    owner: { kind: "IPAMClaim", namespace, name, uid, interface: "" },
    attachment: null,
    adopted: true,
    ...(vm === null || vm.uid === "" ? {} : { vm }),
  };
}

function older(
  a: { creationTimestamp: string; key: string },
  b: { creationTimestamp: string; key: string },
): number {
  if (a.creationTimestamp !== b.creationTimestamp) return a.creationTimestamp < b.creationTimestamp ? -1 : 1;
  return a.key < b.key ? -1 : 1;
}
