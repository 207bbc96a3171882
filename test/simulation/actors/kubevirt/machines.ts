import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { LAUNCHER_LABEL } from "../../../harness/world/kubevirt-objects.ts";
import { Chance } from "../../engine/chance.ts";
import type { World } from "../../world.ts";
import type { Nad } from "../networks.ts";
import { NODES, objectsOf, PODS } from "../objects.ts";

/** VMs as their objects say them. */

/** Keeps a VM until its instance has been stopped. */
export const VM_FINALIZER = "kubevirt.io/virtualMachineControllerFinalize";
/** How the main process of a pod has ended by itself, which its kubelet finds out: exit code, or `evicted`. */
export const EXIT_ANNOTATION = "simulation/exit";

/** `status.migrationState` of a VMI, with what the controller here remembers. */
export interface Migration {
  readonly uid: string;
  readonly state: "scheduling" | "running" | "succeeded" | "failed";
  /** Of the world's clock, ms. */
  readonly sinceMs: number;
  /** When it will have copied the guest's memory. */
  readonly untilMs?: number;
  /** UID of the launcher pod that the guest came from. */
  readonly source?: string;
}

/** An interface of a VM. */
export interface VmInterface {
  /** In the VM. */
  readonly logical: string;
  /** As the VM names its NAD: `blue` or `shop/blue`. */
  readonly nad: string;
  readonly mac?: string;
}

export const macOf = (chance: Chance): string =>
  `02:${Array.from({ length: 5 }, () => chance.below(256).toString(16).padStart(2, "0")).join(":")}`;

/** A VM's interfaces, as `spec` of its template and of its instance has them. */
export function specOf(interfaces: readonly VmInterface[], firmware: string): KubeObject {
  return {
    networks: interfaces.map(({ logical, nad }) => ({ name: logical, multus: { networkName: nad } })),
    domain: {
      firmware: { uuid: firmware },
      devices: {
        interfaces: interfaces.map(({ logical, mac }) => ({
          name: logical,
          bridge: {},
          ...(mac === undefined ? {} : { macAddress: mac }),
        })),
      },
    },
  };
}

/** The reverse of `specOf`. */
export function interfacesIn(spec: KubeObject): VmInterface[] {
  return spec.networks.map(({ name, multus }: KubeObject) => {
    const { macAddress: mac } = spec.domain.devices.interfaces.find((one: KubeObject) => one.name === name) ?? {};
    return { logical: name, nad: multus.networkName, ...(mac === undefined ? {} : { mac }) };
  });
}

/** A NAD as a VM's network names it, seen from the VM's namespace. */
export function nadKeyOf(namespace: string, nad: string): string {
  return nad.includes("/") ? nad : `${namespace}/${nad}`;
}

/** How a VM in a namespace names a NAD. */
export function nadNameFor(namespace: string, nad: Nad): string {
  return nad.namespace === namespace ? nad.name : `${nad.namespace}/${nad.name}`;
}

/** The claim of a VM's network, as KubeVirt's IPAM controller names it. */
export function claimNameOf(vm: string, logical: string): string {
  return `${vm}.${logical}`
    .toLowerCase()
    .split(/[^a-z0-9-]+/)
    .join(".")
    .slice(0, 253);
}

/** Launcher pods of a VMI, by UID. */
export function launchersOf(world: World, { metadata }: KubeObject): KubeObject[] {
  return objectsOf(world, PODS, metadata.namespace).filter(
    (pod) =>
      pod.metadata.labels?.[LAUNCHER_LABEL] === metadata.name &&
      (pod.metadata.ownerReferences ?? []).some(({ uid }: KubeObject) => uid === metadata.uid),
  );
}

/** A node as a scheduler chooses it: one that is not known to be away, whether or not it is; null: there is none. */
export function scheduled(world: World, chance: Chance, but: readonly string[] = []): string | null {
  const nodes = objectsOf(world, NODES).filter(({ metadata }) => !but.includes(metadata.name));
  const heard = nodes.filter(({ status }) => !isUnheard(status));
  return chance.of(heard.length > 0 ? heard : nodes)?.metadata.name ?? null;
}

function isUnheard(status: KubeObject): boolean {
  const ready = (status?.conditions ?? []).find(({ type }: KubeObject) => type === "Ready");
  return ready?.status === "Unknown";
}

/** Chance that depends on the seed and on a key, which is used once. */
export const chanceOf = (world: World, key: string): Chance => new Chance(`${world.seed} ${key}`);
