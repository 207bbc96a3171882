/*
 * test/simulation/actors/machines/: Cluster API, its providers and those who use it
 *
 *   plan, definitions, setup   what the seed says; what is installed, when, in which version; the beginning
 *   objects        what is in the API
 *   fleet          the machines: what an infrastructure provider does for each, and which address it has read
 *   clusters, pools, kinds     what people do; move: `clusterctl move`
 *   data, vm-templates         Metal3's machine data, where the controllers serve it
 *   remedies       what people mend in peace, as claims and pools say; at-rest: what must be true then
 */

import type { Timer } from "../../../../platform/time.ts";
import type { Change } from "../../../harness/kube-fake/etcd.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { Violation } from "../../engine/violation.ts";
import type { MachineAddress, World } from "../../world.ts";
import { allOf, at, create, isBeingDeleted, isOpen, keyOf, patch, remove, STORAGE } from "./objects.ts";

export const CLUSTER_LABEL = "cluster.x-k8s.io/cluster-name";
const FINALIZER = "vspherevm.infrastructure.cluster.x-k8s.io/ip-claim-protection";
/** A provider hears of a change so much later, ms; and looks at everything so often. */
const HEARS_MS_MAX = 1_500;
const RESYNC_MS = 10_000;

/** A machine of an infrastructure provider, and its claim. */
export interface FleetMachine {
  readonly namespace: string;
  /** Of the claim; the VSphereVM has it too. */
  readonly name: string;
  readonly cluster: string;
  readonly pool: string;
  readonly annotations: Readonly<Record<string, string>>;
  /** Whether the claim names its cluster itself, or by a label only. */
  readonly namesCluster: boolean;
  /** false: it ends, and its claim with it. */
  isWanted: boolean;
  /** When it has ended, another one of its name begins. */
  isReplaced: boolean;
  /** Its objects are on their way to another management cluster, or there. */
  isMoving: boolean;
  /** What it was told and uses; null: nothing yet. */
  used: { readonly network: string; readonly address: string } | null;
}

const WORLDS = new WeakMap<World, Fleet>();

/** Machines of a world. */
export function fleetOf(world: World): Fleet {
  const known = WORLDS.get(world) ?? new Fleet(world);
  WORLDS.set(world, known);
  return known;
}

/** Machines, and the provider that makes and ends them as the API says. */
export class Fleet {
  readonly machines = new Map<string, FleetMachine>();
  readonly #world: World;
  readonly #due = new Map<string, Timer>();
  readonly #busy = new Set<string>();
  #calls = 0;

  constructor(world: World) {
    this.#world = world;
  }

