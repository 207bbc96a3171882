import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import {
  activePodsOf,
  interfaceOf,
  launcherParts,
  MIGRATION_LABEL,
  NODE_LABEL,
  podObject,
  VMI_FINALIZERS,
} from "../../../harness/world/kubevirt-objects.ts";
import type { World } from "../../world.ts";
import { readNad } from "../networks.ts";
import { create, hasEnded, isBeingDeleted, keyOf, NADS, objectAt, PODS, patch, remove, VMIS } from "../objects.ts";
import { claimNameOf, EXIT_ANNOTATION, interfacesIn, launchersOf, type Migration, nadKeyOf } from "./machines.ts";
import { Migrations } from "./migrations.ts";

const WHO = "virt-controller";

/** What KubeVirt's controller does with an instance and its launcher pods, one step at a time. */
export class VirtInstances {
  readonly #world: World;
  readonly #migrations: Migrations;

  /** `again`: has an instance looked at so much later. */
  constructor(world: World, again: (key: string, afterMs: number) => void) {
    this.#world = world;
    this.#migrations = new Migrations(world, {
      again,
      launch: (vmi, migration) => this.#launch(vmi, migration),
    });
  }

  async reconcile(vmi: KubeObject): Promise<void> {
    const pods = launchersOf(this.#world, vmi);
    const { phase } = vmi.status;
    await this.#list(vmi, pods);
    if (isBeingDeleted(vmi)) await this.#end(vmi, pods);
    else if (phase === undefined) await patch(this.#world, VMIS, vmi, { status: { phase: "Pending" } });
    else if (phase === "Pending") await this.#begin(vmi, pods);
    else if (phase === "Scheduling" || phase === "Scheduled" || phase === "Running") await this.#keep(vmi, pods);
  }

  /** By their existence: also those that have ended, and without a node those that are not bound yet. */
  async #list(vmi: KubeObject, pods: readonly KubeObject[]): Promise<void> {
    const before = vmi.status.activePods ?? {};
    const now = activePodsOf(pods);
    const gone = Object.keys(before).filter((uid) => !(uid in now));
    if (gone.length === 0 && Object.entries(now).every(([uid, node]) => before[uid] === node)) return;
    const activePods = { ...now, ...Object.fromEntries(gone.map((uid) => [uid, null])) };
    await patch(this.#world, VMIS, vmi, { status: { activePods } });
  }

  /** Its launcher pods end first, then it says so, then it goes. */
  async #end(vmi: KubeObject, pods: readonly KubeObject[]): Promise<void> {
    const live = pods.filter((pod) => !hasEnded(pod));
    for (const pod of live) if (!isBeingDeleted(pod)) await remove(this.#world, PODS, pod);
    if (live.length > 0) return;
    if (!hasEnded(vmi)) await patch(this.#world, VMIS, vmi, { status: { phase: "Succeeded" } });
    else {
      const finalizers = (vmi.metadata.finalizers ?? []).filter((one: string) => !VMI_FINALIZERS.includes(one));
      await patch(this.#world, VMIS, vmi, { metadata: { finalizers } });
    }
  }

  async #begin(vmi: KubeObject, pods: readonly KubeObject[]): Promise<void> {
    const pod = pods.find((one) => !hasEnded(one)) ?? (await this.#launch(vmi, null));
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
      if (pod.status?.phase === "Running") await this.#scheduled(vmi, pod);
      return;
    }
    if (vmi.status.phase === "Scheduled") {
      await this.#started(vmi, pod);
      return;
    }
    await this.#migrations.follow(vmi, pods);
    const now = objectAt(this.#world, VMIS, keyOf(vmi));
    if (now?.metadata.uid === vmi.metadata.uid) await this.#clear(now, pods);
  }

  /** Its launcher is ready: only now it has a node. */
  async #scheduled(vmi: KubeObject, { spec: { nodeName } }: KubeObject): Promise<void> {
    const interfaces = interfacesIn(vmi.spec).map(({ logical, mac }) => ({
      name: logical,
      podInterfaceName: interfaceOf(logical),
      ...(mac === undefined ? {} : { mac }),
    }));
    const metadata = { labels: { [NODE_LABEL]: nodeName } };
    await patch(this.#world, VMIS, vmi, { metadata, status: { phase: "Scheduled", nodeName, interfaces } });
  }

  /** What virt-handler says. */
  async #started(vmi: KubeObject, { spec, metadata }: KubeObject): Promise<void> {
    if ((await patch(this.#world, VMIS, vmi, { status: { phase: "Running" } })) === null) return;
    this.#world.counts.add("vm.started");
    this.#world.story.tell(WHO, `VM ${keyOf(vmi)} runs in ${metadata.name} on ${spec.nodeName}`);
  }

  /**
   * Launcher pods that no guest is in: what it has left, and targets of migrations that failed. Their launchers end;
   * the pods stay until their instance goes. Only what never ran is deleted.
   */
  async #clear(vmi: KubeObject, pods: readonly KubeObject[]): Promise<void> {
    const { launcher, migrationState } = vmi.status;
    const migration = migrationState as Migration | undefined;
    const isUnderWay = migration?.state === "scheduling" || migration?.state === "running";
    for (const pod of pods) {
      const { uid, labels, annotations } = pod.metadata;
      if (uid === launcher || isBeingDeleted(pod) || hasEnded(pod)) continue;
      if (isUnderWay && labels?.[MIGRATION_LABEL] === migration.uid) continue;
      if (annotations?.[EXIT_ANNOTATION] !== undefined) continue;
      const code = uid === migration?.source ? "0" : "1";
      if (pod.status?.phase !== "Running") await remove(this.#world, PODS, pod);
      else await patch(this.#world, PODS, pod, { metadata: { annotations: { [EXIT_ANNOTATION]: code } } });
    }
  }

  /** A launcher pod. It waits for the scheduler. */
  async #launch(vmi: KubeObject, migration: Migration | null): Promise<KubeObject | null> {
    const world = this.#world;
    const { namespace, name } = vmi.metadata;
    const labels = migration === null ? {} : { [MIGRATION_LABEL]: migration.uid };
    const parts = launcherParts(vmi, { networks: this.#selection(vmi), labels });
    const pod = podObject(namespace, { generateName: `virt-launcher-${name}-` }, parts);
    const created = await create(world, PODS, pod);
    if (created !== null) world.story.tell(WHO, `creates ${created.metadata.name} for ${keyOf(vmi)}`);
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
