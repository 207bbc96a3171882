import type { NetworkDefinition } from "../../../ipam/definition/network-definition.ts";
import { DefinitionsInForce } from "../../../ipam/definition/reserved-address.ts";
import { type RefusalCode, RefusalError } from "../../../ipam/refusals.ts";
import { type Address, formatAddress } from "../../../ipam/space/address.ts";
import { ApiAway, type KubeApi } from "../../../kube/kube-api.ts";
import { labelSelector } from "../../../kube/object-names.ts";
import { ALLOCATIONS_PATH, type IPAllocation, LABEL_NETWORK } from "../../../kube/objects.ts";
import type { AttachOutcome, AttachWant } from "../../allocations.ts";
import type { StateFolder } from "../../journal/state-folder.ts";
import { fromMetadataWay } from "./owners.ts";
import type { ClusterDefinitions } from "./views.ts";

/** Refusals that the reserved address may remedy. */
const FOR_WANT_OF_ADDRESSES: readonly RefusalCode[] = ["POOL_FULL", "ADDRESS_EXCLUDED"];
/** How long it counts that a guest still needs the address, ms: each answer reads all allocations of the network. */
const NEEDED_FOR_MS = 10_000;
/** The same where no ADD waits for the address, ms. */
const BACKGROUND_MS = 900_000;
/** Longest wait of the first ADD on a network for what guests of it need, ms: it goes on without. */
const LEARN_MS_MAX = 3_000;
/** Limit of one look at all networks, ms. */
const LOOK_MS_MAX = 10_000;

interface Parts {
  readonly api: KubeApi;
  readonly folder: StateFolder;
}

/**
 * Which networks may allocate the address again that earlier releases reserve for metadata. While daemons of both
 * releases run, each of them records its attachments in the allocations, and only the later one writes how their guests
 * reach the metadata service: an attachment without that may have its route by the reserved address. So it is asked of
 * the API server, all allocations of the network at once, and once more right before the address is allocated. See
 * docs/decisions/0043.
 */
export class ReservedReturns {
  readonly #parts: Parts;
  readonly #inForce = new DefinitionsInForce();
  /** The returned address, by network. */
  readonly #returned = new Map<string, string>();
  /** Addresses by which guests had their route when the API server was last asked, by network. */
  readonly #needed = new Map<string, readonly string[]>();
  /** When the API server was last asked, ms of the monotonic clock, by network. */
  readonly #askedMs = new Map<string, number>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** What new allocations of a network come from. */
  of(definition: NetworkDefinition): NetworkDefinition {
    const { name } = definition;
    const here = this.#here(name).filter((one) => one !== null);
    const others = [...here, ...(this.#needed.get(name) ?? [])];
    return this.#inForce.of(definition, this.#hasReturned(definition) ? others : [null, ...others]);
  }

  /** Whether the address that the definition would reserve is in the ranges: also true where it reserves none. */
  #hasReturned(definition: NetworkDefinition): boolean {
    const address = reservedOf(definition);
    return address === null || this.#returned.get(definition.name) === formatAddress(address);
  }

  /** The former gateways of this node's guests; null: one that follows from the definition. */
  #here(network: string): (string | null)[] {
    const { folder } = this.#parts;
    const space = folder.status.kind === "ready" ? folder.ledger.networks.get(network) : undefined;
    return space === undefined ? [] : folder.ledger.formerGateways(space);
  }

  /** The definitions with the addresses that have returned. */
  definitionsOf(all: ClusterDefinitions): ClusterDefinitions {
    return {
      networks: () => all.networks(),
      accessTo: (network) => all.accessTo?.(network) ?? null,
      definitionOf: (network) => {
        const found = all.definitionOf(network);
        return found && { ...found, definition: this.of(found.definition) };
      },
    };
  }

