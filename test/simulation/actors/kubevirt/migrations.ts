import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { MIGRATION_LABEL, NODE_LABEL } from "../../../harness/world/kubevirt-objects.ts";
import type { World } from "../../world.ts";
import { hasEnded, isBeingDeleted, keyOf, PODS, patch, remove, VMIS } from "../objects.ts";
import { chanceOf, EXIT_ANNOTATION, type Migration } from "./machines.ts";

const WHO = "virt-controller";
/** Copying the guest's memory, ms. */
const COPY_MS_MAX = 8_000;
/** After this long it is given up, ms. */
const PATIENCE_MS = 60_000;
const FAILS_PROBABILITY = 0.25;

interface Means {
  /** Has an instance looked at so much later. */
  readonly again: (key: string, afterMs: number) => void;
  /** A target pod. */
  readonly launch: (vmi: KubeObject, migration: Migration) => Promise<KubeObject | null>;
}

/** Live migrations: a second launcher pod, some time in which both are there, and the end of one of them. */
export class Migrations {
  readonly #world: World;
  readonly #means: Means;

  constructor(world: World, means: Means) {
    this.#world = world;
    this.#means = means;
  }

  /** The next step of the migration that a running instance is in. */
  async follow(vmi: KubeObject, pods: readonly KubeObject[]): Promise<void> {
    const migration = vmi.status.migrationState as Migration | undefined;
    if (migration === undefined || migration.state === "succeeded" || migration.state === "failed") return;
    const nowMs = this.#world.clock.monotonicMs();
    const target = pods.find(({ metadata }) => metadata.labels?.[MIGRATION_LABEL] === migration.uid);
    if (target === undefined) {
      const created = migration.source === undefined ? await this.#means.launch(vmi, migration) : null;
      if (created === null) await this.#failed(vmi, migration, "it has no target");
      else await this.#set(vmi, { ...migration, source: vmi.status.launcher });
      return;
    }
    if (hasEnded(target) || isBeingDeleted(target)) await this.#failed(vmi, migration, "its target ended");
    else if (nowMs - migration.sinceMs > PATIENCE_MS) {
      await this.#failed(vmi, migration, "it took too long");
      // One that never ran; else its launcher ends.
      if (target.status?.phase !== "Running") await remove(this.#world, PODS, target);
    } else if (migration.state === "scheduling") await this.#scheduled(vmi, migration, target);
    else if (nowMs < (migration.untilMs as number))
      this.#means.again(keyOf(vmi), (migration.untilMs as number) - nowMs);
    else await this.#copied(vmi, migration, target);
  }

  async #scheduled(vmi: KubeObject, migration: Migration, target: KubeObject): Promise<void> {
    const nowMs = this.#world.clock.monotonicMs();
    if (target.status?.phase !== "Running") {
      this.#means.again(keyOf(vmi), PATIENCE_MS);
      return;
    }
    const copyMs = chanceOf(this.#world, `copy ${migration.uid}`).below(COPY_MS_MAX);
    const untilMs = nowMs + copyMs;
    // A restore may have brought back a migration without its source.
    const source = migration.source ?? vmi.status.launcher;
    await this.#set(vmi, { ...migration, state: "running", untilMs, source });
    this.#means.again(keyOf(vmi), copyMs);
  }

  async #copied(vmi: KubeObject, migration: Migration, target: KubeObject): Promise<void> {
    const { faults, counts, story } = this.#world;
    if (faults.decide(`migration ${migration.uid} fails`, FAILS_PROBABILITY)) {
      await this.#failed(vmi, migration, "the connection broke");
      await patch(this.#world, PODS, target, { metadata: { annotations: { [EXIT_ANNOTATION]: "1" } } });
      return;
    }
    const { uid } = target.metadata;
    const { nodeName } = target.spec;
    const migrationState = { ...migration, state: "succeeded" };
    const metadata = { labels: { [NODE_LABEL]: nodeName } };
    const status = { nodeName, launcher: uid, migrationState };
    const done = await patch(this.#world, VMIS, vmi, { metadata, status });
    if (done === null) return;
    counts.add("vm.migrated");
    story.tell(WHO, `VM ${keyOf(vmi)} has migrated to ${nodeName}, into ${target.metadata.name}`);
  }

  async #failed(vmi: KubeObject, migration: Migration, why: string): Promise<void> {
    if (!(await this.#set(vmi, { ...migration, state: "failed" }))) return;
    this.#world.counts.add("vm.migration-failed");
    this.#world.story.tell(WHO, `the migration of ${keyOf(vmi)} failed: ${why}`);
  }

  async #set(vmi: KubeObject, migrationState: Migration): Promise<boolean> {
    return (await patch(this.#world, VMIS, vmi, { status: { migrationState } })) !== null;
  }
}
