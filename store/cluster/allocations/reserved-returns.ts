import type { NetworkDefinition } from "../../../ipam/definition/network-definition.ts";
import { ReturnedDefinitions } from "../../../ipam/definition/reserved-address.ts";
import { type RefusalCode, RefusalError } from "../../../ipam/refusals.ts";
import { type Address, formatAddress } from "../../../ipam/space/address.ts";
import { ApiAway, type KubeApi } from "../../../kube/kube-api.ts";
import { labelSelector } from "../../../kube/object-names.ts";
import { ALLOCATIONS_PATH, BY_PORT, type IPAllocation, LABEL_NETWORK } from "../../../kube/objects.ts";
import type { AttachOutcome, AttachWant } from "../../allocations.ts";
import type { StateFolder } from "../../journal/state-folder.ts";
import type { ClusterDefinitions } from "./views.ts";

/** Refusals that the reserved address may remedy. */
const FOR_WANT_OF_ADDRESSES: readonly RefusalCode[] = ["POOL_FULL", "ADDRESS_EXCLUDED"];
/** How long it counts that a guest still needs the address, ms: each answer reads all allocations of the network. */
const NEEDED_FOR_MS = 10_000;
/** The same where no ADD waits for the address, ms. */
const BACKGROUND_MS = 900_000;
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
  readonly #whole = new ReturnedDefinitions();
  /** The returned address, by network. */
  readonly #returned = new Map<string, string>();
  /** When the API server was last asked, ms of the monotonic clock, by network. */
  readonly #askedMs = new Map<string, number>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** What new allocations of a network come from. */
  of(definition: NetworkDefinition): NetworkDefinition {
    const address = reservedOf(definition);
    const isReturned = address !== null && this.#returned.get(definition.name) === formatAddress(address);
    return isReturned ? this.#whole.of(definition) : definition;
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
    if (!(await this.#isNeeded(network, deadlineMs))) return true;
    // A daemon of an earlier release has attached a guest since.
    this.#returned.delete(network);
    return false;
  }

  /** Whether no guest needs the address any more; then `of` has it in the ranges. Throws ApiAway. */
  async #ask(definition: NetworkDefinition, deadlineMs: number, pauseMs: number): Promise<boolean> {
    const { name } = definition;
    const address = reservedOf(definition);
    if (address === null || this.of(definition) !== definition) return false;
    const nowMs = this.#parts.api.clock.monotonicMs();
    if (nowMs - (this.#askedMs.get(name) ?? Number.NEGATIVE_INFINITY) < pauseMs) return false;
    this.#askedMs.set(name, nowMs);
    if (await this.#isNeeded(name, deadlineMs)) return false;
    this.#returned.set(name, formatAddress(address));
    return true;
  }

  async #isNeeded(network: string, deadlineMs: number): Promise<boolean> {
    const { api, folder } = this.#parts;
    const { networks, sql } = folder.ledger;
    const space = networks.get(network);
    if (space !== undefined && sql.anyViaReserved.get(space.id) !== undefined) return true;
    let isNeeded = false;
    await api.list({
      path: ALLOCATIONS_PATH,
      query: { labelSelector: labelSelector(LABEL_NETWORK, network) },
      deadlineMs,
      each: ({ spec, status }: IPAllocation) => {
        const uses = Object.values(status?.attachments ?? {});
        if (spec?.network === network && uses.some(({ metadataBy }) => metadataBy !== BY_PORT))
          isNeeded = true;
      },
    });
    return isNeeded;
  }
}

function reservedOf({ metadata }: NetworkDefinition): Address | null {
  return metadata?.reserved?.address.address ?? null;
}
