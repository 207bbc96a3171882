import { isDeepStrictEqual } from "node:util";
import { cutMessage } from "../../ipam/claim-conditions.ts";
import type { JsonObject } from "../../ipam/definition/definition-keys.ts";
import { problemOf } from "../../kube/answers.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { DATA_CLAIMS_PATH } from "../../kube/metal3.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { namespacedPath } from "../../kube/objects.ts";
import type { MachineDataView, ObjectReference } from "../../kube/views/machine-data-view.ts";
import type { Metal3MachineView } from "../../kube/views/metal3-machine-view.ts";
import { BoundedMap } from "../../platform/bounded-map.ts";
import { isoTime } from "../../platform/time.ts";
import {
  apiVersionAt,
  claimBody,
  isDataOf,
  machineOwnerOf,
  PARTS,
  type Part,
  secretName,
  vmOwnerOf,
} from "./data-bodies.ts";
import type { DataStatus } from "./data-status.ts";
import type { DataWorld } from "./data-world.ts";
import type { HostReferences } from "./host-references.ts";
import type { Secrets } from "./secrets.ts";
import type { WorkQueue } from "./work-queue.ts";

/** Longest message of a condition in the older form, characters. */
const OLD_MESSAGE_CHARS_MAX = 10_240;

/** A Secret that is missing is looked for again after this time, ms: each look is a request. */
const LOOK_AGAIN_MS = 10_000;
/** Missing Secrets that are remembered; more are looked for more often. */
const MISSED_MAX = 10_000;

/** A Secret's name has 253 at most. */
const MACHINE_NAME_CHARS_MAX = 253 - "-networkdata".length;

export interface MachineStatusOptions {
  readonly api: KubeApi;
  readonly world: DataWorld;
  readonly hosts: HostReferences;
  readonly secrets: Pick<Secrets, "isMissing">;
  readonly status: DataStatus;
  readonly queue: Pick<WorkQueue, "hasWaited">;
}

export type SecretReferences = Readonly<Partial<Record<Part, ObjectReference>>>;

interface Condition {
  readonly type: string;
  readonly status: "True" | "False";
  readonly reason: string;
  readonly message: string;
}

interface Wanted {
  readonly renderedData: ObjectReference | null;
  readonly secrets: SecretReferences;
  readonly condition: Condition;
}

/** Claims data for each Metal3Machine that names a template, and tells machine and host where its Secrets are. */
export class MachineStatus {
  readonly #options: MachineStatusOptions;
  /** By `namespace/name`: when a Secret that a machine names was last found missing, ms. */
  readonly #missed = new BoundedMap<string, number>(MISSED_MAX);

  constructor(options: MachineStatusOptions) {
    this.#options = options;
  }

  /** Returns whether nothing is left to do until something changes. Throws ApiAway. */
  async settle(machine: Metal3MachineView): Promise<boolean> {
    const { world, hosts } = this.#options;
    const { dataTemplate, metaData, networkData, userData } = machine;
    if (machine.deletionTimestamp !== null) return true;
    if ([dataTemplate, metaData, networkData, userData].every((one) => one === null)) return true;
    if (machine.paused || world.clusterProblem(machine) !== null) return false;
    const wanted = await this.#withSecrets(machine, await this.#wanted(machine));
    const sent = wanted.condition.status === "True" ? await hosts.tell(machine, wanted.secrets) : null;
    const conditions = sent === null ? [wanted.condition] : [wanted.condition, sent];
    const isSettled = conditions.every(({ status }) => status === "True");
    if (isSettled || this.#options.queue.hasWaited("machines", machine.key))
      await this.#write(machine, wanted, conditions);
    return isSettled;
  }

  /** A Secret that the user names must be there before machine and host say so. */
  async #withSecrets(machine: Metal3MachineView, wanted: Wanted): Promise<Wanted> {
    if (wanted.condition.status === "False") return wanted;
    for (const part of PARTS) {
      const name = machine[part]?.name;
      if (name === undefined || isSent(machine, part) || !(await this.#isMissing(machine, name))) continue;
      const message = `Secret ${machine.namespace}/${name}, which spec.${part} names, does not exist: create it, or omit spec.${part}`;
      return { ...wanted, secrets: {}, condition: notReady("WaitingForSecret", message) };
    }
    return wanted;
  }

  async #isMissing({ namespace }: Metal3MachineView, name: string): Promise<boolean> {
    const { api, secrets } = this.#options;
    const key = `${namespace}/${name}`;
    const nowMs = api.clock.monotonicMs();
    const missedMs = this.#missed.get(key);
    if (missedMs !== undefined && nowMs - missedMs < LOOK_AGAIN_MS) return true;
    const isMissing = await secrets.isMissing(namespace, name);
    if (isMissing) this.#missed.set(key, nowMs);
    else this.#missed.delete(key);
    return isMissing;
  }

  async #wanted(machine: Metal3MachineView): Promise<Wanted> {
    const { namespace, dataTemplate } = machine;
    const given = PARTS.map((part) => [part, machine[part]] as const);
    const foreign = given.find(([, one]) => one !== null && one.namespace !== "" && one.namespace !== namespace);
    const own = Object.fromEntries(
      given.flatMap(([part, one]) => (one === null ? [] : [[part, { name: one.name, namespace }]])),
    );
    const base = { renderedData: null, secrets: {} };
    if (foreign !== undefined) {
      const [part, reference] = foreign;
      const message = `spec.${part} names a Secret in namespace ${reference?.namespace}: it must be in ${namespace}`;
      return { ...base, condition: notReady("SecretInOtherNamespace", message) };
    }
    if (dataTemplate === null)
      return {
        ...base,
        secrets: own,
        condition: ready("SecretsSetExternally", "the Secrets are named in spec"),
      };
    const { data, waits } = await this.#data(machine, dataTemplate);
    if (data === null) return { ...base, condition: notReady("WaitingForMetal3Data", waits) };
    const renderedData = { name: data.name, namespace };
    const problem = data.conditions.find(({ type }) => type === "Ready")?.message ?? "";
    if (!data.ready) {
      const message = `Metal3Data ${data.name}: ${problem || "not rendered yet"}`;
      return { ...base, renderedData, condition: notReady("WaitingForMetal3Data", message) };
    }
    const secrets = { ...this.#rendered(data, machine), ...own };
    return { renderedData, secrets, condition: ready("Metal3DataSecretsReady", "") };
  }

  /** The machine's data object; null: why there is none. Makes its claim. */
  async #data(
    machine: Metal3MachineView,
    template: ObjectReference,
  ): Promise<{ readonly data: MachineDataView | null; readonly waits: string }> {
    const { world } = this.#options;
    const { namespace, key } = machine;
    if (template.namespace !== "" && template.namespace !== namespace)
      return none(`spec.dataTemplate is in namespace ${template.namespace}: it must be in ${namespace}`);
    const claim = world.caches.claims.items.get(key);
    if (claim === undefined && machine.name.length > MACHINE_NAME_CHARS_MAX)
      return none(
        `its name has ${machine.name.length} characters, and its Secrets are named after it: at most ${MACHINE_NAME_CHARS_MAX} leave room for -networkdata`,
      );
    if (claim === undefined) return none(await this.#claim(machine, template.name));
    const owner = machineOwnerOf(claim);
    if (owner !== undefined && owner.uid !== machine.uid)
      return none(`Metal3DataClaim ${key} is of another Metal3Machine of this name`);
    const vm = vmOwnerOf(claim);
    if (vm !== undefined) return none(`Metal3DataClaim ${key} is ${vm.kind} ${vm.name}'s: rename one of the two`);
    if (claim.renderedData === null)
      return none(`Metal3DataClaim ${key} has no index yet${claim.errorMessage && `: ${claim.errorMessage}`}`);
    const data = world.dataAt(machine, claim.renderedData);
    if (data === undefined || !isDataOf(data, claim)) return none(`Metal3Data ${claim.renderedData} is missing`);
    return { data, waits: "" };
  }

  async #claim(machine: Metal3MachineView, template: string): Promise<string> {
    const { api, world } = this.#options;
    const path = namespacedPath(DATA_CLAIMS_PATH, machine.namespace);
    const body = claimBody(machine, template, apiVersionAt(world.caches.metal3Machines.path));
    const created = await new ObjectClient(api).create(path, body);
    if (created.kind === "done" || created.kind === "conflict") return `Metal3DataClaim ${machine.key} was made`;
    return `Metal3DataClaim ${machine.key} cannot be made: ${problemOf(created.answer)}`;
  }

