import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { interfaceOf, launcherParts, podObject } from "../../../harness/world/kubevirt-objects.ts";
import type { World } from "../../world.ts";
import { readNad } from "../networks.ts";
import { create, hasEnded, isBeingDeleted, keyOf, NADS, objectAt, PODS, patch, remove, VMIS } from "../objects.ts";
import {
  chanceOf,
  claimNameOf,
  EXIT_ANNOTATION,
  interfacesIn,
  launchersOf,
  MIGRATION_LABEL,
  type Migration,
  nadKeyOf,
  scheduled,
  VMI_FINALIZER,
} from "./machines.ts";
import { Migrations } from "./migrations.ts";

const WHO = "virt-controller";
/** How long a launcher pod whose guest has left stays, where it is removed by itself, ms. */
const LEFT_MS_MAX = 30_000;

/** What KubeVirt's controller does with an instance and its launcher pods, one step at a time. */
export class VirtInstances {
  readonly #world: World;
  readonly #migrations: Migrations;
  /** Launcher pods that are removed some time after their guest has left, by UID. */
  readonly #left = new Set<string>();

  /** `again`: has an instance looked at so much later. */
  constructor(world: World, again: (key: string, afterMs: number) => void) {
    this.#world = world;
    this.#migrations = new Migrations(world, {
      again,
      launch: (vmi, migration, but) => this.#launch(vmi, migration, but),
    });
  }

  async reconcile(vmi: KubeObject): Promise<void> {
    const pods = launchersOf(this.#world, vmi);
    if (isBeingDeleted(vmi)) await this.#end(vmi, pods);
    else if (vmi.status.phase === "Pending") await this.#begin(vmi, pods);
    else if (vmi.status.phase === "Scheduling" || vmi.status.phase === "Running") await this.#keep(vmi, pods);
  }

  /** Its launcher pods end first. */
  async #end(vmi: KubeObject, pods: readonly KubeObject[]): Promise<void> {
    const live = pods.filter((pod) => !hasEnded(pod));
    for (const pod of live) if (!isBeingDeleted(pod)) await remove(this.#world, PODS, pod);
    if (live.length > 0) return;
    const finalizers = (vmi.metadata.finalizers ?? []).filter((one: string) => one !== VMI_FINALIZER);
    await patch(this.#world, VMIS, vmi, { metadata: { finalizers } });
  }

  async #begin(vmi: KubeObject, pods: readonly KubeObject[]): Promise<void> {
    const pod = pods.find((one) => !hasEnded(one)) ?? (await this.#launch(vmi, null, []));
    if (pod === null) return;
    await patch(this.#world, VMIS, vmi, { status: { phase: "Scheduling", launcher: pod.metadata.uid } });
  }

  async #keep(vmi: KubeObject, pods: readonly KubeObject[]): Promise<void> {
    const pod = pods.find(({ metadata }) => metadata.uid === vmi.status.launcher);
    if (pod === undefined || hasEnded(pod)) {
      const phase = pod?.status.phase ?? "Failed";
      this.#world.story.tell(WHO, `the guest of ${keyOf(vmi)} has ended: ${phase}`);
      this.#world.counts.add("vm.ended");
      await patch(this.#world, VMIS, vmi, { status: { phase } });
      return;
    }
    if (vmi.status.phase === "Scheduling") {
      if (pod.status?.phase === "Running") await this.#started(vmi, pod);
      return;
    }
    await this.#migrations.follow(vmi, pods);
    const now = objectAt(this.#world, VMIS, keyOf(vmi));
    if (now?.metadata.uid === vmi.metadata.uid) await this.#clear(now, pods);
  }

  async #started(vmi: KubeObject, { spec, metadata }: KubeObject): Promise<void> {
    const interfaces = interfacesIn(vmi.spec).map(({ logical, mac }) => ({
      name: logical,
      podInterfaceName: interfaceOf(logical),
      ...(mac === undefined ? {} : { mac }),
    }));
    const status = { phase: "Running", nodeName: spec.nodeName, interfaces };
    if ((await patch(this.#world, VMIS, vmi, { status })) === null) return;
    this.#world.counts.add("vm.started");
    this.#world.story.tell(WHO, `VM ${keyOf(vmi)} runs in ${metadata.name} on ${spec.nodeName}`);
  }

  /** Launcher pods that no guest is in: what it has left, and targets of migrations that failed. */
  async #clear(vmi: KubeObject, pods: readonly KubeObject[]): Promise<void> {
    const { launcher, migrationState } = vmi.status;
    const migration = migrationState as Migration | undefined;
    const isUnderWay = migration?.state === "scheduling" || migration?.state === "running";
    for (const pod of pods) {
      const { uid, labels, annotations } = pod.metadata;
      if (uid === launcher || isBeingDeleted(pod)) continue;
      if (isUnderWay && labels?.[MIGRATION_LABEL] === migration.uid) continue;
      const exits = annotations?.[EXIT_ANNOTATION] !== undefined;
      if (hasEnded(pod)) this.#clearLater(pod);
      else if (exits) continue;
      else if (uid !== migration?.source) await remove(this.#world, PODS, pod);
      else await patch(this.#world, PODS, pod, { metadata: { annotations: { [EXIT_ANNOTATION]: "0" } } });
    }
  }

  /** Some stay for as long as the instance exists. */
  #clearLater(pod: KubeObject): void {
    const { uid } = pod.metadata;
    if (this.#left.has(uid)) return;
    this.#left.add(uid);
    const chance = chanceOf(this.#world, `launcher ${keyOf(pod)} stays`);
    if (chance.happens(0.3)) return;
    this.#world.clock.timer(chance.below(LEFT_MS_MAX), () => {
      this.#left.delete(uid);
      void remove(this.#world, PODS, pod);
    });
  }

  /** A launcher pod, on a node that is none of these. */
  async #launch(vmi: KubeObject, migration: Migration | null, but: readonly string[]): Promise<KubeObject | null> {
    const world = this.#world;
    const { namespace, name, uid } = vmi.metadata;
    const node = scheduled(world, chanceOf(world, `schedule ${uid} ${migration?.uid}`), but);
    if (node === null) return null;
    const labels = migration === null ? {} : { [MIGRATION_LABEL]: migration.uid };
    const parts = launcherParts(vmi, { node, networks: this.#selection(vmi), labels });
    const pod = podObject(namespace, { generateName: `virt-launcher-${name}-` }, parts);
    const created = await create(world, PODS, pod);
    if (created !== null) world.story.tell(WHO, `creates ${created.metadata.name} on ${node} for ${keyOf(vmi)}`);
    return created;
  }

  /**
   * What the launcher selects, with the claims that the IPAM controller's webhook adds: none at all where a NAD is
   * missing.
   */
  #selection(vmi: KubeObject) {
    const { namespace, name } = vmi.metadata;
    const networks = interfacesIn(vmi.spec).map(({ logical, nad, mac }) => {
      const [nadNamespace, nadName] = nadKeyOf(namespace, nad).split("/") as [string, string];
      const object = objectAt(this.#world, NADS, `${nadNamespace}/${nadName}`);
      const element = {
        name: nadName,
        namespace: nadNamespace,
        interface: interfaceOf(logical),
        ...(mac === undefined ? {} : { mac }),
      };
      const isPersistent = object !== null && readNad(object)?.isPersistent === true;
      return { object, element, claim: isPersistent ? claimNameOf(name, logical) : null };
    });
    const isWhole = networks.every(({ object }) => object !== null);
    return networks.map(({ element, claim }) =>
      isWhole && claim !== null ? { ...element, "ipam-claim-reference": claim } : element,
    );
  }
}
