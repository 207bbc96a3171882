import type { Buffer } from "node:buffer";
import { EventWriter } from "../../kube/events.ts";
import type { Connect } from "../../kube/kube-api.ts";
import type { Log } from "../../platform/log.ts";
import type { Clock } from "../../platform/time.ts";
import { KubeTenantSource } from "./kube-tenant-source.ts";
import { KubeServiceBackends } from "./services.ts";
import type { TenantSource } from "./tenant-source.ts";

const COMPONENT = "holdfast-metadata";

export interface KubeOptions {
  /** null: as a pod of the cluster. */
  readonly kubeconfig: string | null;
  readonly node: string;
  readonly log: Pick<Log, "info" | "warn">;
  readonly clock: Clock;
  /** What identities are signed with for Services; asked at each request. null: they are not signed. */
  readonly secret: () => Buffer | null;
  readonly connect: Connect;
}

export interface KubeTenants extends TenantSource {
  readonly events: Pick<EventWriter, "warn" | "inform">;
  readonly backends: KubeServiceBackends;
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** With an API client of its own, for which `start` does not wait. Throws when the kubeconfig cannot be used. */
export function createKubeTenantSource(options: KubeOptions): KubeTenants {
  const { kubeconfig, node, log, clock, secret, connect } = options;
  const api = connect(kubeconfig, clock);
  const events = new EventWriter({ api, component: COMPONENT, host: node });
  const serviceBackends = new KubeServiceBackends({ api, log, node, events, secret });
  const source = new KubeTenantSource({ api, node, log, events, serviceBackends });
  return {
    events,
    backends: serviceBackends,
    viewOf: (identity) => source.viewOf(identity),
    backendOf: (network) => source.backendOf(network),
    keepPassword: (identity, password) => source.keepPassword(identity, password),
    start: () => source.start(),
    async stop() {
      await source.stop();
      api.close();
    },
  };
}
