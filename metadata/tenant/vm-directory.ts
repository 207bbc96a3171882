import type { IdentityVm } from "../../identity/wire.ts";
import { type ObjectReading, problemOf } from "../../kube/answers.ts";
import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { labelSelector } from "../../kube/object-names.ts";
import { namespacedPath } from "../../kube/objects.ts";
import { Reflector, type ReflectorTimings } from "../../kube/reflector.ts";
import { projectVm, VMIS_PATH, VMS_PATH, type VmView } from "../../kube/views/tenant-objects.ts";
import { projectVmi, type VmiView } from "../../kube/views/vmi-view.ts";
import type { Log } from "../../platform/log.ts";
import { CachedReads } from "./cached-reads.ts";

/** KubeVirt's label of a running VMI. During a migration it names the source, until the target runs it. */
const NODE_LABEL = "kubevirt.io/nodeName";

export interface VmObjects {
  readonly vmi: VmiView | null;
  readonly vm: VmView | null;
}

export interface VmDirectoryOptions {
  readonly api: KubeApi;
  readonly log: Pick<Log, "info" | "warn">;
  readonly node: string;
  readonly timings?: Partial<ReflectorTimings>;
  /** Default 5 s. */
  readonly firstReadMsMax?: number | undefined;
}

/**
 * Finds the objects of a VM by name and UID. The VMIs that KubeVirt says run here are watched, with one watch for all
 * namespaces. What that watch does not have is read by name: a VMI that comes in by migration, whose label names the
 * other node still, or one that is newer than what the watch has told. VirtualMachines are read by name when a guest
 * asks. Whatever is read counts for one UID alone, so that no guest gets another VM's content.
 */
export class VmDirectory {
  readonly #vmis: Reflector<VmiView>;
  readonly #readVmis: CachedReads<VmiView | null>;
  readonly #readVms: CachedReads<VmView | null>;

  constructor({ api, log, node, timings, firstReadMsMax }: VmDirectoryOptions) {
    this.#vmis = new Reflector<VmiView>({
      api,
      log,
      path: VMIS_PATH,
      query: { labelSelector: labelSelector(NODE_LABEL, node) },
      forbiddenIsEmpty: true,
      project: projectVmi,
      onUpsert: () => {},
      onDelete: () => {},
      ...(timings ? { timings } : {}),
    });
    this.#readVmis = new CachedReads(api, firstReadMsMax);
    this.#readVms = new CachedReads(api, firstReadMsMax);
  }

  /** Does not wait for the API. */
  start(): void {
    this.#vmis.start();
  }

  stop(): Promise<void> {
    return this.#vmis.stop();
  }

  /** Throws ApiAway when the API has to be asked and does not answer. */
  async find({ namespace, name, uid, vmiUid }: IdentityVm): Promise<VmObjects> {
    // A name alone may be a later VM's.
    if (vmiUid === null && uid === "") return { vmi: null, vm: null };
    const [vmi, vm] = await Promise.all([
      this.#vmi({ namespace, name, uid, vmiUid }),
      uid === "" ? null : this.#vm(namespace, name, uid),
    ]);
    const owner = uid === "" ? (vmi?.vmUid ?? "") : "";
    return { vmi, vm: owner === "" ? vm : await this.#vm(namespace, name, owner) };
  }

  async #vmi(of: Pick<IdentityVm, "namespace" | "name" | "uid" | "vmiUid">): Promise<VmiView | null> {
    const { namespace, name, uid, vmiUid } = of;
    const isIt = (one: VmiView) => (vmiUid === null ? one.vmUid === uid : one.uid === vmiUid);
    const watched = this.#vmis.items.get(`${namespace}/${name}`);
    if (watched !== undefined && isIt(watched)) return watched;
    const path = namespacedPath(VMIS_PATH, namespace, name);
    const judge = (read: ObjectReading) => objectIn(read, path, projectVmi, isIt);
    return this.#readVmis.readObject(path, vmiUid ?? `of ${uid}`, judge);
  }

  #vm(namespace: string, name: string, uid: string): Promise<VmView | null> {
    const path = namespacedPath(VMS_PATH, namespace, name);
    const judge = (read: ObjectReading) => objectIn(read, path, projectVm, (one) => one.uid === uid);
    return this.#readVms.readObject(path, uid, judge);
  }
}

/** null: none, or another of its name. Throws ApiAway when it may not be read: a guest asks for user-data only once. */
function objectIn<T>(
  read: ObjectReading,
  path: string,
  project: (object: unknown) => T,
  isIt: (one: T) => boolean,
): T | null {
  if (read.kind === "refused") throw new ApiAway(`GET ${path}: ${problemOf(read.answer)}`);
  const found = read.kind === "present" ? project(read.object) : null;
  return found !== null && isIt(found) ? found : null;
}
