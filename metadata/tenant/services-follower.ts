import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { namespacedPath } from "../../kube/objects.ts";
import { Reflector } from "../../kube/reflector.ts";
import { judgeService, projectService, SERVICES_PATH, type ServiceView } from "../../kube/views/service-view.ts";
import type { Log } from "../../platform/log.ts";
import { type Clock, sleep, timeoutSignal } from "../../platform/time.ts";
import {
  type LocalEndpoint,
  localEndpoints,
  projectSlice,
  SERVICE_NAME_LABEL,
  type SliceView,
} from "./services-endpoints.ts";

/** A guest's request waits so long, ms, for its network's Service to be known. */
const SYNC_MS_MAX = 5_000;
/** After a failure to learn which version of EndpointSlices there is, ms. */
const AGAIN_MS = 500;
const GROUP_PATH = "/apis/discovery.k8s.io";

export interface FollowerOptions {
  readonly api: KubeApi;
  readonly log: Pick<Log, "info" | "warn">;
  readonly namespace: string;
  readonly name: string;
  readonly onChange: () => void;
}

export type FollowedService =
  | {
      readonly kind: "endpoints";
      /** Of what requests to port 80 go to. */
      readonly endpoints: readonly LocalEndpoint[];
      readonly others: readonly OtherPort[];
      /** What of the Service guests do not reach; null: nothing. */
      readonly unserved: string | null;
    }
  | { readonly kind: "refused"; readonly problem: string };

/** A TCP port of the Service beside the one for port 80. */
interface OtherPort {
  readonly port: number;
  readonly endpoints: readonly LocalEndpoint[];
}

/** Follows one Service and its EndpointSlices, and nothing else. */
export class ServiceFollower {
  readonly #options: FollowerOptions;
  readonly #service: Reflector<ServiceView>;
  #slices: Reflector<SliceView> | null = null;
  readonly #starting: Promise<void>;
  #stopped = false;
  readonly #clock: Clock;
  /** When it was asked last: an instant of the API's clock, ms. */
  usedMs: number;

  constructor(options: FollowerOptions) {
    this.#options = options;
    this.#clock = options.api.clock;
    this.usedMs = this.#clock.monotonicMs();
    const { api, log, namespace, name, onChange } = options;
    this.#service = new Reflector<ServiceView>({
      api,
      log,
      path: namespacedPath(SERVICES_PATH, namespace),
      query: { fieldSelector: `metadata.name=${name}` },
      project: projectService,
      onUpsert: onChange,
      onDelete: onChange,
    });
    this.#service.start();
    this.#starting = this.#startSlices();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all([this.#service.stop(), this.#starting]);
    await this.#slices?.stop();
  }

  /** The Service's endpoints on a node. Waits for what is not known yet; throws ApiAway when that takes too long. */
  async endpoints(node: string): Promise<FollowedService> {
    this.usedMs = this.#clock.monotonicMs();
    const inTime = this.#isKnown ? null : timeoutSignal(this.#clock, SYNC_MS_MAX);
    if (inTime !== null && !(await this.#service.waitSynced(inTime))) throw this.#away();
    const key = `${this.#options.namespace}/${this.#options.name}`;
    const verdict = judgeService(key, this.#service.items.get(key) ?? null);
    // Of a Service that does not count, the endpoints may never be known: a name can be too long to be their label.
    if (verdict.kind === "refused") return verdict;
    if (inTime !== null && !(await this.#slicesKnown(inTime))) throw this.#away();
    const slices = [...(this.#slices?.items.values() ?? [])];
    const { portName, unserved } = verdict;
    return {
      kind: "endpoints",
      endpoints: localEndpoints(slices, { node, portName }),
      others: verdict.others.map(({ name, port }) => ({
        port,
        endpoints: localEndpoints(slices, { node, portName: name }),
      })),
      unserved,
    };
  }

  get #isKnown(): boolean {
    return this.#service.synced && this.#slices?.synced === true;
  }

  async #slicesKnown(inTime: AbortSignal): Promise<boolean> {
    const late = new Promise<void>((resolve) => {
      if (inTime.aborted) resolve();
      inTime.addEventListener("abort", () => resolve());
    });
    await Promise.race([this.#starting, late]);
    return (await this.#slices?.waitSynced(inTime)) ?? false;
  }

  #away(): ApiAway {
    const { namespace, name } = this.#options;
    return new ApiAway(`Service ${namespace}/${name} is not known yet: the API server does not say`);
  }

  async #startSlices(): Promise<void> {
    const { api, log, namespace, name, onChange } = this.#options;
    const path = namespacedPath(`${GROUP_PATH}/${await this.#version()}/endpointslices`, namespace);
    if (this.#stopped) return;
    this.#slices = new Reflector<SliceView>({
      api,
      log,
      path,
      query: { labelSelector: `${SERVICE_NAME_LABEL}=${name}` },
      project: projectSlice,
      onUpsert: onChange,
      onDelete: onChange,
    });
    this.#slices.start();
  }

  /** v1 from Kubernetes 1.21 on. */
  async #version(): Promise<string> {
    while (!this.#stopped) {
      try {
        const deadlineMs = this.#clock.monotonicMs() + SYNC_MS_MAX;
        const path = `${GROUP_PATH}/v1`;
        const read = await new ObjectClient(this.#options.api, "add").get(path, deadlineMs);
        if (read.kind === "present") return "v1";
        if (read.kind !== "refused") return "v1beta1";
        this.#options.log.warn(`${path}: the API server answers ${read.answer.status}`);
        await sleep(this.#clock, AGAIN_MS);
      } catch (error) {
        if (!(error instanceof ApiAway)) throw error;
        this.#options.log.warn(`${GROUP_PATH}: ${error.message}`);
        await sleep(this.#clock, AGAIN_MS);
      }
    }
    return "v1";
  }
}
