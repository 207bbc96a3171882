import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { namespacedPath } from "../../kube/objects.ts";
import type { Reflected } from "../../kube/reflected-items.ts";
import { Reflector, type ReflectorOptions, type ReflectorTimings } from "../../kube/reflector.ts";
import {
  projectVm,
  tenantObjectKey,
  VMIS_PATH,
  VMS_PATH,
  type VmView,
} from "../../kube/views/tenant-objects.ts";
import { projectVmi, type VmiView } from "../../kube/views/vmi-view.ts";
import type { Log } from "../../platform/log.ts";
import { SingleFlight } from "../../platform/single-flight.ts";
import { type Clock, timeoutSignal } from "../../platform/time.ts";
import { RecentKeys } from "../../platform/warn-once.ts";
import { DataObjects } from "./data-objects.ts";
import { NamedObjects, type ObjectReference } from "./named-objects.ts";

/** How long a guest's request waits for its namespace to be known, ms; its client gives up after 10 s. */
const SYNC_MS_MAX = 5_000;
/** A missing right is asked for again by the next request when the refusal is older than this, ms. */
const REFUSAL_AGE_MS = 3_000;
/** For the answer to that, ms; without one, the right counts as missing still. */
const ASK_AGAIN_MS_MAX = 1_000;

export interface NamespaceWatchOptions {
  readonly api: KubeApi;
  readonly log: Pick<Log, "info" | "warn">;
  readonly timings?: Partial<ReflectorTimings>;
  /** Default 5 s. */
  readonly syncMsMax?: number;
}

/**
 * What is known of one namespace while its VMs send requests: its VMs, by watches, the objects that annotations name, and
 * machine data.
 */
export class NamespaceWatch {
  readonly namespace: string;
  readonly vms: Reflector<VmView>;
  readonly vmis: Reflector<VmiView>;
  readonly objects: NamedObjects;
  readonly data: DataObjects;
  readonly #all: readonly Reflector<Reflected>[];
  readonly #clock: Clock;
  readonly #syncMsMax: number;
  /** Objects that may not be read and were already reported. */
  readonly #told = new RecentKeys();
  #uid: string | null = null;
  readonly #asking = new SingleFlight<unknown>();
  #usedMs = Number.NEGATIVE_INFINITY;

  constructor(namespace: string, options: NamespaceWatchOptions) {
    this.namespace = namespace;
    this.#clock = options.api.clock;
    this.#syncMsMax = options.syncMsMax ?? SYNC_MS_MAX;
    function watch<T extends Reflected>(path: string, rest: Partial<ReflectorOptions<T>>) {
      return new Reflector<T>({
        ...options,
        path: namespacedPath(path, namespace),
        forbiddenIsEmpty: true,
        onUpsert: () => {},
        onDelete: () => {},
        project: () => null,
        ...rest,
      });
    }
    this.vms = watch<VmView>(VMS_PATH, { project: projectVm, metadataOnly: true });
    this.vmis = watch<VmiView>(VMIS_PATH, { project: projectVmi });
    const { api, syncMsMax: firstReadMsMax } = options;
    this.objects = new NamedObjects({ api, namespace, firstReadMsMax });
    this.data = new DataObjects({ api, namespace, firstReadMsMax });
    this.#all = [this.vms, this.vmis] as never;
  }

  start(): void {
    for (const one of this.#all) one.start();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#all.map((one) => one.stop()));
  }

  /** Resolves when everything is known that we may read. Throws ApiAway when that takes too long. */
  async ready(): Promise<void> {
    // Nearly always: a request must not pay for timers.
    if (this.#all.every(({ synced, missing, forbidden }) => (synced || missing) && !forbidden)) return;
    const inTime = timeoutSignal(this.#clock, this.#syncMsMax);
    const known = await Promise.all(this.#all.map((one) => one.waitSynced(inTime)));
    if (known.includes(false))
      throw new ApiAway(`what namespace ${this.namespace} has is not known yet: the API server does not say`);
    if (this.#all.some(({ forbidden }) => forbidden)) await this.#askAgain();
  }

  /** The namespace's UID, if known: a namespace created again under the name keeps nothing of the old one. */
  setUid(uid: string | null): void {
    if (uid === null || uid === this.#uid) return;
    if (this.#uid !== null) {
      this.objects.forgetAll();
      this.data.forgetAll();
    }
    this.#uid = uid;
  }

  /** Forbidden objects that were not reported yet. `named`: all that were requested. */
  untold(named: readonly ObjectReference[], forbidden: readonly ObjectReference[]): ObjectReference[] {
    const keyOf = ({ kind, name }: ObjectReference) => tenantObjectKey(kind, name);
    const refused = new Set(forbidden.map(keyOf));
    for (const key of named.map(keyOf)) if (!refused.has(key)) this.#told.forget(key);
    return forbidden.filter((one) => this.#told.addIfNew(keyOf(one)));
  }

  /** Concurrent callers share one answer; while the API is away, few have to wait in vain. */
  async #askAgain(): Promise<void> {
    const nowMs = this.#clock.monotonicMs();
    const asking = this.#asking.underWay();
    if (asking !== undefined || nowMs - this.#usedMs < REFUSAL_AGE_MS) {
      await asking;
      return;
    }
    this.#usedMs = nowMs;
    const soon = timeoutSignal(this.#clock, ASK_AGAIN_MS_MAX);
    await this.#asking.run(() => Promise.all(this.#all.map((one) => one.askAgain(REFUSAL_AGE_MS, soon))));
  }
}
