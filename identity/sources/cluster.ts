import { AllocationClient } from "../../allocations/allocation-client.ts";
import { addressOf, isSound } from "../../allocations/allocation-object.ts";
import type { AllocationFilter } from "../../allocations/filter.ts";
import { matches } from "../../allocations/filter.ts";
import { viewOf } from "../../allocations/views.ts";
import { sameAddress } from "../../ipam/space/address.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { labelSelector } from "../../kube/object-names.ts";
import {
  ALLOCATIONS_PATH,
  type AllocationAttachment,
  attachmentsIn,
  CLAIMS_PATH,
  type IPAllocation,
  LABEL_OWNER,
  namespacedPath,
} from "../../kube/objects.ts";
import { listedAddresses, projectClaim, vmOwners } from "../../kube/views/claim-view.ts";
import { MalformedObjectError } from "../../kube/views/object-metadata.ts";
import { type AllocationSource, filterOf, ofOneIdentity, ofOneNetwork, sharesUser } from "../allocation-source.ts";
import { type NetworkFacts, withGateway } from "../compose.ts";
import { type Holding, inOrder, merged } from "../holding.ts";
import type { IdentityQuestion } from "../query.ts";
import type { IdentityVm } from "../wire.ts";
import type { ClusterVms } from "./cluster-vms.ts";

/** For all API requests of one question, ms. */
const QUESTION_MS_MAX = 10_000;

export interface ClusterIdentityParts {
  readonly api: KubeApi;
  readonly facts: Pick<NetworkFacts, "definition">;
  readonly vms: ClusterVms;
  /** All networks that may have an address. */
  networks(): readonly string[];
  /** Whether an attachment in the API has ended although the API does not show it yet. */
  hasEnded?(network: string, attachment: AllocationAttachment): boolean;
}

/** The holder of an address is read from its object each time; its other ones by claims and labels, then by name. */
export class ClusterIdentities implements AllocationSource {
  readonly #parts: ClusterIdentityParts;
  readonly #client: AllocationClient;

  constructor(parts: ClusterIdentityParts) {
    this.#parts = parts;
    this.#client = new AllocationClient(parts.api, "housekeeping");
  }

  async find(question: IdentityQuestion): Promise<readonly Holding[]> {
    const deadlineMs = this.#parts.api.clock.monotonicMs() + QUESTION_MS_MAX;
    if (question.kind !== "address")
      return inOrder(ofOneIdentity(question, await this.#list(filterOf(question), deadlineMs)));
    const { address, network } = question;
    const networks = network === undefined ? this.#parts.networks() : [network];
    const names = networks.map((one) => ({ network: one, address }));
    const found = ofOneNetwork(question, await this.#readAll(names, deadlineMs));
    return inOrder(merged([...found, ...(await this.#partners(found[0] as Holding, deadlineMs))]));
  }

  vm(holdings: readonly Holding[]): Promise<IdentityVm | null> {
    return this.#parts.vms.find(holdings);
  }

  /** Other addresses of the same VM, pod or claim: while something runs, those that the same pods use. */
  async #partners(first: Holding, deadlineMs: number): Promise<Holding[]> {
    const { owner, state } = first;
    const isStoppable = owner.kind === "claim" && state === "Bound";
    const names = isStoppable ? await this.#claimed(first, deadlineMs) : await this.#labelled(owner.uid, deadlineMs);
    const known = parseInterfaceAddress(first.address.address).address;
    const others = names.filter(({ network, address }) => network !== first.network || !sameAddress(address, known));
    const found = await this.#readAll(others, deadlineMs);
    return found.filter(
      (one) =>
        one.state === state &&
        (first.uses.length > 0 ? sharesUser(one, [first]) : one.uses.length === 0) &&
        (isStoppable || one.owner.uid === owner.uid),
    );
  }

  /** The addresses of all claims of the same VM, in its namespace; without a VM, those of the claim alone. */
  async #claimed({ owner, vm }: Holding, deadlineMs: number): Promise<Name[]> {
    const names: Name[] = [];
    await this.#parts.api.list({
      path: namespacedPath(CLAIMS_PATH, owner.namespace),
      deadlineMs,
      each: (object) => names.push(...namesOf(object, owner.uid, vm)),
      restarted: () => names.splice(0),
    });
    return names;
  }

  /** Candidates may come from a watch cache: each is read before it counts. */
  async #labelled(uid: string, deadlineMs: number): Promise<Name[]> {
    const names: Name[] = [];
    const query = { labelSelector: labelSelector(LABEL_OWNER, uid), resourceVersion: "0" };
    await this.#parts.api.list({
      path: ALLOCATIONS_PATH,
      query,
      deadlineMs,
      each: (object: IPAllocation) => {
        if (isSound(object)) names.push({ network: object.spec.network, address: addressOf(object) });
      },
      restarted: () => names.splice(0),
    });
    return names;
  }

  async #readAll(names: readonly Name[], deadlineMs: number): Promise<Holding[]> {
    const readings = await Promise.all(
      names.map(({ network, address }) => this.#client.read(network, address, deadlineMs)),
    );
    return readings.flatMap((reading) =>
      reading !== null && isSound(reading.object) ? [this.#holdingOf(reading.object)] : [],
    );
  }

  async #list(filter: AllocationFilter, deadlineMs: number): Promise<Holding[]> {
    const found: IPAllocation[] = [];
    await this.#parts.api.list({
      path: ALLOCATIONS_PATH,
      deadlineMs,
      each: (object: IPAllocation) => {
        if (isSound(object) && matches(viewOf(object), filter)) found.push(object);
      },
      restarted: () => found.splice(0),
    });
    return found.map((object) => this.#holdingOf(object));
  }

  #holdingOf(object: IPAllocation): Holding {
    const { network, mac } = object.spec;
    const { hasEnded, facts } = this.#parts;
    const { address, state, owner, vm } = viewOf(object);
    const uses = attachmentsIn(object)
      .filter((one) => hasEnded?.(network, one) !== true)
      .map(({ containerID, interface: name, node, pod = null, since }) => {
        return { containerID, interface: name, node, pod, since };
      });
    const answered = withGateway(address, facts.definition(network));
    return { network, address: answered, state, owner, vm, mac: mac ?? null, uses };
  }
}

type Name = { readonly network: string; readonly address: ReturnType<typeof addressOf> };

/** The addresses of a claim, if it has that UID or belongs to that VM. */
function namesOf(object: unknown, uid: string, vm: Holding["vm"]): Name[] {
  try {
    const claim = projectClaim(object);
    const ofVm = vm !== null && vm.uid !== "" && vmOwners(claim.owners).some((owner) => owner.uid === vm.uid);
    if (claim.uid !== uid && !ofVm) return [];
    return listedAddresses(claim).map(({ address }) => ({ network: claim.network, address }));
  } catch (error) {
    if (error instanceof MalformedObjectError) return [];
    throw error;
  }
}
