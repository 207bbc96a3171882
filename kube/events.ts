import { hash } from "node:crypto";
import { cutMessage } from "../ipam/claim-conditions.ts";
import { BoundedMap } from "../platform/bounded-map.ts";
import { isoTime, parseTime } from "../platform/time.ts";
import type { KubeApi } from "./kube-api.ts";
import { namespacedPath } from "./objects.ts";

/** One event per object, reason and message in this time, ms: a refusal repeated at every retry is reported once. */
const REPEAT_MS = 300_000;
/** Messages of one object and reason in that time: one that counts something at every retry is no flood. */
const MESSAGES_MAX = 10;
/** Objects and reasons remembered; beyond it the oldest is forgotten, and may be reported again. */
const REMEMBERED_MAX = 5_000;
/** Events being sent; more are dropped: logs and conditions have the same information. */
const IN_FLIGHT_MAX = 50;
/** Limits of the API server, characters. */
const MESSAGE_CHARS_MAX = 1_024;
const INSTANCE_CHARS_MAX = 128;
const DEADLINE_MS = 5_000;
/** Objects without a namespace have their events here, as everywhere in Kubernetes. */
const NAMESPACE_DEFAULT = "default";

export interface EventObject {
  readonly apiVersion: string;
  readonly kind: string;
  /** Absent or "": the object has none. */
  readonly namespace?: string;
  readonly name: string;
  readonly uid: string;
}

export function claimObject({ namespace, name, uid }: Required<Pick<EventObject, "namespace" | "name" | "uid">>) {
  return { apiVersion: "k8s.cni.cncf.io/v1alpha1", kind: "IPAMClaim", namespace, name, uid };
}

export function vmiObject({ namespace, name, uid }: Required<Pick<EventObject, "namespace" | "name" | "uid">>) {
  return { apiVersion: "kubevirt.io/v1", kind: "VirtualMachineInstance", namespace, name, uid };
}

/** `POOL_FULL` → `PoolFull`: how Kubernetes writes reasons. */
export function reasonOf(code: string): string {
  return code.toLowerCase().replaceAll(/(^|_)(.)/g, (_, __, letter: string) => letter.toUpperCase());
}

export interface EventWriterOptions {
  readonly api: KubeApi;
  /** `holdfast-daemon`, `holdfast-controller` */
  readonly component: string;
  /** The node, or the pod of the controller. */
  readonly host: string;
}

/** Writes core/v1 Events, at a limited rate. Never throws, and nothing waits for it. */
export class EventWriter {
  readonly #options: EventWriterOptions;
  /** By object and reason, the one written longest ago first: when each message was written, by its digest. */
  readonly #written = new BoundedMap<string, ReadonlyMap<string, number>>(REMEMBERED_MAX);
  /** Tells its events from those of another process: in a container every process has the ID 1. */
  readonly #writerId: string;
  #inFlightCount = 0;
  #sequence = 0;

  constructor(options: EventWriterOptions) {
    this.#options = options;
    this.#writerId = options.api.clock.randomBytes(4).toString("hex");
  }

  /** Something is wrong. `reason` is a word in CamelCase; `same`: what is the same whenever it is told again. */
  warn(object: EventObject, reason: string, message: string, same = message): void {
    this.#write("Warning", object, { reason, message, same });
  }

  /** Something was done that the object's owner may wait for. */
  inform(object: EventObject, reason: string, message: string): void {
    this.#write("Normal", object, { reason, message, same: message });
  }

  #write(
    type: "Normal" | "Warning",
    object: EventObject,
    { reason, message, same }: { readonly reason: string; readonly message: string; readonly same: string },
  ): void {
    if (this.#inFlightCount >= IN_FLIGHT_MAX || !this.#isNew(`${object.uid} ${reason}`, same)) return;
    const { api, component, host } = this.#options;
    const { clock } = api;
    const time = isoTime(clock.wallMs());
    const namespace = object.namespace || NAMESPACE_DEFAULT;
    this.#sequence += 1;
    // As client-go names them: unique among the events of an object, with the time first.
    const suffix = `${parseTime(time).toString(16)}.${this.#writerId}.${this.#sequence.toString(16)}`;
    const { apiVersion, kind, name, uid } = object;
    const body = {
      apiVersion: "v1",
      kind: "Event",
      metadata: { namespace, name: `${name.slice(0, 200)}.${suffix}` },
      involvedObject: { apiVersion, kind, name, uid, ...(object.namespace ? { namespace } : {}) },
      type,
      reason,
      message: cutMessage(message, MESSAGE_CHARS_MAX),
      source: { component, host },
      reportingComponent: component,
      reportingInstance: host.slice(0, INSTANCE_CHARS_MAX),
      firstTimestamp: time,
      lastTimestamp: time,
      count: 1,
    };
    const path = namespacedPath("/api/v1/events", namespace);
    const deadlineMs = clock.monotonicMs() + DEADLINE_MS;
    this.#inFlightCount += 1;
    // Lost events do no harm: every failure ends here.
    api
      .send({ method: "POST", path, body, priority: "housekeeping", deadlineMs })
      .catch(() => undefined)
      .finally(() => {
        this.#inFlightCount -= 1;
      })
      .catch(() => undefined);
  }

  #isNew(key: string, message: string): boolean {
    const nowMs = this.#options.api.clock.monotonicMs();
    const digest = hash("sha256", message, "base64");
    const recent = [...(this.#written.get(key) ?? [])].filter(([, atMs]) => nowMs - atMs < REPEAT_MS);
    if (recent.length >= MESSAGES_MAX || recent.some(([one]) => one === digest)) return false;
    this.#written.set(key, new Map([...recent, [digest, nowMs]]));
    return true;
  }
}
