/*
 * test/simulation/actors/guests/: what guests ask at 169.254.169.254
 *
 *   guests         who asks, when, and what the oracle hears of the answer
 *   simulated-metadata  what answers on one node; daemon-way: how it asks the daemon
 *   kinds          questions as actions
 */

import type { IdentitySubject } from "../../../../identity/source.ts";
import type { IdentityView } from "../../../../identity/wire.ts";
import { sleep } from "../../../../platform/time.ts";
import type { Change } from "../../../harness/kube-fake/etcd.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { Violation } from "../../engine/violation.ts";
import type { Interface, Machine, World } from "../../world.ts";
import { SimulatedMetadata } from "./simulated-metadata.ts";

const DOCUMENT = "/openstack/latest/meta_data.json";
/** While its virtual machine moves, stops or starts, a guest asks so many times. */
const QUESTIONS_OF_A_CHANGE = 3;
const CHANGE_MS_MAX = 4_000;
/** In peace the last daemon may have been asked for the first time, ms. */
const PEACE_RETRY_MS = 3_000;
const PEACE_TRIES = 5;

const WORLDS = new WeakMap<World, Guests>();

/** Guests of a world. */
export function guestsOf(world: World): Guests {
  const known = WORLDS.get(world) ?? new Guests(world);
  WORLDS.set(world, known);
  return known;
}

/** Once, when cluster and machines are there. */
export function setUpGuests(world: World): void {
  const guests = guestsOf(world);
  world.cluster.etcd.listen((change) => guests.heard(change));
  world.onPeace({ ask: () => guests.checkInPeace() });
}

/** Everybody behind an interface that is up. */
export class Guests {
  readonly #world: World;
  readonly #nodes = new Map<Machine, SimulatedMetadata>();
  #changes = 0;

  constructor(world: World) {
    this.#world = world;
  }

  nodeOf(machine: Machine): SimulatedMetadata {
    const known = this.#nodes.get(machine) ?? new SimulatedMetadata(this.#world, machine);
    this.#nodes.set(machine, known);
    return known;
  }

  /** A guest asks who it is, over its own port; or by its address alone, as behind a Service of one network. */
  async whoAmI(machine: Machine, one: Interface, by: "attachment" | "address"): Promise<void> {
    const { counts } = this.#world;
    const subject = this.#subject(machine, one, by);
    if (subject === null) return;
    counts.add(`metadata.asked-by-${by}`);
    const uid = await this.#answered(machine, subject);
    if (uid === undefined || !machine.interfaces.has(one)) return;
    if (by === "address" && this.#isShared(machine, one)) return;
    counts.add(uid === null ? "metadata.nobody" : "metadata.answered");
    this.#world.oracle.identified(one, uid);
  }

  /** A guest asks for its document, and reads which instance it is. */
  async whatAmI(machine: Machine, one: Interface): Promise<void> {
    const { counts, oracle, story } = this.#world;
    const subject = this.#subject(machine, one, "attachment");
    const vmi = this.#instanceOf(one);
    if (subject === null) return;
    counts.add("metadata.document-asked");
    const { status, body } = await this.nodeOf(machine).ask(subject, DOCUMENT);
    if (!machine.interfaces.has(one)) return;
    counts.add(`metadata.document-${status}`);
    if (status !== 200 || vmi === null) return;
    const document = JSON.parse(body);
    const own = vmi.spec.domain?.firmware?.uuid?.toLowerCase();
    const name = `${document.name} (${document.uuid})`;
    if (document.name !== vmi.metadata.name || (own !== undefined && document.uuid !== own)) {
      story.tell(`guest ${vmi.metadata.name}`, `with firmware ${own} was told that it is ${name}`);
      oracle.identified(one, name);
      return;
    }
    const { namespace } = vmi.metadata;
    const project = this.#world.cluster.etcd.get("/namespaces", namespace)?.metadata.uid;
    if (project !== undefined && document.project_id !== project) {
      story.tell(`guest ${namespace}/${vmi.metadata.name}`, `was told project ${document.project_id}, not ${project}`);
      counts.add("metadata.document-of-another-project");
    }
    oracle.identified(one, vmi.metadata.uid);
  }

  /** Who moves, stops, or runs where another ran a moment ago asks meanwhile. */
  heard({ storage, object, previous, deleted }: Change): void {
    if (storage !== "kubevirt.io/virtualmachineinstances" && storage !== "/pods") return;
    const isMoving = storage !== "/pods" && object.status?.migrationState !== undefined && !deleted;
    const isEnding = deleted || (isBeingDeleted(object) && previous !== null && !isBeingDeleted(previous));
    if (!isMoving && !isEnding) return;
    this.#changes += 1;
    const place = `guests asked ${this.#changes}`;
    const { faults } = this.#world;
    if (faults.number(place) > (isMoving ? 0.5 : 0.2)) return;
    const what = isMoving ? "metadata.during-migration" : "metadata.during-end";
    for (let i = 0; i < QUESTIONS_OF_A_CHANGE; i += 1)
      void this.#askLater(object, what, faults.number(`${place} ${i}`) * CHANGE_MS_MAX);
  }

  /** Everybody who is up is known, by the daemon of its node. Throws Violation. */
  async checkInPeace(): Promise<void> {
    for (const machine of this.#world.machines)
      for (const one of [...machine.interfaces.keys()]) await this.#known(machine, one);
  }

  /** All interfaces that are up, with their machine. */
  all(): { readonly machine: Machine; readonly one: Interface }[] {
    return this.#world.machines.flatMap((machine) => [...machine.interfaces.keys()].map((one) => ({ machine, one })));
  }

  async #known(machine: Machine, one: Interface): Promise<void> {
    const { clock, oracle } = this.#world;
    for (let tries = 0; tries < PEACE_TRIES; tries += 1) {
      const subject = this.#subject(machine, one, "attachment");
      if (subject === null) return;
      const uid = await this.#answered(machine, subject);
      if (!machine.interfaces.has(one)) return;
      if (uid != null) return oracle.identified(one, uid);
      await sleep(clock, PEACE_RETRY_MS);
    }
    const { namespace, name, uid } = one.pod;
    // Whoever has lost its address is nobody, and was told to be recreated.
    if (this.#hasEnded(one) || oracle.hasForfeited(one)) return;
    throw new Violation(
      "liveness",
      `pod ${namespace}/${name} (${uid}) on ${machine.name}, ${one.ifname}: nobody is known there`,
    );
  }

  /** Whether another interface of this node has its address, which one of both has lost, and was told so. */
  #isShared(machine: Machine, one: Interface): boolean {
    const [first] = machine.interfaces.get(one) ?? [];
    for (const [other, ips] of machine.interfaces)
      if (other !== one && other.network === one.network && ips.some((ip) => ip === first)) return true;
    return false;
  }

  /** Its containers have ended although its interface is still there. */
  #hasEnded({ pod }: Interface): boolean {
    const object = this.#world.cluster.etcd.get("/pods", `${pod.namespace}/${pod.name}`);
    const phase = object?.status?.phase;
    return object === null || phase === "Succeeded" || phase === "Failed";
  }

