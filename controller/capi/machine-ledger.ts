import { AllocationClient } from "../../allocations/allocation-client.ts";
import { OwnerIndex } from "../../allocations/owner-index.ts";
import { toAllocationOwner } from "../../allocations/owners.ts";
import { Picture } from "../../allocations/picture.ts";
import type { UsedSpaces } from "../../allocations/used-spaces.ts";
import { type RecordOutcome, reserveInUse } from "../../imports/create-allocation.ts";
import type { Owner } from "../../ipam/owner.ts";
import type { InterfaceAddress } from "../../ipam/space/cidr.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { readNetworkObject } from "../../kube/network-object.ts";
import { HOUSEKEEPING_DEADLINE_MS } from "../../kube/object-client.ts";
import type { IPAllocation } from "../../kube/objects.ts";
import type { ReflectorState } from "../../kube/reflector.ts";
import type { Log } from "../../platform/log.ts";
import type { OwnerReleaseOutcome, ReserveOutcome, ReserveWant } from "../../store/allocations.ts";
import { ClusterContinuity } from "../../store/cluster/contact/cluster-continuity.ts";
import { recoveryMark } from "../../store/cluster/contact/recovery.ts";
import type { Holdings } from "../../store/cluster/parts/holdings.ts";
import { owned } from "../../store/cluster/parts/holdings.ts";
import { KeyedMutex } from "../../store/cluster/parts/keyed-mutex.ts";
import { KubernetesReservations } from "../../store/cluster/reservations.ts";

/** For one reservation, ms: a claim that waits longer comes again. */
const RESERVE_MS_MAX = HOUSEKEEPING_DEADLINE_MS;
/** After allocations were found missing, ms, until a network gives to new owners again: as of the nodes by default. */
const RECOVERY_MS = 30_000;

export interface MachineLedgerOptions {
  readonly api: KubeApi;
  readonly identity: string;
  readonly usedSpaces: Pick<UsedSpaces, "of" | "revisionOf" | "version">;
  readonly relist: () => void;
  readonly log: Log;
}

/**
 * The ledger as the controller uses it for machines: the allocations that it follows make the picture of what is free,
 * and the index of who holds what. Like a node, it gives nothing to new owners after a gap in contact, until the nodes
 * have compared what they hold, nor on a network that recovers. Methods throw ApiAway.
 */
export class MachineLedger {
  readonly #api: KubeApi;
  readonly #picture: Picture;
  readonly #usedSpaces: MachineLedgerOptions["usedSpaces"];
  readonly #index = new OwnerIndex();
  /** By network: the revision of what the picture was taken from. */
  readonly #pictured = new Map<string, number>();
  #pictures = 0;
  readonly #contact: ClusterContinuity;
  readonly #reservations: KubernetesReservations;

  constructor({ api, identity, usedSpaces, relist, log }: MachineLedgerOptions) {
    this.#api = api;
    this.#usedSpaces = usedSpaces;
    this.#picture = new Picture({
      api,
      startSeed: identity,
      // What is followed is as good as true now: each picture is newer than the one before.
      serverMs: () => this.#pictures,
      read: async (network) => this.#look(network),
    });
    this.#contact = new ClusterContinuity({
      api,
      node: identity,
      recoveryMs: RECOVERY_MS,
      log,
      relist,
      readMark: (network, deadlineMs) => this.#readMark(network, deadlineMs),
      // Nothing is attached here that could be missing.
      compare: () => this.#contact.continuity.noteCompared(this.#contact.continuity.gap),
    });
    const { continuity } = this.#contact;
    this.#reservations = new KubernetesReservations({
      api,
      context: { clock: api.clock },
      client: new AllocationClient(api, "housekeeping", continuity),
      picture: this.#picture,
      continuity,
      holdings: this.#holdings(),
      claimAccess: { read: async () => null },
      mutex: new KeyedMutex(api.clock),
      msMax: RESERVE_MS_MAX,
      waits: false,
    });
  }

  upsert(object: IPAllocation): void {
    this.#index.put(object);
  }

  gone(object: IPAllocation): void {
    this.#index.remove(object.metadata.name);
  }

  /** The state of the watch of the allocations, which detects gaps. */
  noteState(state: ReflectorState): void {
    this.#contact.noteState(state);
    const { continuity } = this.#contact;
    if (state === "watching") continuity.noteCompared(continuity.gap);
  }

  stop(): void {
    this.#contact.stop();
  }

  /** What an owner has and what it takes over, on all networks, as far as it is known here. */
  of(owner: Owner): readonly IPAllocation[] {
    return this.#index.of(owner);
  }

  reserve(want: ReserveWant): Promise<ReserveOutcome> {
    this.#look(want.network);
    return this.#reservations.reserve(want);
  }

  release(owner: Owner): Promise<OwnerReleaseOutcome> {
    return this.#reservations.release(owner);
  }

  /** Records an address that the owner has been told already; also while the network recovers. Throws NotRecorded. */
  async record(owner: Owner, network: string, one: InterfaceAddress, importedFrom?: string): Promise<RecordOutcome> {
    const holder = { owner: toAllocationOwner(owner), attachment: null, ...(importedFrom && { importedFrom }) };
    const outcome = await reserveInUse(this.#api, network, one, holder);
    if (outcome.kind === "recorded" || outcome.kind === "held") this.#learn(outcome.object);
    return outcome;
  }

  #look(network: string): void {
    const revision = this.#usedSpaces.revisionOf(network);
    const isNew = this.#pictured.get(network) !== revision;
    this.#pictured.set(network, revision);
    this.#pictures += 1;
    const { version } = this.#usedSpaces;
    if (isNew)
      this.#picture.take(network, {
        ...this.#usedSpaces.of(network),
        ...{ observedMs: this.#pictures, version, unlisted: new Map() },
      });
    else this.#picture.confirm(network);
  }

  #learn(object: IPAllocation): void {
    const { network, owner } = object.spec;
    this.#index.put(object);
    const { address } = owned(object);
    this.#picture.note(network, address, owner.uid, object.status?.state, object.metadata.resourceVersion);
  }

  #holdings(): Holdings {
    return {
      mayLag: true,
      of: async (owner, network) =>
        this.#index
          .of(owner)
          .filter(({ spec }) => spec.network === network)
          .map(owned),
      learned: (object) => this.#index.put(object),
      forgotten: (name) => this.#index.remove(name),
    };
  }

  /** The end of a recovery is written by nodes, which know when everything is back. */
  async #readMark(network: string, deadlineMs: number): Promise<void> {
    const object = await readNetworkObject(this.#api, network, deadlineMs);
    const { continuity } = this.#contact;
    continuity.noteVersion(object?.metadata.resourceVersion);
    continuity.noteMark(network, recoveryMark(object));
  }
}
