import type { IdentityVm } from "../../identity/wire.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { namespacedPath } from "../../kube/objects.ts";
import type { Reflected } from "../../kube/reflected-items.ts";
import type { Reflector } from "../../kube/reflector.ts";
import { projectVm, VMIS_PATH, VMS_PATH, type VmView } from "../../kube/views/tenant-objects.ts";
import { projectVmi, type VmiView } from "../../kube/views/vmi-view.ts";
import { BoundedMap } from "../../platform/bounded-map.ts";
import type { Clock } from "../../platform/time.ts";
import type { NamespaceWatch } from "./namespace-watch.ts";

/** For a read of what the watch does not have, ms. */
const READ_MS_MAX = 3_000;
/** An object that was missing is not read again so soon, ms. */
const ABSENT_MS = 5_000;
const ABSENT_REMEMBERED_MAX = 1_000;

/** What is known of a VM. */
export interface VmObjects {
  readonly vmi: VmiView | null;
  readonly vm: VmView | null;
}

/**
 * Finds the objects of a VM by name and UID. A watch is always a little behind: the object of that name may be an
 * earlier VM's; then the API is read, so that no guest gets another VM's content.
 */
export class VmDirectory {
  readonly #objects: ObjectClient;
  readonly #clock: Clock;
  /** Until when each counts as absent. */
  readonly #absentMs = new BoundedMap<string, number>(ABSENT_REMEMBERED_MAX);

  constructor(api: KubeApi) {
    this.#objects = new ObjectClient(api, "add");
    this.#clock = api.clock;
  }

  /** Throws ApiAway when the API has to be asked and does not answer. */
  async find(watch: NamespaceWatch, { namespace, name, uid, vmiUid }: IdentityVm): Promise<VmObjects> {
    // A name alone may be a later VM's.
    if (vmiUid === null && uid === "") return { vmi: null, vm: null };
    const vmi = await this.#object<VmiView>({
      watch: watch.vmis,
      path: namespacedPath(VMIS_PATH, namespace, name),
      key: `${namespace}/${name}`,
      wanted: vmiUid ?? `of ${uid}`,
      isIt: (one) => (vmiUid === null ? one.vmUid === uid : one.uid === vmiUid),
      project: projectVmi,
    });
    const vmUid = uid || vmi?.vmUid;
    if (!vmUid) return { vmi, vm: null };
    const vm = await this.#object<VmView>({
      watch: watch.vms,
      path: namespacedPath(VMS_PATH, namespace, name),
      key: `${namespace}/${name}`,
      wanted: vmUid,
      isIt: (one) => one.uid === vmUid,
      project: projectVm,
    });
    return { vmi, vm };
  }

  async #object<T extends Reflected>(request: {
    readonly watch: Reflector<T>;
    readonly path: string;
    readonly key: string;
    /** The UID, or what else tells it from others of its name. */
    readonly wanted: string;
    readonly isIt: (one: T) => boolean;
    readonly project: (object: unknown) => T;
  }): Promise<T | null> {
    const { watch, path, key, wanted, isIt, project } = request;
    const known = watch.items.get(key);
    if (known !== undefined && isIt(known)) return known;
    if (watch.missing || watch.forbidden) return null;
    const nowMs = this.#clock.monotonicMs();
    const place = `${path} ${wanted}`;
    if (nowMs < (this.#absentMs.get(place) ?? 0)) return null;
    const read = await this.#objects.get(path, nowMs + READ_MS_MAX);
    const fresh = read.kind === "present" ? project(read.object) : null;
    if (fresh !== null && isIt(fresh)) return fresh;
    this.#absentMs.set(place, nowMs + ABSENT_MS);
    return null;
  }
}
