import type { MachineDataView } from "../../kube/views/machine-data-view.ts";
import type { Metal3MachineView, NamedView } from "../../kube/views/metal3-machine-view.ts";
import { type Host, type MachineTemplateSpec, needsMachine } from "../../metadata/documents/machine-template.ts";
import { claimNameOf, dataName, isDataOf, machineOwnerOf, PARTS, vmOwnerOf } from "./data-bodies.ts";
import { failed, type Held, waiting } from "./data-status.ts";
import type { DataWorld } from "./data-world.ts";

/** Everything but addresses that a data object is rendered from. */
export interface DataInputs {
  readonly kind: "known";
  readonly spec: MachineTemplateSpec;
  readonly templateHash: string;
  /** "namespace/name" of the template, and its UID. */
  readonly template: { readonly namespace: string; readonly name: string; readonly uid: string };
  readonly metal3Machine: Metal3MachineView;
  readonly machine: NamedView | null;
  /** null: the template has nothing to render. */
  readonly host: Host | null;
}

export type Gathered = DataInputs | Held | Unrendered;

/** `paused`: it is left alone. `vm`: it is a VM's, and the metadata service renders it. */
export type Unrendered = typeof PAUSED | typeof OF_VM;

const PAUSED = { kind: "paused" } as const;
const OF_VM = { kind: "vm" } as const;

export function gatherInputs(world: DataWorld, data: MachineDataView): Gathered {
  const { caches } = world;
  const { namespace } = data;
  if (data.paused || world.clusterProblem(data) !== null) return PAUSED;
  const name = dataName(data.series, data.index);
  if (data.name !== name)
    return failed(
      "NameContradictsIndex",
      `it is index ${data.index} of template ${data.template.name} and would be named ${name}: delete it, or create it again under that name`,
    );
  const template = caches.templates.items.get(`${namespace}/${data.template.name}`);
  if (template === undefined)
    return waiting("WaitingForTemplate", `Metal3DataTemplate ${namespace}/${data.template.name} does not exist`);
  if (template.paused) return PAUSED;
  const { spec, problem, hash } = world.readTemplate(template);
  if (problem !== null)
    return failed("TemplateInvalid", `Metal3DataTemplate ${namespace}/${template.name}: ${problem}`);
  const metal3Machine = machineOf(world, data);
  if ("kind" in metal3Machine) return metal3Machine;
  const known = { kind: "known", spec, templateHash: hash, template, metal3Machine } as const;
  if (PARTS.every((part) => spec[part] == null)) return { ...known, machine: null, host: null };
  const capi = capiMachineOf(world, metal3Machine);
  if (capi === null && needsMachine(spec))
    return waiting(
      "WaitingForMachine",
      `the template names the Machine, and no Machine that exists owns Metal3Machine ${metal3Machine.key}`,
    );
  if (metal3Machine.host === null)
    return waiting("WaitingForHost", `no BareMetalHost is chosen for Metal3Machine ${metal3Machine.key}`);
  const host = caches.hosts.items.get(`${namespace}/${metal3Machine.host}`);
  if (host === undefined)
    return waiting("WaitingForHost", `BareMetalHost ${namespace}/${metal3Machine.host} does not exist`);
  return { ...known, machine: capi, host };
}

function machineOf(world: DataWorld, data: MachineDataView): Metal3MachineView | Held | Unrendered {
  const { caches } = world;
  const claimKey = `${data.namespace}/${claimNameOf(data)}`;
  const claim = caches.claims.items.get(claimKey);
  if (claim === undefined || !isDataOf(data, claim))
    return waiting("WaitingForClaim", `its Metal3DataClaim ${claimKey} does not exist`);
  if (claim.paused) return PAUSED;
  if (claim.renderedData !== null && claim.renderedData !== data.name)
    return failed("ClaimHasOtherData", `Metal3DataClaim ${claim.key} has the data object ${claim.renderedData}`);
  if (vmOwnerOf(claim) !== undefined) return OF_VM;
  const owner = machineOwnerOf(claim);
  if (owner === undefined)
    return failed("ClaimWithoutMachine", `Metal3DataClaim ${claim.key} is owned by no Metal3Machine`);
  const machine = caches.metal3Machines.items.get(`${data.namespace}/${owner.name}`);
  if (machine === undefined || machine.uid !== owner.uid)
    return waiting("WaitingForMachine", `Metal3Machine ${data.namespace}/${owner.name} does not exist`);
  if (machine.dataTemplate?.name === data.template.name) return machine;
  const wants = machine.dataTemplate === null ? "no template" : `template ${machine.dataTemplate.name}`;
  return failed(
    "MachineHasOtherTemplate",
    `Metal3Machine ${machine.key} names ${wants}, and this is data of ${data.template.name}`,
  );
}

function capiMachineOf({ caches }: DataWorld, { namespace, owners }: Metal3MachineView): NamedView | null {
  const owner = owners.find(({ kind, apiVersion }) => kind === "Machine" && /^cluster\.x-k8s\.io\//.test(apiVersion));
  const machine = owner && caches.machines.items.get(`${namespace}/${owner.name}`);
  return machine?.uid === owner?.uid ? (machine ?? null) : null;
}
