import { isDeepStrictEqual } from "node:util";
import { type ClaimCondition, mergeCondition } from "../ipam/claim-conditions.ts";
import type { EventWriter } from "../kube/events.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { namespacedPath, objectPath } from "../kube/objects.ts";
import { Reflector } from "../kube/reflector.ts";
import { judgeService, projectService, SERVICES_PATH, type ServiceView } from "../kube/views/service-view.ts";
import { readUdnServiceReference, type ServiceReference } from "../networks/udn/service-reference.ts";
import { CUDNS_PATH, describeUdn, UDN_API_VERSION, UDNS_PATH, type UdnView } from "../networks/udn/udn-object.ts";
import { UdnWatch } from "../networks/udn/udn-watch.ts";
import type { Log } from "../platform/log.ts";
import { isoTime } from "../platform/time.ts";

/** Type of the only condition that Holdfast writes into a (Cluster)UserDefinedNetwork. */
const METADATA_SERVICE_READY = "MetadataServiceReady";

export interface UdnConditionsOptions {
  readonly api: KubeApi;
  readonly events: Pick<EventWriter, "warn">;
  readonly idle: () => string | null;
  readonly onChange: () => void;
  readonly log: Pick<Log, "info" | "warn">;
}

interface DesiredCondition extends Pick<ClaimCondition, "status" | "reason" | "message"> {
  /** What of a Service that is used guests do not reach: for an event. */
  readonly unserved?: string;
}

/**
 * Tells the owner of a (Cluster)UserDefinedNetwork whether its reference to a metadata Service is usable: by a
 * condition, written only when it changes, and an event if it is not. Whether endpoints answer is checked on each node.
 */
export class UdnConditions {
  readonly #options: UdnConditionsOptions;
  readonly #watch: UdnWatch;
  readonly #services: Reflector<ServiceView>;
  #servicesFollowed = false;
  /** By UID: a definition without conditions drops them, and they must not be written again and again. */
  readonly #lastWritten = new Map<string, string>();
  readonly #announced = new Map<string, string>();

  constructor(options: UdnConditionsOptions) {
    this.#options = options;
    const { api, onChange, log } = options;
    this.#watch = new UdnWatch({ api, log, onChange });
    this.#services = new Reflector<ServiceView>({
      api,
      path: SERVICES_PATH,
      query: { resourceVersion: "0" },
      log,
      project: projectService,
      onUpsert: onChange,
      onDelete: onChange,
      onSynced: onChange,
    });
  }

  start(): void {
    this.#watch.start();
  }

  async stop(): Promise<void> {
    await Promise.all([this.#watch.stop(), this.#servicesFollowed ? this.#services.stop() : null]);
  }

  async runPass(signal: AbortSignal): Promise<void> {
    if (!this.#watch.synced) return;
    const views = [...this.#watch.views()];
    const uids = new Set(views.map(({ uid }) => uid));
    for (const known of [this.#lastWritten, this.#announced])
      for (const uid of known.keys()) if (!uids.has(uid)) known.delete(uid);
    for (const view of views) {
      if (signal.aborted || this.#options.idle() !== null) return;
      await this.#settle(view);
    }
  }

  async #settle(view: UdnView): Promise<void> {
    const reference = readUdnServiceReference(view);
    const known = view.conditions.find(({ type }) => type === METADATA_SERVICE_READY);
    if (reference.kind === "none") {
      this.#announced.delete(view.uid);
      if (known !== undefined)
        await this.#write(
          view,
          view.conditions.filter(({ type }) => type !== METADATA_SERVICE_READY),
        );
      return;
    }
    const found = this.#desiredCondition(reference);
    if (found === null) return;
    this.#announce(view, found);
    const { unserved: _, ...desired } = found;
    const conditions = mergeCondition(view.conditions, {
      type: METADATA_SERVICE_READY,
      ...desired,
      lastTransitionTime: isoTime(this.#options.api.clock.wallMs()),
    });
    if (!isDeepStrictEqual(conditions, view.conditions)) await this.#write(view, conditions);
    // The server keeps it; if it is dropped later, it is written again.
    else this.#lastWritten.delete(view.uid);
  }

  /** null: it is not known yet. */
  #desiredCondition(reference: Exclude<ServiceReference, { kind: "none" }>): DesiredCondition | null {
    if (reference.kind === "wrong")
      return { status: "False", reason: "ReferenceInvalid", message: reference.problems.join("; ") };
    if (!this.#servicesFollowed) {
      this.#servicesFollowed = true;
      this.#services.start();
    }
    if (!this.#services.synced) return null;
    const key = `${reference.namespace}/${reference.name}`;
    const service = this.#services.items.get(key) ?? null;
    const verdict = judgeService(key, service);
    if (verdict.kind === "ok") {
      const { unserved } = verdict;
      const found = `metadata requests go to Service ${key}`;
      const message = unserved === null ? found : `${found}; ${unserved}`;
      return { status: "True", reason: "ServiceFound", message, ...(unserved === null ? {} : { unserved }) };
    }
    const reason = service === null ? "ServiceNotFound" : "ServiceNotSupported";
    return { status: "False", reason, message: verdict.problem };
  }

  #announce(view: UdnView, { status, reason, message, unserved }: DesiredCondition): void {
    const { uid, kind, namespace, name } = view;
    if (this.#announced.get(uid) === message) return;
    this.#announced.set(uid, message);
    if (status === "True" && unserved === undefined) return;
    this.#options.log.warn({ network: view.network }, `${describeUdn(view)}: ${message}`);
    const object = { apiVersion: UDN_API_VERSION, kind, namespace, name, uid };
    const told = status === "True" ? "MetadataServicePortsNotServed" : reason;
    this.#options.events.warn(object, told, unserved ?? message);
  }

  async #write(view: UdnView, conditions: readonly ClaimCondition[]): Promise<void> {
    const written = JSON.stringify(conditions.map(({ lastTransitionTime: _, ...rest }) => rest));
    if (this.#lastWritten.get(view.uid) === written) return;
    const path =
      view.kind === "UserDefinedNetwork"
        ? namespacedPath(UDNS_PATH, view.namespace, view.name)
        : objectPath(CUDNS_PATH, view.name);
    const body = { metadata: { resourceVersion: view.resourceVersion }, status: { conditions } };
    const outcome = await new ObjectClient(this.#options.api).patchStatus(path, body);
    // Another writer changed it: the next pass sees how.
    if (outcome.kind === "conflict") return;
    this.#lastWritten.set(view.uid, written);
    if (outcome.kind === "done") return;
    const { status, body: answer } = outcome.answer;
    this.#options.log.warn(
      { network: view.network, status, problem: answer?.message },
      `the condition of ${describeUdn(view)} cannot be written`,
    );
  }
}
