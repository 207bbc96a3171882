import type { EventWriter } from "../../kube/events.ts";
import type { MachineDataView } from "../../kube/views/machine-data-view.ts";
import type { Metal3MachineView, NamedView } from "../../kube/views/metal3-machine-view.ts";
import {
  type Host,
  type MachineTemplateSpec,
  needsMachine,
  type PoolResult,
  poolReferencesOf,
  renderMachineTemplate,
} from "../../metadata/documents/machine-template.ts";
import { BoundedMap } from "../../platform/bounded-map.ts";
import type { Clock } from "../../platform/time.ts";
import {
  claimNameOf,
  dataName,
  eventObject,
  isDataOf,
  machineOwnerOf,
  PARTS,
  secretName,
  vmOwnerOf,
} from "./data-bodies.ts";
import type { DataPools } from "./data-pools.ts";
import { type DataStatus, failed, type Held, hasInvalidInputs, type Progress, waiting } from "./data-status.ts";
import type { DataWorld } from "./data-world.ts";
import type { SecretTurns } from "./secret-turns.ts";
import type { Secrets, SecretText } from "./secrets.ts";
import type { WorkQueue } from "./work-queue.ts";

export interface DataRenderingOptions {
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly world: DataWorld;
  readonly pools: DataPools;
  readonly secrets: Secrets;
  readonly status: DataStatus;
  readonly events: Pick<EventWriter, "warn">;
  readonly queue: Pick<WorkQueue, "hasWaited">;
  readonly turns: Pick<SecretTurns, "noteFound">;
}

const REPORTED_MAX = 1_000;

/** Between looks for Secrets of a data object that cannot be rendered yet, ms: they seldom come from elsewhere. */
const SEARCH_INTERVAL_MS = 300_000;
const FOUND_WITHOUT = ["WaitingForHost", "WaitingForMachine"];
const FOUND = { kind: "ready", reason: "SecretsFound", templateHash: "" } as const;
const SERVED_BY_METADATA = { kind: "ready", reason: "ServedByMetadata", templateHash: "" } as const;

/** Everything but addresses that a data object is rendered from. */
interface DataInputs {
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

type Gathered = DataInputs | Held | Unrendered;

/** `paused`: it is left alone. `vm`: it is a VM's, and the metadata service renders it. */
type Unrendered = typeof PAUSED | typeof OF_VM;

const PAUSED = { kind: "paused" } as const;
const OF_VM = { kind: "vm" } as const;

/** Renders data objects into their Secrets, and says in each object's status how far that is. */
export class DataRendering {
  readonly #options: DataRenderingOptions;
  /** By UID: the generation of a data object whose Secrets were made. Those of before this process are made in turn. */
  readonly #madeOf = new Map<string, number>();
  /** By UID: when Secrets of a data object that waits are looked for again. */
  readonly #searchAgainMs = new Map<string, number>();
  readonly #reported = new BoundedMap<string, true>(REPORTED_MAX);

  constructor(options: DataRenderingOptions) {
    this.#options = options;
  }

