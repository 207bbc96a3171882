import type { Change } from "../../../harness/kube-fake/etcd.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { simClusterOf } from "../../cluster/cluster.ts";
import type { Chance } from "../../engine/chance.ts";
import { Violation } from "../../engine/violation.ts";
import type { ActionKinds, MachineAddress, World } from "../../world.ts";
import { NAMESPACES } from "./clusters.ts";
import { allOf, at, create, isBeingDeleted, isOpen, keyOf, patch, remove, STORAGE } from "./objects.ts";
import { machinePlan } from "./plan.ts";
import { OWN_NETWORK } from "./pools.ts";

/** Where machines without Cluster API's machinery live. */
const NAMESPACE = NAMESPACES[0];
const MACHINES = 8;
const TEMPLATE = "workers";
const POOL = "machines";
/** A host is found out about so much after it was bought, ms. */
const INSPECTED_MS_MAX = 8_000;
const READS_MS_MAX = 2_000;
const RETRY_MS = 5_000;
/** How often a host that was turned off looks whether it was rendered again. */
const PROVISION_TRIES = 6;
/** In peace, when somebody looks at the events of data objects, ms. */
const LOOKS_MS = [5_000, 30_000];
const EVENTS = "/events";
const VM_TEMPLATE_ANNOTATION = "metadata.holdfast.dev/data-template";
const VM_TEMPLATE = "guests";

/** What users of Metal3's data kinds do, where the controllers serve them. */
export const DATA_KINDS: ActionKinds = {
  "metal3-machine-make": { weight: 1, run: makeMachine },
  "metal3-machine-delete": { weight: 0.6, run: (world, chance) => endMachine(world, chance, false) },
  "metal3-machine-replace": { weight: 0.5, run: (world, chance) => endMachine(world, chance, true) },
  "metal3-secret-delete": { weight: 0.5, run: deleteSecret },
  "vm-template-named": { weight: 0.5, run: nameTemplate },
};

/** What must be counted in a long run. */
export const DATA_OWED: readonly string[] = [
  "machines.data-made",
  "machines.data-rendered",
  "machines.data-ended",
  "machines.data-secret-deleted",
  "machines.vm-template-named",
];

const WORLDS = new WeakMap<World, DataMachines>();

function machinesOf(world: World): DataMachines {
  const known = WORLDS.get(world) ?? new DataMachines(world);
  WORLDS.set(world, known);
  return known;
}

/** Templates, and the hosts that boot from what is rendered. */
export async function setUpData(world: World): Promise<void> {
  if (!machinePlan(world.seed).ownData) return;
  await makeTemplates(world);
  machinesOf(world).start();
  simClusterOf(world).restored.push(() => machinesOf(world).restored());
  world.onPeace({ heal: () => heal(world), check: () => checkIndexes(world) });
}

async function heal(world: World): Promise<void> {
  await makeTemplates(world);
  for (const afterMs of LOOKS_MS) world.clock.timer(afterMs, () => void renewData(world));
}

/** Whose address was taken by hand gets another one when people do as its event says: they delete its data object. */
async function renewData(world: World): Promise<void> {
  for (const { object } of world.cluster.etcd.range(EVENTS, "")) {
    const { namespace, name, uid } = object.involvedObject;
    const key = `${namespace}/${name}`;
    const data = object.reason === "AddressMissing" ? at(world, "datas", key) : null;
    if (data?.metadata.uid !== uid || isBeingDeleted(data) || holdsAddress(world, data)) continue;
    world.story.tell("metal admin", `deletes Metal3Data ${key}, as its event AddressMissing says`);
    world.counts.add("machines.data-renewed");
    machinesOf(world).provisionAgain(name);
    await remove(world, "datas", key);
  }
}

/** It may have its address back by now. */
function holdsAddress(world: World, { metadata }: KubeObject): boolean {
  return allOf(world, "allocations").some(
    ({ spec, status }) =>
      status?.state === "Bound" &&
      spec.owner.namespace === metadata.namespace &&
      [metadata.name, `${metadata.name}-${POOL}`].includes(spec.owner.name),
  );
}

async function makeTemplates(world: World): Promise<void> {
  const poolRef = { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: POOL };
  await create(world, "templates", {
    metadata: { name: TEMPLATE, namespace: NAMESPACE },
    spec: {
      metaData: { indexes: [{ key: "number" }], objectNames: [{ key: "host", object: "baremetalhost" }] },
      networkData: {
        links: { ethernets: [{ id: "eno1", type: "phy", macAddress: { fromHostInterface: "eno1" } }] },
        networks: { ipv4: [{ id: "machines", link: "eno1", fromPoolRef: poolRef }] },
      },
    },
  });
  for (const { metadata } of allOf(world, "virtualMachines"))
    await create(world, "templates", {
      metadata: { name: VM_TEMPLATE, namespace: metadata.namespace },
      spec: { metaData: { indexes: [{ key: "number" }] } },
    });
}

