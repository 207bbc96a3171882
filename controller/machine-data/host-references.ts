import { ANNOTATION_CHARS_MAX, parseBoundedJson } from "../../ipam/definition/bounded-json.ts";
import type { JsonObject } from "../../ipam/definition/definition-keys.ts";
import { problemOf } from "../../kube/answers.ts";
import type { KubeApi, KubeRequest } from "../../kube/kube-api.ts";
import { CONFLICT, UNPROCESSABLE } from "../../kube/kube-api.ts";
import { HOST_MARK_ANNOTATION, HOSTS_PATH } from "../../kube/metal3.ts";
import { HOUSEKEEPING_DEADLINE_MS, ObjectClient } from "../../kube/object-client.ts";
import { namespacedPath } from "../../kube/objects.ts";
import { type HostView, type Metal3MachineView, projectMetal3Machine } from "../../kube/views/metal3-machine-view.ts";
import type { Log } from "../../platform/log.ts";
import { PARTS, type Part } from "./data-bodies.ts";
import type { DataWorld } from "./data-world.ts";
import { Standing } from "./standing.ts";

export interface HostReferencesOptions {
  readonly api: KubeApi;
  readonly world: DataWorld;
  /** How long a machine must have been gone before its host forgets its Secrets. */
  readonly graceMs: number;
  readonly log: Pick<Log, "warn">;
}

/** What a host was told: written into its annotation, so that it can be taken back after the machine is gone. */
interface Mark extends Partial<Record<Part, string>> {
  readonly machine: string;
  readonly uid: string;
}

interface HostCondition {
  readonly type: "HostDataReferenced";
  readonly status: "True" | "False";
  readonly reason: string;
  readonly message: string;
}

const OK_MAX = 300;
const NOT_TAKEN_BACK = "the Secrets of a former machine are still named by its host; will retry";

/** A machine's Secrets in the spec of its host, unless others are, until it goes. Writes test the version read. */
export class HostReferences {
  readonly #options: HostReferencesOptions;
  readonly #objects: ObjectClient;
  readonly #left: Standing;

  constructor(options: HostReferencesOptions) {
    this.#options = options;
    this.#objects = new ObjectClient(options.api);
    this.#left = new Standing(options.graceMs);
  }