  /** The provider begins to work. */
  start(): void {
    const { cluster, clock } = this.#world;
    cluster.etcd.listen((change) => this.#heard(change));
    const resync = clock.timer(RESYNC_MS, () => {
      resync.restart();
      for (const key of this.machines.keys()) this.mark(key);
    });
  }

  /** A new machine. false: there is one of its name. */
  add(machine: Omit<FleetMachine, "isWanted" | "isReplaced" | "isMoving" | "used">): boolean {
    const key = `${machine.namespace}/${machine.name}`;
    if (this.machines.has(key)) return false;
    this.machines.set(key, { ...machine, isWanted: true, isReplaced: false, isMoving: false, used: null });
    this.mark(key);
    return true;
  }

  /** Those of a cluster. */
  of(cluster: string): FleetMachine[] {
    return [...this.machines.values()].filter((one) => `${one.namespace}/${one.cluster}` === cluster);
  }

  /** It is looked at soon. */
  mark(key: string): void {
    if (this.#due.has(key)) return;
    const { clock, faults } = this.#world;
    this.#calls += 1;
    const ms = faults.number(`provider ${key} ${this.#calls}`) * HEARS_MS_MAX;
    const timer = clock.timer(ms, () => {
      this.#due.delete(key);
      if (this.#busy.has(key)) return this.mark(key);
      this.#busy.add(key);
      void this.#reconcile(key).finally(() => this.#busy.delete(key));
    });
    this.#due.set(key, timer);
  }

  /**
   * After a restore: what the API server knows nothing of any more is turned off, for nobody would keep its address.
   */
  restored(): void {
    for (const [key, machine] of this.machines) {
      const { used } = machine;
      if (used === null) continue;
      const claim = at(this.#world, "claims", key);
      const isKnown = machine.isMoving || claim !== null;
      if (isKnown && this.#holds(machine, used)) continue;
      this.turnOff(machine);
      this.mark(key);
    }
    for (const claim of allOf(this.#world, "claims")) this.#adopt(claim);
  }

  /** It stops using its address. */
  turnOff(machine: FleetMachine): void {
    if (machine.used === null) return;
    this.#world.oracle.machineDown(addressOf(machine, machine.used.network));
    machine.used = null;
  }

  #heard({ storage, object }: Change): void {
    if (storage !== STORAGE.claims && storage !== STORAGE.addresses && storage !== STORAGE.vsphereVms) return;
    const key = keyOf(object);
    if (this.machines.has(key)) this.mark(key);
  }

  /**
   * A claim of before the restore, whose machine is gone long since, also where another one has its name by now: it is
   * let go.
   */
  #adopt(claim: KubeObject): void {
    const key = keyOf(claim);
    if (!finalizersOf(claim).includes(FINALIZER)) return;
    const { namespace, name } = claim.metadata;
    const cluster = claim.spec.clusterName ?? claim.metadata.labels?.[CLUSTER_LABEL] ?? "";
    const pool = claim.spec.poolRef.name;
    const known = this.machines.get(key);
    if (known !== undefined) {
      if (known.isMoving || (known.cluster === cluster && known.pool === pool)) return;
      // Its own claim was made after that, and nobody knows of it any more.
      this.turnOff(known);
      this.machines.delete(key);
    }
    this.add({ namespace, name, cluster, pool, annotations: {}, namesCluster: true });
    (this.machines.get(key) as FleetMachine).isWanted = false;
  }

  async #reconcile(key: string): Promise<void> {
    const machine = this.machines.get(key);
    if (machine === undefined || machine.isMoving) return;
    const cluster = at(this.#world, "clusters", `${machine.namespace}/${machine.cluster}`);
    if (cluster?.spec?.paused === true) return;
    const claim = at(this.#world, "claims", key);
    if (claim !== null && isBeingDeleted(claim) && machine.isWanted) machine.isWanted = false;
    if (!machine.isWanted || !isOpen(this.#world, machine.namespace)) await this.#end(machine, claim);
    else if (claim === null) await this.#ask(machine);
    else this.#read(machine, claim);
  }

  /** The machine first, then what it had. */
  async #end(machine: FleetMachine, claim: KubeObject | null): Promise<void> {
    const key = `${machine.namespace}/${machine.name}`;
    this.turnOff(machine);
    await remove(this.#world, "vsphereVms", key, { propagation: "Background" });
    if (claim !== null) {
      const finalizers = finalizersOf(claim).filter((one) => one !== FINALIZER);
      await patch(this.#world, "claims", key, { metadata: { finalizers } });
      await remove(this.#world, "claims", key);
      if (at(this.#world, "claims", key) !== null) return;
    }
    this.#world.counts.add("machines.ended");
    // After a restore another one may have its name.
    if (this.machines.get(key) !== machine) return;
    this.machines.delete(key);
    if (!machine.isReplaced || !isOpen(this.#world, machine.namespace)) return;
    this.#world.counts.add("machines.replaced");
    this.add({ ...machine });
  }

  /** Owner and claim; a machine that runs already is told the same again, or it says so. */
  async #ask(machine: FleetMachine): Promise<void> {
    const { namespace, name, cluster, pool, annotations, namesCluster } = machine;
    const key = `${namespace}/${name}`;
    const labels = { [CLUSTER_LABEL]: cluster };
    const known = at(this.#world, "vsphereVms", key);
    const owner =
      known ?? (await create(this.#world, "vsphereVms", { metadata: { name, namespace, labels }, spec: {} }));
    if (owner === null || isBeingDeleted(owner)) return;
    const { apiVersion, kind } = owner;
    const claim = await create(this.#world, "claims", {
      metadata: {
        ...{ name, namespace, labels, annotations, finalizers: [FINALIZER] },
        ownerReferences: [
          { apiVersion, kind, name, uid: owner.metadata.uid, controller: true, blockOwnerDeletion: true },
        ],
      },
      spec: {
        poolRef: { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: pool },
        ...(namesCluster ? { clusterName: cluster } : {}),
      },
    });
    if (claim !== null) this.#world.counts.add("machines.claimed");
  }

  /** The answer, once it is complete. */
  #read(machine: FleetMachine, claim: KubeObject): void {
    const { namespace } = machine;
    const reference = claim.status?.addressRef?.name;
    const answer = reference ? at(this.#world, "addresses", `${namespace}/${reference}`) : null;
    if (answer === null || isBeingDeleted(answer)) return;
    const address = `${answer.spec.address}/${answer.spec.prefix}`;
    if (machine.used !== null) {
      if (machine.used.address === address) return;
      const before = machine.used.address;
      const what = `machine ${namespace}/${machine.name} uses ${before}, and its claim is answered ${address}`;
      throw new Violation("machine's address changed", what);
    }
    const pool = at(this.#world, "pools", `${namespace}/${answer.spec.poolRef.name}`);
    const network = this.#networkOf(claim, pool);
    if (network === null) return;
    machine.used = { network, address };
    this.#world.counts.add("machines.answered");
    this.#world.story.tell(`machine ${namespace}/${machine.name}`, `uses ${address} of network ${network}`);
    this.#world.oracle.machineUp(addressOf(machine, network), address);
  }

  /** Of the address that it was given: its pool may mean another network by now. */
  #networkOf(claim: KubeObject, pool: KubeObject | null): string | null {
    const { uid } = claim.metadata;
    const own = allOf(this.#world, "allocations").find(({ spec }) => spec.owner.uid === uid);
    return own?.spec.network ?? pool?.spec.network ?? null;
  }

  #holds({ namespace, name }: FleetMachine, used: NonNullable<FleetMachine["used"]>): boolean {
    return allOf(this.#world, "allocations").some(
      ({ spec, status }) =>
        spec.network === used.network &&
        spec.address === used.address &&
        spec.owner.namespace === namespace &&
        spec.owner.name === name &&
        status?.state === "Bound",
    );
  }
}

function addressOf({ namespace, name }: FleetMachine, network: string): MachineAddress {
  return { network, namespace, claim: name };
}

function finalizersOf({ metadata }: KubeObject): readonly string[] {
  return metadata.finalizers ?? [];
}