  /** As the data object names them; where it names none, those of every part of the template. */
  #rendered(data: MachineDataView, machine: Metal3MachineView): SecretReferences {
    const { world } = this.#options;
    const { namespace } = machine;
    const template = world.caches.templates.items.get(`${namespace}/${data.template.name}`);
    const namesNone = PARTS.every((part) => data[part] === null);
    const names = PARTS.flatMap((part) => {
      const isRendered = namesNone && template?.spec[part] != null;
      const name = data[part] ?? (isRendered ? secretName(machine.name, part) : null);
      return name === null ? [] : [[part, { name, namespace }] as const];
    });
    return Object.fromEntries(names);
  }

  async #write(machine: Metal3MachineView, wanted: Wanted, conditions: readonly Condition[]): Promise<void> {
    const { status } = machine;
    const merged = conditions.reduce((list, one) => this.#merged(list, one), status.conditions);
    const { userData } = machine;
    const next = {
      renderedData: wanted.renderedData,
      userData: userData && { name: userData.name, namespace: userData.namespace || machine.namespace },
      metaData: wanted.secrets.metaData ?? null,
      networkData: wanted.secrets.networkData ?? null,
      conditions: merged,
    };
    if (isDeepStrictEqual({ ...next }, { ...status })) return;
    await this.#options.status.write(this.#options.world.caches.metal3Machines.path, machine, next);
  }

  /** In the form of the version that is served; conditions of others stay as they are. */
  #merged(list: readonly JsonObject[], { message, ...condition }: Condition): readonly JsonObject[] {
    const isOld = !apiVersionAt(this.#options.world.caches.metal3Machines.path).endsWith("/v1beta2");
    const known = list.find(({ type }) => type === condition.type);
    const lastTransitionTime =
      known?.status === condition.status && typeof known.lastTransitionTime === "string"
        ? known.lastTransitionTime
        : isoTime(this.#options.api.clock.wallMs());
    const severity = isOld && condition.status === "False" ? { severity: "Info" } : {};
    const text = isOld && message === "" ? {} : { message: cutMessage(message, OLD_MESSAGE_CHARS_MAX) };
    const entry: JsonObject = { ...condition, ...severity, ...text, lastTransitionTime };
    return known === undefined ? [...list, entry] : list.map((one) => (one === known ? entry : one));
  }
}

/** Whether the machine's status names the Secret of its spec, which was there then. */
function isSent(machine: Metal3MachineView, part: Part): boolean {
  return machine.status[part]?.name === machine[part]?.name;
}

function ready(reason: string, message: string): Condition {
  return { type: "Metal3DataReady", status: "True", reason, message };
}

function notReady(reason: string, message: string): Condition {
  return { type: "Metal3DataReady", status: "False", reason, message };
}

function none(waits: string): { readonly data: null; readonly waits: string } {
  return { data: null, waits };
}
