import type { KubeApi } from "../../kube/kube-api.ts";
import { DATA_CLAIMS_PATH, MACHINE_DATAS_PATH } from "../../kube/metal3.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { namespacedPath } from "../../kube/objects.ts";
import { type MachineDataView, projectDataClaim } from "../../kube/views/machine-data-view.ts";
import type { Log } from "../../platform/log.ts";
import { isDataOf } from "./data-bodies.ts";
import type { DataWorld } from "./data-world.ts";
import { Standing } from "./standing.ts";

export interface DataExpiryOptions {
  readonly api: KubeApi;
  readonly world: DataWorld;
  /** How long a claim must have been gone before its data object is deleted. */
  readonly graceMs: number;
  readonly log: Pick<Log, "info" | "warn">;
}

/**
 * Deletes data objects whose claim is gone or going, which ends their index, addresses and Secrets: the garbage collector keeps one
 * that its machine still owns.
 */
export class DataExpiry {
  readonly #options: DataExpiryOptions;
  readonly #objects: ObjectClient;
  readonly #gone: Standing;

  constructor(options: DataExpiryOptions) {
    this.#options = options;
    this.#objects = new ObjectClient(options.api);
    this.#gone = new Standing(options.graceMs);
  }

  /** One pass over all data objects; not concurrently. */
  async runPass(signal: AbortSignal, mayGoOn: () => Promise<boolean>): Promise<void> {
    const { api, world } = this.#options;
    const { datas, claims } = world.caches;
    if (!datas.known || !claims.known) return;
    this.#gone.beginPass(api.clock.monotonicMs());
    const due = [...datas.items.values()].filter((data) => this.#isOver(data) && this.#gone.see(data.uid));
    this.#gone.endPass(api.clock.monotonicMs());
    for (const data of due) {
      if (signal.aborted || !(await mayGoOn())) return;
      try {
        await this.#delete(data);
      } catch (error) {
        // Whatever one object meets, the others go on.
        const { log } = this.#options;
        log.warn({ data: data.key, problem: (error as Error).message }, "not deleted; it comes again");
      }
    }
  }

  #isOver(data: MachineDataView): boolean {
    const { world } = this.#options;
    const { templates, claims } = world.caches;
    if (data.deletionTimestamp !== null || data.paused || world.clusterProblem(data) !== null) return false;
    if (templates.items.get(`${data.namespace}/${data.template.name}`)?.paused) return false;
    const claim = claims.items.get(`${data.namespace}/${data.claim.name}`);
    return claim === undefined || claim.deletionTimestamp !== null || !isDataOf(data, claim);
  }

  async #delete(data: MachineDataView): Promise<void> {
    const { log } = this.#options;
    const { namespace, name, uid, resourceVersion, claim } = data;
    const reading = await this.#objects.get(namespacedPath(DATA_CLAIMS_PATH, namespace, claim.name));
    if (reading.kind !== "absent" && reading.kind !== "present") return;
    const found = reading.kind === "present" ? projectDataClaim(reading.object) : null;
    if (found !== null && found.deletionTimestamp === null && isDataOf(data, found)) return;
    const path = namespacedPath(MACHINE_DATAS_PATH, namespace, name);
    const deleted = await this.#objects.delete(path, { uid, resourceVersion });
    if (deleted.kind === "done")
      log.info({ data: data.key, claim: claim.name }, "deleted: its claim is gone");
    if (deleted.kind !== "refused") return;
    log.warn({ data: data.key, status: deleted.answer.status }, "cannot be deleted; it comes again");
  }
}