  /** Returns the machine's condition; null: no host is chosen. Throws ApiAway. */
  async tell(
    machine: Metal3MachineView,
    secrets: Readonly<Partial<Record<Part, { readonly name: string }>>>,
  ): Promise<HostCondition | null> {
    if (machine.host === null) return null;
    const host = this.#options.world.caches.hosts.items.get(`${machine.namespace}/${machine.host}`);
    if (host === undefined)
      return notSent("HostNotFound", `BareMetalHost ${machine.namespace}/${machine.host} does not exist`);
    const wanted = PARTS.flatMap((part) => (secrets[part] ? [[part, secrets[part].name] as const] : []));
    const former = readMark(host.mark);
    // Names of machines are unique: what a machine of this name was given is this one's to replace.
    const own = former?.machine === machine.name ? former : null;
    const outdated = PARTS.filter((part) => isMarked(host, own, part) && secrets[part]?.name !== own?.[part]);
    const other = wanted.find(
      ([part, name]) => host[part] !== null && !isNamed(host, part, name) && !outdated.includes(part),
    );
    if (other !== undefined) {
      const [part, name] = other;
      const message = `spec.${part} of BareMetalHost ${host.key} names Secret ${host[part]?.name}, and not ${name}: it is left as it is; clear it to have it set`;
      return notSent("HostNamesOtherSecret", message);
    }
    const sent = {
      type: "HostDataReferenced",
      status: "True",
      reason: "HostNamesSecrets",
      message: "",
    } as const;
    const missing = wanted.filter(([part, name]) => !isNamed(host, part, name));
    const extra = outdated.filter((part) => secrets[part] === undefined);
    const isMarkDue = own !== null && own.uid !== machine.uid;
    if (missing.length === 0 && extra.length === 0 && !isMarkDue) return sent;
    const mark: Mark = { machine: machine.name, uid: machine.uid, ...Object.fromEntries(wanted) };
    const { namespace } = machine;
    const refused = await this.#patch(host, [
      ...missing.map(([part, name]) => ({ op: "add", path: `/spec/${part}`, value: { name, namespace } })),
      ...extra.map((part) => ({ op: "remove", path: `/spec/${part}` })),
      ...markOperations(host, JSON.stringify(mark)),
    ]);
    if (refused === null) return sent;
    if (refused !== "changed") return notSent("HostNotWritten", refused);
    return notSent("HostChanged", `BareMetalHost ${host.key} was changed at the same time; it is tried again`);
  }

  /** Whether a machine may have left something behind, and not been gone for long enough. */
  get isWaiting(): boolean {
    return this.#left.isObserving;
  }

  async runPass(signal: AbortSignal, mayGoOn: () => Promise<boolean>): Promise<void> {
    const { api, world } = this.#options;
    const { hosts, metal3Machines } = world.caches;
    if (!hosts.known || !metal3Machines.known) return;
    const due: { host: HostView; mark: Mark }[] = [];
    this.#left.beginPass(api.clock.monotonicMs());
    for (const host of hosts.items.values()) {
      const mark = readMark(host.mark);
      if (mark === null) continue;
      const machine = metal3Machines.items.get(`${host.namespace}/${mark.machine}`);
      if (machine !== undefined && keeps(machine, host, mark)) continue;
      const problem = machine === undefined ? world.clusterProblem(host) : world.clusterProblem(machine);
      if (problem === null && this.#left.see(`${host.uid} ${host.mark}`)) due.push({ host, mark });
    }
    this.#left.endPass(api.clock.monotonicMs());
    for (const { host, mark } of due) {
      if (signal.aborted || !(await mayGoOn())) return;
      try {
        const refused = await this.#takeBack(host, mark);
        if (refused !== null) this.#options.log.warn({ host: host.key, problem: refused }, NOT_TAKEN_BACK);
      } catch (error) {
        // Whatever one host meets, the others go on.
        this.#options.log.warn({ host: host.key, problem: (error as Error).message }, NOT_TAKEN_BACK);
      }
    }
  }

  /** Returns why it was refused; null: it was not, or it is not to be done now. */
  async #takeBack(host: HostView, mark: Mark): Promise<string | null> {
    const { path } = this.#options.world.caches.metal3Machines;
    const machine = await this.#objects.get(namespacedPath(path, host.namespace, mark.machine));
    if (machine.kind !== "present" && machine.kind !== "absent") return null;
    if (machine.kind === "present" && keeps(projectMetal3Machine(machine.object), host, mark)) return null;
    const own = PARTS.filter((part) => isMarked(host, mark, part));
    const refused = await this.#patch(host, [
      ...own.map((part) => ({ op: "remove", path: `/spec/${part}` })),
      { op: "remove", path: `/metadata/annotations/${pointer(HOST_MARK_ANNOTATION)}` },
    ]);
    return refused === "changed" ? null : refused;
  }

  /** Returns why it was not done, `changed` where the host is another than it was; null: it was done. */
  async #patch(host: HostView, operations: readonly JsonObject[]): Promise<"changed" | string | null> {
    const { api } = this.#options;
    const tests = [
      { op: "test", path: "/metadata/uid", value: host.uid },
      { op: "test", path: "/metadata/resourceVersion", value: host.resourceVersion },
      ...PARTS.flatMap((part) =>
        host[part] === null ? [] : [{ op: "test", path: `/spec/${part}/name`, value: host[part].name }],
      ),
    ];
    const request: KubeRequest = {
      method: "PATCH",
      patch: "json",
      path: namespacedPath(HOSTS_PATH, host.namespace, host.name),
      body: [...tests, ...operations],
      priority: "housekeeping",
      deadlineMs: api.clock.monotonicMs() + HOUSEKEEPING_DEADLINE_MS,
    };
    const answer = await api.send(request);
    if (answer.status < OK_MAX) return null;
    if (answer.status === CONFLICT) return "changed";
    if (answer.status === UNPROCESSABLE && (await this.#isChanged(host, request.path))) return "changed";
    return `BareMetalHost ${host.key} cannot be written: ${problemOf(answer)}`;
  }

  async #isChanged(host: HostView, path: string): Promise<boolean> {
    const reading = await this.#objects.get(path);
    return reading.kind !== "present" || reading.object.metadata.resourceVersion !== host.resourceVersion;
  }
}

function isNamed(host: HostView, part: Part, name: string): boolean {
  const reference = host[part];
  return reference?.name === name && (reference.namespace === "" || reference.namespace === host.namespace);
}

/** Whether the host names in this part what the mark says that it was told. */
function isMarked(host: HostView, mark: Mark | null, part: Part): boolean {
  const name = mark?.[part];
  return name !== undefined && isNamed(host, part, name);
}

/** Whether the machine that a mark names has the host still: itself, or one of its name that is told soon. */
function keeps(machine: Metal3MachineView, host: HostView, mark: Mark): boolean {
  if (machine.host !== host.name) return false;
  const { uid, dataTemplate, metaData, networkData } = machine;
  return uid === mark.uid || dataTemplate !== null || metaData !== null || networkData !== null;
}

function markOperations(host: HostView, value: string): JsonObject[] {
  const path = `/metadata/annotations/${pointer(HOST_MARK_ANNOTATION)}`;
  if (Object.keys(host.annotations).length > 0) return [{ op: "add", path, value }];
  return [{ op: "add", path: "/metadata/annotations", value: { [HOST_MARK_ANNOTATION]: value } }];
}

/** A key in a JSON pointer. */
function pointer(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1");
}

function readMark(text: string): Mark | null {
  if (text === "") return null;
  try {
    const mark = parseBoundedJson(text, ANNOTATION_CHARS_MAX);
    return isMark(mark) ? mark : null;
  } catch {
    // Somebody else has written it: nothing of this host is ours.
    return null;
  }
}

function isMark(value: unknown): value is Mark {
  if (typeof value !== "object" || value === null) return false;
  const texts = Object.values(value).every((one) => typeof one === "string");
  return texts && "machine" in value && "uid" in value;
}

function notSent(reason: string, message: string): HostCondition {
  return { type: "HostDataReferenced", status: "False", reason, message };
}
