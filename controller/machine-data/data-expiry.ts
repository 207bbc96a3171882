import type { KubeApi } from "../../kube/kube-api.ts";
import { DATA_CLAIMS_PATH, MACHINE_DATAS_PATH } from "../../kube/metal3.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { namespacedPath } from "../../kube/objects.ts";
import { type MachineDataView, projectDataClaim } from "../../kube/views/machine-data-view.ts";
import { type Metal3MachineView, projectMetal3Machine } from "../../kube/views/metal3-machine-view.ts";
import type { Log } from "../../platform/log.ts";
import { claimNameOf, claimOwnerOf, dataName, isDataOf, machineOwnerOf } from "./data-bodies.ts";
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
 * Deletes data objects whose claim and machine are gone or going, which ends their index, addresses and Secrets: the
 * garbage collector keeps one whose machine is being deleted. A machine that lives claims its data object again. What
 * somebody made by hand stays, unless its claim says that it is its own: an object that nobody ever owned, or whose
 * name contradicts its spec.
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

  /** Whether something may have to go that has not been gone for long enough, or could not be deleted. */
  get isWaiting(): boolean {
    return this.#gone.isObserving;
  }

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
        log.warn({ data: data.key, problem: (error as Error).message }, "not deleted; will retry");
      }
    }
  }

  #isOver(data: MachineDataView): boolean {
    const { world } = this.#options;
    const { templates, claims, metal3Machines } = world.caches;
    if (data.deletionTimestamp !== null || data.paused || world.clusterProblem(data) !== null) return false;
    if (templates.items.get(`${data.namespace}/${data.template.name}`)?.paused) return false;
    const machine = machineOwnerOf(data);
    const claim = claims.items.get(`${data.namespace}/${claimNameOf(data)}`);
    const isSound = data.name === dataName(data.series, data.index);
    const isOwned = claimOwnerOf(data) !== undefined || machine !== undefined;
    const isNamed = claim?.renderedData === data.name && isDataOf(data, claim);
    if ((!isSound || !isOwned) && !isNamed) return false;
    if (claim !== undefined && claim.deletionTimestamp === null) return !isDataOf(data, claim);
    return !isOf(data, machine && metal3Machines.items.get(`${data.namespace}/${machine.name}`));
  }

  async #delete(data: MachineDataView): Promise<void> {
    const { log } = this.#options;
    const { namespace, name, uid, resourceVersion } = data;
    const claim = claimNameOf(data);
    const reading = await this.#objects.get(namespacedPath(DATA_CLAIMS_PATH, namespace, claim));
    if (reading.kind !== "absent" && reading.kind !== "present") return;
    const found = reading.kind === "present" ? projectDataClaim(reading.object) : null;
    const isThere = found !== null && found.deletionTimestamp === null;
    if (isThere ? isDataOf(data, found) : await this.#hasMachine(data)) return;
    const path = namespacedPath(MACHINE_DATAS_PATH, namespace, name);
    const deleted = await this.#objects.delete(path, { uid, resourceVersion });
    if (deleted.kind === "done") log.info({ data: data.key, claim }, "deleted: its claim is gone");
    if (deleted.kind !== "refused") return;
    log.warn({ data: data.key, status: deleted.answer.status }, "cannot be deleted; will retry");
  }

  /** Read afresh. */
  async #hasMachine(data: MachineDataView): Promise<boolean> {
    const { path, missing } = this.#options.world.caches.metal3Machines;
    const owner = machineOwnerOf(data);
    if (owner === undefined || missing) return false;
    const object = await this.#objects.find(namespacedPath(path, data.namespace, owner.name));
    return object !== null && isOf(data, projectMetal3Machine(object));
  }
}

/** Whether the machine is the data object's, and will claim it again. */
function isOf(data: MachineDataView, machine: Metal3MachineView | undefined): boolean {
  if (machine === undefined || machine.uid !== machineOwnerOf(data)?.uid) return false;
  return machine.deletionTimestamp === null && machine.dataTemplate?.name === data.template.name;
}