  /** Returns whether nothing is left to do until something changes. Throws ApiAway. */
  async settle(data: MachineDataView): Promise<boolean> {
    if (data.deletionTimestamp !== null) return true;
    const made = this.#madeOf.get(data.uid);
    const isMade = (made === undefined || made === data.generation) && !hasInvalidInputs(data);
    const isEdited = data.ready && this.#reportEdited(data);
    if (data.ready && (isMade || isEdited)) {
      this.#madeOf.set(data.uid, data.generation);
      return true;
    }
    const gathered = gatherInputs(this.#options.world, data);
    const texts = await this.#texts(data, gathered);
    if ("kind" in texts) {
      if (texts.kind === "paused") return false;
      if (texts.kind === "waiting" && (await this.#isFound(data, texts))) return this.#tell(data, FOUND);
      return this.#tell(data, texts.kind === "vm" ? SERVED_BY_METADATA : texts);
    }
    const { templateHash } = gathered as DataInputs;
    const begun = await this.#begin(data, texts, templateHash);
    return begun !== null && this.#tell(begun, await this.#make(begun, texts, templateHash));
  }

  /** Returns whether nothing is left to do until something changes. */
  async #tell(data: MachineDataView, progress: Progress): Promise<boolean> {
    if (progress.kind === "ready") this.#madeOf.set(data.uid, data.generation);
    // Secrets that were made stay, whatever becomes of their inputs.
    if (data.ready && progress.kind === "waiting") return false;
    if (progress.kind === "waiting" && !this.#options.queue.hasWaited("datas", data.key)) return false;
    if (progress.kind === "failed") this.#warn(data, progress);
    await this.#options.status.writeData(data, progress);
    return progress.kind === "ready";
  }

  /** Makes the Secrets of a ready data object that are missing; returns how many creates that took. Throws ApiAway. */
  async remake(data: MachineDataView): Promise<number> {
    if (data.deletionTimestamp !== null || !data.ready || this.#reportEdited(data)) return 0;
    const texts = await this.#texts(data, gatherInputs(this.#options.world, data));
    if ("kind" in texts) {
      if ("reason" in texts && texts.reason === "AddressMissing") this.#warn(data, texts);
      return 0;
    }
    const ensured = await this.#options.secrets.ensure(data, texts);
    if ("message" in ensured) this.#warn(data, ensured);
    return texts.length;
  }

  forget(uid: string): void {
    this.#searchAgainMs.delete(uid);
    this.#madeOf.delete(uid);
  }

  /** What waits for a host or a Machine is ready without them where all its Secrets are there, as upstream sees it. */
  async #isFound(data: MachineDataView, { reason }: Held): Promise<boolean> {
    const { queue, secrets, turns, clock } = this.#options;
    if (data.ready || !FOUND_WITHOUT.includes(reason) || !queue.hasWaited("datas", data.key)) return false;
    const nowMs = clock.monotonicMs();
    if (nowMs < (this.#searchAgainMs.get(data.uid) ?? 0)) return false;
    this.#searchAgainMs.set(data.uid, nowMs + SEARCH_INTERVAL_MS);
    const texts = PARTS.flatMap((part) => {
      const name = data[part];
      return name === null ? [] : [{ name, part, text: "" }];
    });
    const isFound = await secrets.exist(data, texts);
    if (isFound) turns.noteFound(data.key);
    return isFound;
  }

  /** What a controller that ended between two Secrets has begun goes on with the same edition, or not at all. */
  async #begin(data: MachineDataView, texts: readonly SecretText[], templateHash: string) {
    if (data.templateHash !== "" || texts.length === 0) return data;
    return this.#options.status.beginEdition(data, templateHash);
  }

  async #make(data: MachineDataView, texts: readonly SecretText[], templateHash: string): Promise<Progress> {
    if (data.templateHash !== "" && data.templateHash !== templateHash)
      return failed(
        "TemplateEdited",
        `Metal3DataTemplate ${data.namespace}/${data.template.name} was edited while the Secrets were made: delete this object, and it comes again with those of the new edition`,
      );
    const ensured = await this.#options.secrets.ensure(data, texts);
    if ("message" in ensured) return ensured;
    if (ensured.kind === "found") this.#options.turns.noteFound(data.key);
    return { kind: "ready", reason: "SecretsRendered", templateHash };
  }

  async #texts(data: MachineDataView, gathered: Gathered): Promise<SecretText[] | Held | Unrendered> {
    if (gathered.kind !== "known") return gathered;
    const { spec, metal3Machine, machine, host } = gathered;
    if (host === null) return [];
    const objects = { machine, metal3Machine, host };
    const named = poolReferencesOf(spec, objects);
    if (named.kind === "failed") return heldBy(named);
    const pools = new Map<string, PoolResult>();
    const held: Held[] = [];
    // All are claimed before the first is waited for.
    for (const reference of named.pools) {
      const outcome = await this.#options.pools.resultOf(data, reference, !data.ready);
      if (outcome.kind === "given") pools.set(reference.name, outcome.result);
      else held.push(outcome);
    }
    const [first] = held;
    if (first !== undefined) return held.find(({ kind }) => kind === "failed") ?? first;
    const { index, namespace } = data;
    const rendered = renderMachineTemplate(spec, { ...objects, index, namespace, pools });
    if (rendered.kind === "failed") return heldBy(rendered);
    return secretTexts(data, metal3Machine.name, rendered);
  }

  /** A template that was edited counts for new data only: Secrets of one machine must not be of two editions. */
  #reportEdited(data: MachineDataView): boolean {
    const { world, events } = this.#options;
    const template = world.caches.templates.items.get(`${data.namespace}/${data.template.name}`);
    if (template === undefined || data.templateHash === "") return false;
    const { hash } = world.readTemplate(template);
    if (hash === data.templateHash) return false;
    const edition = `${template.uid} ${hash}`;
    if (this.#reported.has(edition)) return true;
    this.#reported.set(edition, true);
    const message = `it was edited: machines such as ${data.claim.name} keep the Secrets of the earlier edition, and missing ones are not made again`;
    events.warn(eventObject("Metal3DataTemplate", template), "TemplateEdited", message);
    return true;
  }

  #warn(data: MachineDataView, { reason, message }: Held): void {
    this.#options.events.warn(eventObject("Metal3Data", data), reason, message);
  }
}

function heldBy({ problem, awaits }: { readonly problem: string; readonly awaits: string | null }): Held {
  return awaits === "inspection" ? waiting("WaitingForHost", problem) : failed("RenderingFailed", problem);
}

/** The parts that the data object names; where it names none, every part of the template. */
function secretTexts(
  data: MachineDataView,
  machine: string,
  rendered: { readonly metaData: string | null; readonly networkData: string | null },
): SecretText[] | Held {
  const namesNone = PARTS.every((part) => data[part] === null);
  const texts: SecretText[] = [];
  for (const part of PARTS) {
    const name = data[part] ?? (namesNone ? secretName(machine, part) : null);
    const text = rendered[part];
    if (name === null || (text === null && namesNone)) continue;
    if (text === null)
      return failed(
        "TemplateWithoutPart",
        `it names Secret ${name}, and its template has no ${part} any more: delete this object`,
      );
    texts.push({ name, part, text });
  }
  return texts;
}

function gatherInputs(world: DataWorld, data: MachineDataView): Gathered {
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
