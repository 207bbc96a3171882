import type { Buffer } from "node:buffer";
import type { Server } from "node:net";
import { IdentityClient, type IdentityOutcome } from "../../identity/client.ts";
import type { IdentitySource } from "../../identity/source.ts";
import type { Connect, OnList } from "../../kube/kube-api.ts";
import { type Log, QuietLog } from "../../platform/log.ts";
import type { Clock } from "../../platform/time.ts";
import type { KubeTenants } from "../tenant/create-kube-tenant-source.ts";
import { type ContentSource, NodeContents } from "../tenant/node-content.ts";
import { Passwords } from "../tenant/passwords.ts";
import { StandaloneSource } from "../tenant/standalone-source.ts";
import type { TenantSource } from "../tenant/tenant-source.ts";
import { listenForGroup } from "./listen.ts";
import type { MetadataSettings } from "./settings.ts";

export interface Sources {
  readonly identities: IdentitySource;
  readonly tenants: TenantSource;
  /** Why guests cannot be answered now; null: they can. */
  notReady(): Promise<string | null>;
  /** Begins to watch; does not wait. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

export interface SourcesOptions {
  readonly settings: MetadataSettings;
  readonly log: Log;
  readonly clock: Clock;
  serviceSecret(): Buffer | null;
  onOutcome(outcome: IdentityOutcome): void;
  readonly onList: OnList;
  /** The way to the API server; default: over HTTP. */
  readonly connect?: Connect | undefined;
}

/** Creates what the settings select. Throws Error when a directory or the kubeconfig cannot be used. */
export async function openSources(options: SourcesOptions): Promise<Sources> {
  const { settings, onOutcome } = options;
  const { kubernetes, fixed } = settings;
  if (kubernetes !== null && fixed !== null) {
    return openPodSources(options, kubernetes.kubeconfig, fixed.network);
  }
  const identities = new IdentityClient(settings.identitySocket, options.clock, onOutcome);
  const tenants =
    kubernetes === null
      ? standaloneTenants(options, identities)
      : withBalancers(await kubeTenants(options, kubernetes.kubeconfig), options);
  return {
    identities,
    tenants,
    notReady: () => identities.notReady(),
    start: () => tenants.start(),
    async stop() {
      await tenants.stop();
      await identities.close();
    },
  };
}

type RunningTenants = TenantSource & { start(): Promise<void>; stop(): Promise<void> };

function standaloneTenants({ settings, log, clock }: SourcesOptions, source: ContentSource): RunningTenants {
  const contents = new NodeContents({ source, log: new QuietLog(log, clock), clock });
  const tenants = new StandaloneSource(new Passwords(settings.state, clock), contents);
  return Object.assign(tenants, { start: async () => {}, stop: async () => {} });
}

async function kubeTenants(options: SourcesOptions, kubeconfig: string | null): Promise<KubeTenants> {
  // Read only where there is a cluster: its packages take memory and time.
  const { createKubeTenantSource } = await import("../tenant/create-kube-tenant-source.ts");
  const { settings, log, clock, serviceSecret: secret } = options;
  const { node } = settings;
  return createKubeTenantSource({ kubeconfig, node, log, clock, secret, connect: await wayOf(options) });
}

/** Networks of OVN-Kubernetes lead their guests to Services by balancers, which metadata-net makes. */
function withBalancers(tenants: KubeTenants, { settings, log, clock }: SourcesOptions): RunningTenants {
  const { balancersSocket: socket, metadataSocketGroup: group, node } = settings;
  const { backends: source, events } = tenants;
  let stopBalancers = async () => {};
  return {
    viewOf: (identity) => tenants.viewOf(identity),
    keepPassword: (identity, password) => tenants.keepPassword(identity, password),
    backendOf: (network) => tenants.backendOf(network),
    async start() {
      await tenants.start();
      const { serveBalancers } = await import("../balancers/serve-balancers.ts");
      const listenForHaproxy = (server: Server, path: string) => listenForGroup(server, path, group);
      const parts = { socket, listenForHaproxy, source, events, node, log, clock };
      stopBalancers = await serveBalancers(parts);
    },
    async stop() {
      await stopBalancers();
      await tenants.stop();
    },
  };
}

/** As the Service's own pod, on a network whose addresses OVN-Kubernetes allocates: without a daemon. */
async function openPodSources(options: SourcesOptions, kubeconfig: string | null, network: string): Promise<Sources> {
  const { createOvnIdentity } = await import("../../identity/sources/ovn/identity.ts");
  const connect = await wayOf(options);
  const tenants = await kubeTenants(options, kubeconfig);
  const api = connect(kubeconfig, options.clock);
  const ovn = createOvnIdentity({
    api,
    network,
    log: options.log,
    ...(options.settings.tokens === undefined ? {} : { tokens: options.settings.tokens }),
  });
  return {
    identities: counted(ovn, options.onOutcome),
    // The network's Service is this server itself.
    tenants: {
      viewOf: (identity) => tenants.viewOf(identity),
      keepPassword: (identity, password) => tenants.keepPassword(identity, password),
      backendOf: async () => null,
    },
    notReady: async () => ovn.notReady(),
    async start() {
      ovn.start();
      await tenants.start();
    },
    async stop() {
      await tenants.stop();
      await ovn.close();
      api.close();
    },
  };
}

/** The way to the API server, on which lists are counted. */
async function wayOf({ connect, onList }: SourcesOptions): Promise<Connect> {
  const way = connect ?? (await import("../../kube/http/http-kube-api.ts")).connectOverHttp;
  return (kubeconfig, clock) => way(kubeconfig, clock, { onList });
}

function counted(source: IdentitySource, onOutcome: (outcome: IdentityOutcome) => void): IdentitySource {
  return {
    async find(subject) {
      try {
        const found = await source.find(subject);
        onOutcome(found === null ? "nobody" : "found");
        return found;
      } catch (error) {
        onOutcome("away");
        throw error;
      }
    },
    close: () => source.close(),
  };
}