  /** An ADD, with the reserved address only where no other one is to be had: whether it has returned costs a list. */
  async attach(
    want: AttachWant,
    deadlineMs: number,
    attempt: (want: AttachWant) => Promise<AttachOutcome>,
  ): Promise<AttachOutcome> {
    const { definition } = want;
    await this.#learn(definition, deadlineMs);
    const outcome = await attempt({ ...want, definition: this.of(definition) });
    if (outcome.kind === "attached" || !FOR_WANT_OF_ADDRESSES.includes(outcome.refusal.code)) return outcome;
    try {
      if (!(await this.#ask(definition, deadlineMs, NEEDED_FOR_MS))) return outcome;
    } catch (error) {
      if (error instanceof ApiAway) return outcome;
      throw error;
    }
    return attempt({ ...want, definition: this.of(definition) });
  }

  /** Before the first ADD on a network: after an edit, the definition no longer says which addresses guests need. */
  async #learn(definition: NetworkDefinition, deadlineMs: number): Promise<void> {
    if (definition.metadata === null || this.#askedMs.has(definition.name)) return;
    try {
      const soonMs = this.#parts.api.clock.monotonicMs() + LEARN_MS_MAX;
      await this.#ask(definition, Math.min(deadlineMs, soonMs), BACKGROUND_MS);
    } catch (error) {
      if (!(error instanceof ApiAway)) throw error;
    }
  }

  /** Asks about networks from time to time, so that counts are right before an ADD needs the address. */
  async look(
    networks: readonly string[],
    definitionOf: (network: string) => NetworkDefinition | undefined,
  ): Promise<void> {
    const deadlineMs = this.#parts.api.clock.monotonicMs() + LOOK_MS_MAX;
    try {
      for (const network of networks) {
        const definition = definitionOf(network);
        if (definition !== undefined) await this.#ask(definition, deadlineMs, BACKGROUND_MS);
      }
    } catch (error) {
      if (!(error instanceof ApiAway || error instanceof RefusalError)) throw error;
      // It comes again.
    }
  }

  /** Whether an address may be allocated now: of a returned one this is asked again. Throws ApiAway. */
  async mayTake(network: string, address: Address, deadlineMs: number): Promise<boolean> {
    if (this.#returned.get(network) !== formatAddress(address)) return true;
    const needed = await this.#gatewaysOf(network, deadlineMs);
    if (!needed.has(null) && !needed.has(formatAddress(address))) return true;
    // A daemon of an earlier release has attached a guest since.
    this.#returned.delete(network);
    return false;
  }

  /** Whether no guest needs the definition's address any more; then `of` has it in the ranges. Throws ApiAway. */
  async #ask(definition: NetworkDefinition, deadlineMs: number, pauseMs: number): Promise<boolean> {
    const { name } = definition;
    const address = reservedOf(definition);
    const isSettled = this.#hasReturned(definition) && !this.#needed.has(name);
    if (isSettled) return false;
    const nowMs = this.#parts.api.clock.monotonicMs();
    if (nowMs - (this.#askedMs.get(name) ?? Number.NEGATIVE_INFINITY) < pauseMs) return false;
    this.#askedMs.set(name, nowMs);
    const own = address && formatAddress(address);
    const gateways = await this.#gatewaysOf(name, deadlineMs);
    // What follows from the definition now is kept in mind: the next edit must not free it.
    const needed = [...gateways].flatMap((one) => one ?? own ?? []);
    if (needed.length > 0) this.#needed.set(name, needed);
    else this.#needed.delete(name);
    if (own === null || needed.includes(own)) return false;
    this.#returned.set(name, own);
    return true;
  }

  /** The former gateways of all guests of a network; null: one that follows from the definition. Throws ApiAway. */
  async #gatewaysOf(network: string, deadlineMs: number): Promise<Set<string | null>> {
    const { api } = this.#parts;
    const found = new Set(this.#here(network));
    await api.list({
      path: ALLOCATIONS_PATH,
      query: { labelSelector: labelSelector(LABEL_NETWORK, network) },
      deadlineMs,
      each: ({ spec, status }: IPAllocation) => {
        if (spec?.network !== network) return;
        for (const use of Object.values(status?.attachments ?? {})) {
          const { viaReserved, formerGateway } = fromMetadataWay(use);
          if (viaReserved) found.add(formerGateway);
        }
      },
    });
    return found;
  }
}

function reservedOf({ metadata }: NetworkDefinition): Address | null {
  return metadata?.reserved?.address.address ?? null;
}
