import type { AllocationFilter } from "../../allocations/filter.ts";
import type { AllocationView, Attachment } from "../../allocations/records.ts";
import { readUuid } from "../../kube/views/vmi-view.ts";
import type { Allocations } from "../../store/allocations.ts";
import type { ClaimsOfVms, IdentityStore } from "../../store/node-store.ts";
import {
  type AllocationSource,
  filterOf,
  type LocalVms,
  matchingHolding,
  ofOneIdentity,
  ofOneNetwork,
} from "../allocation-source.ts";
import { type NetworkFacts, withGateway } from "../compose.ts";
import { containersOf, type Holding, holdingsOf, inOrder, merged } from "../holding.ts";
import type { IdentityQuestion } from "../query.ts";
import type { IdentityVm } from "../wire.ts";

/** Outside Kubernetes only the claim tells how the guest's firmware is set up. */
const FIRMWARE_ANNOTATION = "metadata.holdfast.dev/firmware-uuid";

type StandaloneIdentityStore = Pick<Allocations, "list"> & Pick<IdentityStore, "attachmentsOfContainer"> & ClaimsOfVms;

export class StandaloneIdentities implements AllocationSource, LocalVms {
  readonly #store: StandaloneIdentityStore;
  readonly #facts: Pick<NetworkFacts, "definition">;

  constructor(store: StandaloneIdentityStore, facts: Pick<NetworkFacts, "definition">) {
    this.#store = store;
    this.#facts = facts;
  }

  async find(question: IdentityQuestion): Promise<readonly Holding[]> {
    for (;;) {
      const found = await this.#ask(question);
      const containers = containersOf(found);
      if (containers.length === 0) return this.#withPartners(found);
      const used = containers
        .flatMap(({ containerID }) => this.#store.attachmentsOfContainer(containerID))
        .flatMap(holdingsOf);
      // Otherwise it has ended since, and the answer is another one.
      if (matchingHolding(question, used) !== undefined) return merged(used);
    }
  }

  async vm(holdings: readonly Holding[]): Promise<IdentityVm | null> {
    return this.known(holdings);
  }

  known(holdings: readonly Holding[]): IdentityVm | null {
    for (const { owner } of holdings) {
      const vm = owner.kind === "claim" ? this.#vmOfClaim(owner.uid) : null;
      if (vm !== null) return vm;
    }
    return null;
  }

  async learn(): Promise<void> {}

  knownOf(): null {
    return null;
  }

  async learnOf(): Promise<void> {}

  nameOf({ owner }: Attachment): string | null {
    const vm = owner.kind === "claim" ? this.#vmOfClaim(owner.uid) : null;
    return vm && `${vm.namespace}/${vm.name}`;
  }

  async #ask(question: IdentityQuestion): Promise<Holding[]> {
    if (question.kind !== "address") return ofOneIdentity(question, await this.#list(filterOf(question)));
    const { address, network } = question;
    return ofOneNetwork(question, await this.#list({ address, network }));
  }

  /** The other addresses of a stopped or released holder: of its VM, else of the same owner. */
  async #withPartners(found: readonly Holding[]): Promise<readonly Holding[]> {
    const [{ owner, vm, state }] = found as [Holding];
    const name = `${owner.namespace}/${owner.name}`;
    const filter: AllocationFilter =
      owner.kind === "container"
        ? { container: owner.uid }
        : owner.kind === "pod"
          ? { pod: name }
          : vm === null
            ? { claim: name }
            : { vm: `${owner.namespace}/${vm.name}` };
    const partners = (await this.#list(filter)).filter(
      (one) =>
        one.state === state &&
        one.uses.length === 0 &&
        (one.owner.uid === owner.uid || (vm !== null && one.vm?.uid === vm.uid)),
    );
    return inOrder(merged([...found, ...partners]));
  }

  async #list(filter: AllocationFilter): Promise<Holding[]> {
    const holdings: Holding[] = [];
    let token: string | undefined;
    do {
      const page = await this.#store.list(filter, { limit: Number.POSITIVE_INFINITY, continue: token });
      for (const view of page.items) holdings.push(this.#holdingOf(view));
      token = page.continue;
    } while (token !== undefined);
    return holdings;
  }

  #holdingOf({ network, address, state, owner, vm, attachments }: AllocationView): Holding {
    const answered = withGateway(address, this.#facts.definition(network));
    const uses = attachments.map(({ netns: _, ...use }) => use);
    return { network, address: answered, state, owner, vm, mac: null, uses };
  }

  #vmOfClaim(uid: string): IdentityVm | null {
    const claim = this.#store.claimByUid(uid);
    if (claim === null) return null;
    const firmwareUuid = readUuid(claim.annotations[FIRMWARE_ANNOTATION]);
    // The annotation shows that there is a VM, even if its name is unknown.
    if (claim.vm.name === "" && firmwareUuid === null) return null;
    return {
      namespace: claim.namespace,
      name: claim.vm.name || claim.name,
      uid: claim.vm.uid,
      vmiUid: null,
      firmwareUuid,
    };
  }
}