  async #askLater({ metadata }: KubeObject, what: string, ms: number): Promise<void> {
    await sleep(this.#world.clock, ms);
    const { namespace, name } = metadata;
    for (const { machine, one } of this.all()) {
      const { pod } = one;
      if (pod.namespace !== namespace) continue;
      if (pod.name !== name && this.#instanceOf(one)?.metadata.name !== name) continue;
      this.#world.counts.add(what);
      await this.whoAmI(machine, one, "attachment");
    }
  }

  /** undefined: no answer, which is not that nobody is known. */
  async #answered(machine: Machine, subject: IdentitySubject): Promise<string | null | undefined> {
    try {
      const view = await this.nodeOf(machine).find(subject);
      return view === null ? null : uidOf(view);
    } catch (error) {
      if ((error as Error).name !== "IdentityAway") throw error;
      this.#world.counts.add("metadata.away");
      return undefined;
    }
  }

  #subject(machine: Machine, one: Interface, by: "attachment" | "address"): IdentitySubject | null {
    const { containerId, ifname, network } = one;
    if (by === "attachment") return { kind: "attachment", containerId, interface: ifname, network };
    const [first] = machine.interfaces.get(one) ?? [];
    return first === undefined ? null : { kind: "address", network, address: first.split("/")[0] as string };
  }

  /** The VMI of its pod, as far as the API still has both. */
  #instanceOf({ pod }: Interface): KubeObject | null {
    const { etcd } = this.#world.cluster;
    const object = etcd.get("/pods", `${pod.namespace}/${pod.name}`);
    if (object === null || object.metadata.uid !== pod.uid) return null;
    const owner = (object.metadata.ownerReferences ?? []).find(
      ({ kind }: KubeObject) => kind === "VirtualMachineInstance",
    );
    if (owner === undefined) return null;
    const vmi = etcd.get("kubevirt.io/virtualmachineinstances", `${pod.namespace}/${owner.name}`);
    return vmi?.metadata.uid === owner.uid ? vmi : null;
  }
}

const isBeingDeleted = ({ metadata }: KubeObject): boolean => metadata.deletionTimestamp !== undefined;

/** As the oracle hears of an identity; null: a container without a pod. */
function uidOf({ vm, pods }: IdentityView): string | null {
  return vm === null ? (pods[0]?.uid ?? null) : vm.uid || vm.vmiUid;
}
