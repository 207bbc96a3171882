import type { IdentityView, IdentityVm } from "../../identity/wire.ts";
import type { Family } from "../../ipam/space/address.ts";
import type { DataClaimView, MachineDataView } from "../../kube/views/machine-data-view.ts";
import { BoundedMap } from "../../platform/bounded-map.ts";
import type { InstanceNetwork } from "../documents/instance.ts";
import { type PoolReference, type PoolResult, poolReferencesOf } from "../documents/machine-template.ts";
import {
  objectsOfVm,
  poolResultOf,
  renderVmTemplate,
  type TemplatedVm,
  type VmDocuments,
} from "../documents/vm-template.ts";
import type { Absence, DataObjects, TemplateEdition } from "./data-objects.ts";
import { networksOf } from "./instance-of.ts";
import type { TenantLink } from "./tenant-source.ts";
import type { VmObjects } from "./vm-directory.ts";

export interface TemplateRequest {
  readonly template: string;
  readonly identity: IdentityView;
  readonly vm: IdentityVm;
  readonly found: VmObjects;
  readonly links: readonly TenantLink[];
}

/** Why a guest is told nothing of its template, for an event: what is missing, and what to do. */
interface Problem {
  readonly problem: string;
}

interface Rendering extends VmObjects {
  readonly edition: TemplateEdition;
  readonly index: number;
  /** `interfaces` of the identity, as JSON. */
  readonly interfaces: string;
  readonly of: TemplatedVm;
  readonly references: readonly PoolReference[] | Problem;
  rendered: { readonly pools: string; readonly documents: VmDocuments | Problem } | null;
}

interface PoolChoice {
  readonly network: InstanceNetwork;
  /** null: of either family. */
  readonly family: Family | null;
}

/** VMs of a node whose documents are kept; networks that a message names. */
const RENDERED_MAX = 512;
const NAMED_MAX = 10;

const MADE_BY = "holdfast controller --machine-data=own makes it";
const COMPONENT = "add machines to the components of deploy/kustomization.yaml";

/** What is rendered for a VM is kept until something that it was rendered from changes. */
export class VmTemplates {
  /** By the UID of the VM. */
  readonly #renderings = new BoundedMap<string, Rendering>(RENDERED_MAX);

  /** Throws ApiAway for an object that was never read. */
  async documentsOf(objects: DataObjects, request: TemplateRequest): Promise<VmDocuments | Problem> {
    const { template, vm } = request;
    const [edition, data] = await Promise.all([objects.template(template), dataOf(objects, request)]);
    const name = `Metal3DataTemplate ${vm.namespace}/${template}`;
    if (typeof edition === "string") return problemOfAbsence(edition, name, "create it, or name another");
    if (edition.problem !== null) return { problem: `${name}: ${edition.problem}` };
    if ("problem" in data) return data;
    const rendering = this.#renderingOf(request, edition, data.index);
    const { references } = rendering;
    if ("problem" in references) return { problem: `${name}: ${references.problem}` };
    const choices = new Map<string, PoolChoice>();
    for (const reference of references) {
      const choice = await choose(reference.name, rendering.of, { objects, links: request.links });
      if ("problem" in choice) return { problem: `${name}: ${choice.problem}` };
      choices.set(reference.name, choice);
    }
    const documents = render(rendering, choices);
    return "problem" in documents ? { problem: `${name}: ${documents.problem}` } : documents;
  }

  #renderingOf(request: TemplateRequest, edition: TemplateEdition, index: number): Rendering {
    const { identity, vm, found, links } = request;
    const key = found.vm?.uid || vm.uid || (vm.vmiUid ?? "");
    const interfaces = JSON.stringify(identity.interfaces);
    const known = this.#renderings.get(key);
    const isSame =
      known !== undefined &&
      known.edition === edition &&
      known.index === index &&
      known.vm === found.vm &&
      known.vmi === found.vmi &&
      known.interfaces === interfaces;
    if (isSame) return known;
    const networks = networksOf(identity.interfaces, links).filter(({ addressing }) => addressing === "allocated");
    const of = templatedVm(vm, found, { links, networks });
    const named = poolReferencesOf(edition.spec, objectsOfVm(of));
    const references = named.kind === "failed" ? { problem: named.problem } : named.pools;
    const rendering = { ...found, edition, index, interfaces, of, references, rendered: null };
    this.#renderings.set(key, rendering);
    return rendering;
  }
}