/** What a host has booted with. */
interface Booted {
  readonly one: MachineAddress;
  readonly address: string;
  readonly data: string;
}

/** Machines that run with an address that their Secret says. */
class DataMachines {
  readonly #world: World;
  readonly #booted = new Map<string, Booted>();
  #reads = 0;

  constructor(world: World) {
    this.#world = world;
  }

  start(): void {
    this.#world.cluster.etcd.listen((change) => this.#heard(change));
  }

  /** Its host is turned off: what was its address is nobody's. */
  turnOff(key: string): void {
    const booted = this.#booted.get(key);
    if (booted === undefined) return;
    this.#booted.delete(key);
    this.#world.oracle.machineDown(booted.one);
  }

  /** The host with this data is turned off, and boots with what is rendered next. */
  provisionAgain(data: string): void {
    for (const [key, booted] of this.#booted) {
      if (booted.data !== data) continue;
      this.turnOff(key);
      const uid = at(this.#world, "metal3Machines", key)?.metadata.uid;
      for (let tries = 1; uid !== undefined && tries <= PROVISION_TRIES; tries += 1)
        this.#world.clock.timer(tries * RETRY_MS, () => this.#boot(key, uid));
    }
  }

  /** After a restore: what the API server knows nothing of any more is turned off. */
  restored(): void {
    for (const [key, { one, address, data }] of this.#booted) {
      const isKnown = at(this.#world, "metal3Machines", key)?.status?.renderedData?.name === data;
      const isHeld = allOf(this.#world, "allocations").some(
        ({ spec, status }) =>
          spec.network === one.network &&
          spec.address === address &&
          status?.state === "Bound" &&
          [data, one.claim].includes(spec.owner.name),
      );
      if (!isKnown || !isHeld) this.turnOff(key);
    }
  }

  #heard({ storage, object, deleted }: Change): void {
    if (storage !== STORAGE.metal3Machines) return;
    const key = keyOf(object);
    if (deleted || isBeingDeleted(object)) this.turnOff(key);
    else this.#bootSoon(object);
  }

  #bootSoon(object: KubeObject): void {
    const key = keyOf(object);
    if (this.#booted.has(key) || !isReady(object)) return;
    this.#reads += 1;
    const { clock, faults } = this.#world;
    const ms = faults.number(`host ${key} boots ${this.#reads}`) * READS_MS_MAX;
    clock.timer(ms, () => this.#boot(key, object.metadata.uid));
  }

  /** As the host reads it: its address is what the Secret says. */
  #boot(key: string, uid: string): void {
    const { clock, counts, oracle, story } = this.#world;
    const machine = at(this.#world, "metal3Machines", key);
    if (machine === null || machine.metadata.uid !== uid || isBeingDeleted(machine) || this.#booted.has(key)) return;
    const data: string | undefined = machine.status?.renderedData?.name;
    const secret = at(this.#world, "secrets", `${key}-networkdata`);
    const text = Buffer.from(secret?.data?.networkData ?? "", "base64").toString();
    const address = /ip_address: (\S+)/.exec(text)?.[1];
    if (data === undefined || address === undefined) return;
    const { namespace } = machine.metadata;
    const owner = at(this.#world, "datas", `${namespace}/${data}`)?.metadata.uid;
    const isOfNow = secret?.metadata.ownerReferences?.some((one: KubeObject) => one.uid === owner) ?? false;
    // That of a machine before, on which the garbage collector has not come yet.
    if (!isOfNow) {
      clock.timer(RETRY_MS, () => this.#boot(key, uid));
      return;
    }
    const one = { network: OWN_NETWORK.network, namespace, claim: `${data}-${POOL}` };
    const netmask = `${address}/26`;
    this.#booted.set(key, { one, address: netmask, data });
    counts.add("machines.data-rendered");
    story.tell(`host ${key}`, `boots as ${data} with ${address}`);
    oracle.machineUp(one, netmask);
  }
}

function isReady({ status }: KubeObject): boolean {
  return (status?.conditions ?? []).some(
    ({ type, status: is }: KubeObject) => type === "Metal3DataReady" && is === "True",
  );
}

async function makeMachine(world: World, chance: Chance): Promise<void> {
  if (!machinePlan(world.seed).ownData || !isOpen(world, NAMESPACE)) return;
  await machineNamed(world, `metal-${chance.below(MACHINES)}`, chance);
}

async function machineNamed(world: World, name: string, chance: Chance): Promise<void> {
  const key = `${NAMESPACE}/${name}`;
  if (at(world, "metal3Machines", key) !== null) return;
  const metadata = { name, namespace: NAMESPACE };
  const host = await create(world, "hosts", {
    metadata,
    spec: { bootMACAddress: `52:54:00:00:00:0${name.slice(-1)}` },
  });
  if (host !== null)
    world.clock.timer(chance.number() * INSPECTED_MS_MAX, () => {
      const nics = [{ name: "eno1", mac: host.spec.bootMACAddress }];
      void patch(world, "hosts", key, { status: { hardware: { nics } } }, "/status");
    });
  const made = await create(world, "metal3Machines", {
    metadata: { ...metadata, annotations: { "metal3.io/BareMetalHost": key } },
    spec: { dataTemplate: { name: TEMPLATE } },
  });
  if (made === null) return;
  world.counts.add("machines.data-made");
  world.story.tell("metal admin", `makes Metal3Machine ${key}`);
}

/** Its host is turned off first. */
async function endMachine(world: World, chance: Chance, isReplaced: boolean): Promise<void> {
  const machine = chance.of(allOf(world, "metal3Machines").filter((one) => !isBeingDeleted(one)));
  if (machine === undefined || !machinePlan(world.seed).ownData) return;
  const key = keyOf(machine);
  machinesOf(world).turnOff(key);
  await remove(world, "metal3Machines", key, { propagation: "Background" });
  world.counts.add("machines.data-ended");
  world.story.tell("metal admin", `deletes Metal3Machine ${key}`);
  if (isReplaced) await machineNamed(world, machine.metadata.name, chance);
}

/** It is made again from what is there then. */
async function deleteSecret(world: World, chance: Chance): Promise<void> {
  const secret = chance.of(
    allOf(world, "secrets", NAMESPACE).filter(({ metadata }) => /-(metadata|networkdata)$/.test(metadata.name)),
  );
  if (secret === undefined) return;
  await remove(world, "secrets", keyOf(secret));
  world.counts.add("machines.data-secret-deleted");
}

/** A virtual machine is numbered by a template from now on. */
async function nameTemplate(world: World, chance: Chance): Promise<void> {
  const vm = chance.of(allOf(world, "virtualMachines").filter((one) => !isBeingDeleted(one)));
  if (vm === undefined || !machinePlan(world.seed).ownData) return;
  await makeTemplates(world);
  const isNamed = vm.metadata.annotations?.[VM_TEMPLATE_ANNOTATION] !== undefined;
  const annotations = { [VM_TEMPLATE_ANNOTATION]: isNamed && chance.happens(0.5) ? null : VM_TEMPLATE };
  await patch(world, "virtualMachines", keyOf(vm), { metadata: { annotations } });
  world.counts.add("machines.vm-template-named");
}

/**
 * An index of a template is one claim's, and each machine and virtual machine that names one has its own. Throws
 * Violation.
 */
function checkIndexes(world: World): void {
  const byClaim = new Map<string, string>();
  for (const { metadata, spec } of allOf(world, "datas")) {
    const name = `${spec.template.name}-${spec.index}`;
    if (metadata.name !== name)
      throw new Violation("machines: index", `Metal3Data ${metadata.name} has index ${spec.index}`);
    const claim = `${metadata.namespace}/${spec.claim.name} of ${spec.template.name}`;
    const other = byClaim.get(claim);
    if (other !== undefined)
      throw new Violation("machines: two indexes", `claim ${claim} has ${other} and ${metadata.name}`);
    byClaim.set(claim, metadata.name);
    if (at(world, "dataClaims", `${metadata.namespace}/${spec.claim.name}`) === null)
      throw new Violation("machines: index kept", `${metadata.name} is kept, and its claim is gone`);
  }
  for (const { metadata } of allOf(world, "virtualMachines")) {
    const template = metadata.annotations?.[VM_TEMPLATE_ANNOTATION];
    if (template === undefined || metadata.deletionTimestamp !== undefined) continue;
    if (byClaim.has(`${metadata.namespace}/${metadata.name} of ${template}`)) continue;
    const claim = at(world, "dataClaims", `${metadata.namespace}/${metadata.name}`);
    if (claim !== null && claim.metadata.ownerReferences?.[0]?.uid !== metadata.uid) continue;
    throw new Violation(
      "machines: not numbered",
      `VM ${metadata.namespace}/${metadata.name} has no index of template ${template}`,
    );
  }
}
