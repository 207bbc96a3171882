import { isSound, sameAllocationOwner } from "../../allocations/allocation-object.ts";
import { describeHolder } from "../../allocations/owners.ts";
import { problemOf } from "../../kube/answers.ts";
import type { EventWriter } from "../../kube/events.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { ALLOCATIONS_PATH, API_VERSION, BOUND_FINALIZER, type IPAllocation, objectPath } from "../../kube/objects.ts";
import type { ReflectorState } from "../../kube/reflector.ts";
import type { Log } from "../../platform/log.ts";
import { severalAtOnce } from "../../platform/several-at-once.ts";

/**
 * For so long, ms, a taken allocation is remembered: longer than another controller needs to take over, and half as
 * long as a node waits that found nothing to release and looks again (LATE_WRITE_MS_MAX in
 * store/cluster/agreement/over.ts).
 */
const REMEMBERED_MS = 60_000;
/** Remembered at once; what goes beyond it is left to the nodes. */
const REMEMBERED_MAX = 10_000;
const WRITTEN_AT_ONCE = 8;

export interface LostAllocationsOptions {
  readonly api: KubeApi;
  readonly events: Pick<EventWriter, "warn">;
  readonly onLost: () => void;
  readonly onPutBack: () => void;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "info" | "warn" | "error">;
}

interface Lost {
  readonly object: IPAllocation;
  readonly sinceMs: number;
}

/**
 * Allocations that somebody deleted although they were in use, having taken off the finalizer: created again as they
 * were. Whoever releases one writes it as Cooling first (give-back.ts), so one that goes in any other state was taken.
 * What has ended meanwhile, the sweep finds as it finds everything.
 *
 *   the name is free                   created again
 *   its holder has it again            nothing: the node that uses it was faster
 *   another holder has it              reported: two use one address
 *   the API server refuses it          left to the nodes, which compare what they use
 *   contact is lost                    forgotten: what a restored etcd lacks, the nodes have to find
 */
export class LostAllocations {
  readonly #options: LostAllocationsOptions;
  readonly #objects: ObjectClient;
  /** By name. */
  readonly #lost = new Map<string, Lost>();

  constructor(options: LostAllocationsOptions) {
    this.#options = options;
    this.#objects = new ObjectClient(options.api);
  }

  /** An event told that an object was deleted, as it was then. */
  noteDeleted(object: IPAllocation): void {
    if (!isSound(object) || object.status?.state === "Cooling" || this.#lost.size >= REMEMBERED_MAX) return;
    this.#lost.set(object.metadata.name, { object, sinceMs: this.#options.api.clock.monotonicMs() });
    this.#options.onLost();
  }

  /** The state of the watch that tells of deletions. */
  noteState(state: ReflectorState): void {
    if (state !== "watching") this.#lost.clear();
  }

  /** Also where another controller leads, which does it: this one may be the next. Throws ApiAway. */
  async runPass(signal: AbortSignal): Promise<void> {
    const { api, idle, log } = this.#options;
    const oldestMs = api.clock.monotonicMs() - REMEMBERED_MS;
    for (const [name, { sinceMs }] of this.#lost) if (sinceMs < oldestMs) this.#lost.delete(name);
    if (idle() !== null) return;
    const refused: string[] = [];
    let problem = "";
    await severalAtOnce([...this.#lost], WRITTEN_AT_ONCE, async ([name, lost]) => {
      if (signal.aborted || idle() !== null || this.#lost.get(name) !== lost) return;
      const refusal = await this.#putBack(lost.object);
      if (refusal === "again") return;
      if (this.#lost.get(name) === lost) this.#lost.delete(name);
      if (refusal === null) return;
      refused.push(name);
      problem = refusal;
    });
    if (refused.length > 0)
      log.warn(
        { count: refused.length, object: refused[0], problem },
        "allocations that were deleted by force are not put back",
      );
  }

  /** Why it was refused; null: nothing is left to be done. "again": it was there, and is gone. */
  async #putBack(lost: IPAllocation): Promise<string | "again" | null> {
    const { log, events, onPutBack } = this.#options;
    const { network, address } = lost.spec;
    const fields = { network, address, object: lost.metadata.name };
    const holder = describeHolder(lost.spec.owner);
    const written = await this.#objects.create(ALLOCATIONS_PATH, asItWas(lost));
    if (written.kind === "done") {
      onPutBack();
      const message = `${address} of network ${network} was deleted by force while ${holder} holds it, and is put back`;
      const { name, uid } = written.object.metadata;
      log.warn({ ...fields, holder }, message);
      events.warn(
        { apiVersion: API_VERSION, kind: "IPAllocation", name, uid },
        "Restored",
        `${message}; to take an address from its holder: holdfast release ADDRESS --network NETWORK --force`,
      );
      return null;
    }
    if (written.kind !== "conflict") return problemOf(written.answer);
    const now: IPAllocation | null = await this.#objects.find(objectPath(ALLOCATIONS_PATH, lost.metadata.name));
    if (now === null) return "again";
    if (sameAllocationOwner(now.spec.owner, lost.spec.owner)) {
      log.info({ ...fields, holder }, "an allocation that was deleted by force is there again");
      return null;
    }
    const by = describeHolder(now.spec.owner);
    const message = `${address} of network ${network} was deleted by force while ${holder} held it, and belongs to ${by} now`;
    log.error({ ...fields, holder, by }, message);
    for (const { pod } of Object.values(lost.status?.attachments ?? {}))
      if (pod !== undefined)
        events.warn({ apiVersion: "v1", kind: "Pod", ...pod }, "AddressLost", `${message}; recreate the pod`);
    return null;
  }
}

/** Without what the server gives it. */
function asItWas({ apiVersion, kind, metadata, spec, status }: IPAllocation): object {
  const { name, labels, annotations } = metadata;
  return {
    apiVersion,
    kind,
    metadata: { name, labels, annotations, finalizers: [BOUND_FINALIZER] },
    spec,
    status,
  };
}
