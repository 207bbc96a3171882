/*
 * machine/: a node, as far as it is there without the product
 *
 *   machines         all of them; what is written about pods finds its kubelet
 *   machine          one: power, boots, its daemons
 *   clocks           its clocks; a process's time, which can stand still or end
 *   disk             state directories, copied at the instant of a crash; lost power, backups, damage
 *   databases        which are open: a full disk
 *   impostor         another machine under the name of one
 *   daemon-process   one daemon of the product, from start to end; settings: what it is told
 *   plugin-binary    what cni-shim/ does
 *   runtime, multus  sandboxes, namespaces, CNI calls
 *   kubelet, pod-worker, static-pod, pod-care   the pods of a node
 *   other-plugins    addresses from before a network was ours
 *   actions          what happens to machines; runtime-, disk-actions, switch-over, default-network; chosen
 */

import { mkdtempSync, rmSync } from "node:fs";
import { interval } from "../../../platform/time.ts";
import type { Change } from "../../harness/kube-fake/etcd.ts";
import type { KubeObject } from "../../harness/kube-fake/objects.ts";
import type { World } from "../world.ts";
import { knowDatabases } from "./databases.ts";
import { type MachineKind, SimMachine } from "./machine.ts";
import { OtherPlugins } from "./other-plugins.ts";
import { PODS } from "./runtime.ts";

/** A kubelet lists its pods now and then: a restored etcd tells nobody what it has changed. */
const RELIST_MS = 10_000;

/** Their clocks go slower and faster than any real one. */
const USUAL: MachineKind = { settings: {}, rateSpread: 0.06 };

/**
 * Machines `node-1` to `node-<count>`, which boot when time begins to pass. Their directories are removed at the end.
 */
export function makeMachines(world: World, count: number, kind: MachineKind = USUAL): SimMachine[] {
  const root = mkdtempSync("/dev/shm/simulation-");
  const remove = () => rmSync(root, { recursive: true, force: true });
  process.once("exit", remove);
  world.atEnd(() => {
    process.off("exit", remove);
    remove();
  });
  const pods = new PodsByNode(world);
  const shared = {
    root,
    claimsInUse: new Map<string, number>(),
    others: new OtherPlugins(world),
    kind,
    podsOf: (node: string) => pods.of(node),
  };
  knowDatabases();
  const machines = Array.from({ length: count }, (_, index) => {
    const name = `node-${index + 1}`;
    return new SimMachine(world, name, index, shared);
  });
  pods.follow(machines);
  for (const machine of machines) world.clock.timer(0, () => machine.boot());
  return machines;
}

/** Which pods are bound to which node. */
class PodsByNode {
  readonly #world: World;
  readonly #machines = new Map<string, SimMachine>();
  readonly #nodes = new Map<string, Map<string, string>>();
  #restores = 0;

  constructor(world: World) {
    this.#world = world;
  }

  follow(machines: readonly SimMachine[]): void {
    for (const machine of machines) this.#machines.set(machine.name, machine);
    this.#world.cluster.etcd.listen((change) => this.#changed(change));
    interval(this.#world.clock, RELIST_MS, () => this.#relist());
  }

  of(node: string): KubeObject[] {
    const { etcd } = this.#world.cluster;
    return [...this.#keysOf(node)].flatMap(([uid, key]) => {
      const pod = etcd.get(PODS, key);
      return pod?.metadata.uid === uid ? [pod] : [];
    });
  }

  #changed({ storage, key, object, previous, deleted }: Change): void {
    if (storage !== PODS) return;
    const node = object.spec?.nodeName;
    if (node === undefined || !isNews(object, previous, deleted)) return;
    const { uid } = object.metadata;
    if (deleted) this.#keysOf(node).delete(uid);
    else this.#keysOf(node).set(uid, key);
    this.#hear(node, uid, key);
  }

  #relist(): void {
    const { restores } = this.#world.cluster.etcd;
    // Pods that are the same may have a status of before.
    const isRestored = restores !== this.#restores;
    this.#restores = restores;
    const seen = new Map<string, Map<string, string>>();
    for (const { key, object } of this.#world.cluster.etcd.range(PODS, "")) {
      const node = object.spec?.nodeName;
      if (node === undefined) continue;
      if (!seen.has(node)) seen.set(node, new Map());
      seen.get(node)?.set(object.metadata.uid, key);
    }
    for (const node of this.#machines.keys()) {
      const [before, now] = [this.#keysOf(node), seen.get(node) ?? new Map<string, string>()];
      for (const [uid, key] of before) if (!now.has(uid)) this.#hear(node, uid, key);
      for (const [uid, key] of now) if (isRestored || !before.has(uid)) this.#hear(node, uid, key);
      this.#nodes.set(node, now);
    }
  }

  #hear(node: string, uid: string, key: string): void {
    const machine = this.#machines.get(node);
    if (machine?.isUp) machine.kubelet.heard(uid, key);
  }

  #keysOf(node: string): Map<string, string> {
    const known = this.#nodes.get(node);
    if (known !== undefined) return known;
    const keys = new Map<string, string>();
    this.#nodes.set(node, keys);
    return keys;
  }
}

/** Whether a kubelet has anything to do about a change: its own statuses come by here, too. */
function isNews(object: KubeObject, previous: KubeObject | null, deleted: boolean): boolean {
  if (deleted || previous === null || previous.spec?.nodeName === undefined) return true;
  const [now, before] = [object.metadata, previous.metadata];
  return (
    now.uid !== before.uid ||
    now.deletionTimestamp !== before.deletionTimestamp ||
    now.annotations?.["simulation/exit"] !== before.annotations?.["simulation/exit"] ||
    object.status?.phase !== previous.status?.phase
  );
}