/** The VM's data object, which has its index. Never another VM's of the same name. */
async function dataOf(
  objects: DataObjects,
  { template, vm, found }: TemplateRequest,
): Promise<MachineDataView | Problem> {
  const { namespace } = vm;
  const uids = [found.vm?.uid, vm.uid, found.vmi?.vmUid, found.vmi?.uid, vm.vmiUid];
  const problemOfClaim = ({ owners, template: of, renderedData, ...claim }: DataClaimView) => {
    if (!owners.some(({ uid }) => uids.includes(uid))) return "is not this VM's: delete it, or rename the VM";
    if (of.name !== template) return `is still of template ${of.name}: the controller replaces it`;
    if (renderedData !== null) return null;
    const condition = claim.conditions.find(({ type }) => type === "Ready");
    return `has no index: ${claim.errorMessage || condition?.message || "the controller has not given it one"}`;
  };
  const claim = await objects.claim(vm.name, (one) => problemOfClaim(one) === null);
  const name = `Metal3DataClaim ${namespace}/${vm.name}`;
  if (typeof claim === "string") return problemOfAbsence(claim, name, MADE_BY);
  const problem = problemOfClaim(claim);
  if (problem !== null) return { problem: `${name} ${problem}` };
  const isIts = ({ owners, template: of, index }: MachineDataView) =>
    owners.some(({ uid }) => uid === claim.uid) && of.name === template && index >= 0;
  const data = await objects.data(claim.renderedData ?? "", isIts);
  const dataName = `Metal3Data ${namespace}/${claim.renderedData}`;
  if (typeof data === "string") return problemOfAbsence(data, dataName, MADE_BY);
  return isIts(data) ? data : { problem: `${dataName} is not this VM's: delete it` };
}

function render(rendering: Rendering, choices: ReadonlyMap<string, PoolChoice>): VmDocuments | Problem {
  const pools = new Map<string, PoolResult>();
  for (const [name, { network, family }] of choices) {
    const result = poolResultOf(network, family);
    if (result === null)
      return {
        problem: `pool ${name}: interface ${network.linkId} has no ${family === null ? "" : `IPv${family} `}address`,
      };
    pools.set(name, result);
  }
  const key = JSON.stringify([...choices].map(([name, { network, family }]) => [name, network.linkId, family]));
  if (rendering.rendered?.pools !== key) {
    const { edition, index, of } = rendering;
    rendering.rendered = { pools: key, documents: renderVmTemplate(edition.spec, { index, vm: of, pools }) };
  }
  return rendering.rendered.documents;
}

/** On the network, NetworkAttachmentDefinition or AddressPool of that name; else the interface of that name. */
async function choose(
  name: string,
  { networks, namespace }: TemplatedVm,
  at: { readonly objects: DataObjects; readonly links: readonly TenantLink[] },
): Promise<PoolChoice | Problem> {
  const nadOf = ({ linkId }: InstanceNetwork) => at.links.find((link) => link.linkId === linkId)?.nad ?? "";
  const own =
    networks.find(({ network }) => network === name) ??
    networks.find((one) => nadOf(one) === name || nadOf(one).endsWith(`/${name}`));
  if (own !== undefined) return { network: own, family: null };
  const pool = await at.objects.pool(name);
  if (typeof pool !== "string") {
    const network = networks.find((one) => one.network === pool.network);
    if (network !== undefined) return { network, family: pool.family };
  }
  const named = networks.find(({ linkId }) => linkId === name);
  if (named !== undefined) return { network: named, family: null };
  const known = networks.slice(0, NAMED_MAX).map(({ network }) => network);
  const what =
    typeof pool === "string"
      ? `no network, NetworkAttachmentDefinition or interface of the VM has this name, and neither has an AddressPool of namespace ${namespace}`
      : `AddressPool ${namespace}/${name} is of network ${pool.network}, on which the VM has no interface`;
  return { problem: `pool ${name}: ${what}; the VM's networks are ${known.join(", ") || "none"}` };
}

function templatedVm(
  { namespace, name }: IdentityVm,
  { vm, vmi }: VmObjects,
  { links, networks }: { readonly links: readonly TenantLink[]; readonly networks: readonly InstanceNetwork[] },
): TemplatedVm {
  const others = networks.filter(({ linkId }) => !links.some((link) => link.linkId === linkId));
  const nics = [...links, ...others].map(({ linkId, mac }) => {
    const own = networks.find((network) => network.linkId === linkId);
    return { name: linkId, mac: own?.mac ?? mac ?? "" };
  });
  const texts = (field: "labels" | "annotations") =>
    Object.fromEntries([...(vmi?.[field] ?? []), ...(vm?.[field] ?? [])]);
  return { namespace, name, labels: texts("labels"), annotations: texts("annotations"), nics, networks };
}

function problemOfAbsence(read: Absence, what: string, remedy: string): Problem {
  switch (read) {
    case "absent":
      return { problem: `${what} does not exist; ${remedy}` };
    case "not-served":
      return { problem: `${what} has no definition here: kubectl apply -k deploy/machines/crds` };
    case "forbidden":
      return { problem: `the metadata service may not read ${what}; ${COMPONENT}` };
  }
}
