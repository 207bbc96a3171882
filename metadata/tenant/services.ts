import type { Buffer } from "node:buffer";
import type { PodNetwork } from "../../identity/sources/ovn/pod-networks.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { cidrContains } from "../../ipam/space/cidr.ts";
import type { EventObject, EventWriter } from "../../kube/events.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { describeReference } from "../../networks/udn/service-reference.ts";
import type { UdnView } from "../../networks/udn/udn-object.ts";
import { udnSubnets } from "../../networks/udn/udn-subnets.ts";
import type { Log } from "../../platform/log.ts";
import { interval, type Timer } from "../../platform/time.ts";
import type { LocalEndpoint } from "./services-endpoints.ts";
import { ServiceFollower } from "./services-follower.ts";
import { EndpointPods } from "./services-pods.ts";
import { NAD_KIND, type NetworkReference, ServiceReferences } from "./services-references.ts";
import type { Backend } from "./tenant-source.ts";

/** A Service without requests for so long, ms, is no longer followed: its VMs have left this node. */
const IDLE_MS_MAX = 30 * 60_000;
const IDLE_LOOK_MS = 60_000;

export interface KubeServiceBackendsOptions {
  readonly api: KubeApi;
  readonly log: Pick<Log, "info" | "warn">;
  /** This node: endpoints of others are none of its. */
  readonly node: string;
  readonly events: Pick<EventWriter, "warn">;
  /** What identities are signed with; asked at each request. null: they are not signed. */
  readonly secret?: () => Buffer | null;
  readonly idleMsMax?: number;
}

/** What a network of OVN-Kubernetes has as its metadata backends on this node. */
export interface NetworkBackends {
  /** The (Cluster)UserDefinedNetwork. */
  readonly by: EventObject;
  /** Addresses on that network, `10.20.0.30:8080`. */
  readonly endpoints: readonly string[];
  readonly ports: readonly PortBackends[];
}

/** A port beside the one for port 80, as guests reach it: without anything that says who asks. */
interface PortBackends {
  readonly port: number;
  /** Ready ones of this node, `10.244.0.7:5000`. */
  readonly endpoints: readonly string[];
}

export interface NetworkPorts {
  /** `namespace/name` */
  readonly service: string;
  readonly ports: readonly PortBackends[];
}

/**
 * The Services that networks have as metadata backends: the ready endpoints on this node, of ClusterIP Services, over
 * IPv4, of pods with an address of their own. An unusable reference gives a backend without endpoints: its guests must
 * wait for their tenant's answer, and not get another one instead. See docs/decisions/0019.
 */
export class KubeServiceBackends {
  readonly #options: KubeServiceBackendsOptions;
  readonly #references: ServiceReferences;
  readonly #pods: EndpointPods;
  /** By `namespace/name`. */
  readonly #followers = new Map<string, ServiceFollower>();
  #idleTimer: Timer | null = null;
  readonly #watchers = new Set<() => void>();

  constructor(options: KubeServiceBackendsOptions) {
    this.#options = options;
    const onChange = () => this.#changed();
    this.#references = new ServiceReferences({ ...options, onChange });
    this.#pods = new EndpointPods(options.api, options.node);
  }

  /** Does not wait for the API. */
  start(): void {
    this.#references.start();
    this.#idleTimer = interval(this.#options.api.clock, IDLE_LOOK_MS, () => this.#stopIdle()).unref();
  }

  async stop(): Promise<void> {
    this.#idleTimer?.cancel();
    const followers = [...this.#followers.values()];
    this.#followers.clear();
    await Promise.all([this.#references.stop(), ...followers.map((one) => one.stop())]);
  }

  /** null: the network refers to no Service. Throws ApiAway while that, or the Service, is not known. */
  async backendOf(network: string): Promise<Backend | null> {
    const found = await this.#references.of(network);
    if (found === null) return null;
    const { reference } = found;
    const secret = this.#options.secret?.() ?? null;
    if (reference.kind === "wrong") {
      this.#warnNad(found, "MetadataServiceReferenceInvalid", describeReference(reference));
      return { kind: "service", service: "(invalid reference)", endpoints: [], secret };
    }
    const service = `${reference.namespace}/${reference.name}`;
    return { kind: "service", service, endpoints: await this.#endpoints(found, service), secret };
  }

  /** Calls back after each change that may be one of `backendsOnNetwork` or `portsOf`. */
  watch(changed: () => void): void {
    this.#watchers.add(changed);
  }

  #changed(): void {
    for (const changed of this.#watchers) changed();
  }

  /** What guests reach at other ports than 80, by the node's listener. null: no usable Service. Throws ApiAway. */
  async portsOf(network: string): Promise<NetworkPorts | null> {
    const found = await this.#references.of(network);
    if (found === null || found.reference.kind === "wrong") return null;
    const { namespace, name } = found.reference;
    const service = `${namespace}/${name}`;
    const followed = await this.#follower(namespace, name).endpoints(this.#options.node);
    if (followed.kind === "refused") return null;
    this.#warnOfUnserved(found, followed.unserved);
    const problems: string[] = [];
    const ports = await Promise.all(
      followed.others.map(async ({ port, endpoints }) => ({
        port,
        endpoints: await this.#allowed(endpoints, namespace, problems),
      })),
    );
    this.#warnOfEndpoints(found, service, { endpoints: [], problems, instead: null });
    return { service, ports };
  }

  /** Tells the owner of a network that its guests on this node do not reach those ports. Throws ApiAway. */
  async tellUnopened(network: string, problem: string): Promise<void> {
    const found = await this.#references.of(network);
    if (found !== null) this.#warn(found, "MetadataServicePortsNotServed", `node ${this.#options.node}: ${problem}`);
  }

  /** Ready endpoints here by addresses on a network of OVN-Kubernetes. null: none, or no Service. Throws ApiAway. */
  async backendsOnNetwork(network: string): Promise<NetworkBackends | null> {
    const found = await this.#references.of(network);
    if (found?.udn === undefined || found.udn === null) return null;
    const { by, udn, reference } = found;
    // The controller says what is wrong. Guests wait for their tenant's answer all the same.
    if (reference.kind === "wrong") return { by, endpoints: [], ports: [] };
    const { namespace, name } = reference;
    const followed = await this.#follower(namespace, name).endpoints(this.#options.node);
    if (followed.kind === "refused") return { by, endpoints: [], ports: [] };
    const problems: string[] = [];
    const onNetwork = async (given: readonly LocalEndpoint[]) => {
      const endpoints: string[] = [];
      for (const endpoint of given) {
        const there = addressOnNetwork(endpoint, await this.#pods.verdictOf(endpoint, namespace), udn);
        if ("problem" in there) problems.push(there.problem);
        else endpoints.push(`${there.address}:${endpoint.port}`);
      }
      return endpoints;
    };
    const endpoints = await onNetwork(followed.endpoints);
    const ports: PortBackends[] = [];
    for (const one of followed.others) ports.push({ port: one.port, endpoints: await onNetwork(one.endpoints) });
    this.#warnOfEndpoints(found, `${namespace}/${name}`, {
      endpoints,
      problems,
      instead: "are refused at once",
    });
    return { by, endpoints, ports };
  }

  async #endpoints(found: NetworkReference, service: string): Promise<string[]> {
    const { node } = this.#options;
    const [namespace = "", name = ""] = service.split("/");
    const followed = await this.#follower(namespace, name).endpoints(node);
    if (followed.kind === "refused") {
      this.#warnNad(found, "MetadataServiceUnusable", followed.problem);
      return [];
    }
    this.#warnOfUnserved(found, followed.unserved);
    const problems: string[] = [];
    const endpoints = await this.#allowed(followed.endpoints, namespace, problems);
    const instead = "get 503 from the metadata service";
    this.#warnOfEndpoints(found, service, { endpoints, problems, instead });
    return endpoints;
  }

  /** Those that requests may go to; why not to others is added to `problems`. */
  async #allowed(given: readonly LocalEndpoint[], namespace: string, problems: string[]): Promise<string[]> {
    const endpoints: string[] = [];
    for (const endpoint of given) {
      const { problem } = await this.#pods.verdictOf(endpoint, namespace);
      if (problem === null) endpoints.push(`${endpoint.address}:${endpoint.port}`);
      else problems.push(problem);
    }
    return endpoints;
  }

  #warnOfUnserved(found: NetworkReference, unserved: string | null): void {
    if (unserved !== null) this.#warnNad(found, "MetadataServicePortsNotServed", unserved);
  }

  #warnOfEndpoints(
    found: NetworkReference,
    service: string,
    known: {
      readonly endpoints: readonly string[];
      readonly problems: readonly string[];
      /** What becomes of guests without one; null: nothing that they would be told of. */
      readonly instead: string | null;
    },
  ): void {
    const { endpoints, problems, instead } = known;
    if (problems.length > 0)
      this.#warn(found, "MetadataServiceEndpointRefused", `Service ${service}: ${[...new Set(problems)].join("; ")}`);
    else if (endpoints.length === 0 && instead !== null) {
      const message = `Service ${service} has no ready endpoint on node ${this.#options.node}: guests there ${instead}`;
      this.#warn(found, "MetadataServiceNoLocalEndpoint", message);
    }
  }

  #follower(namespace: string, name: string): ServiceFollower {
    const key = `${namespace}/${name}`;
    const known = this.#followers.get(key);
    if (known !== undefined) return known;
    const { api, log } = this.#options;
    const onChange = () => this.#changed();
    const follower = new ServiceFollower({ api, log, namespace, name, onChange });
    this.#followers.set(key, follower);
    return follower;
  }

  #stopIdle(): void {
    const { api, idleMsMax = IDLE_MS_MAX } = this.#options;
    const nowMs = api.clock.monotonicMs();
    for (const [key, follower] of this.#followers) {
      if (nowMs - follower.usedMs < idleMsMax) continue;
      this.#followers.delete(key);
      follower.stop().catch(() => undefined);
    }
  }

  #warn({ by }: NetworkReference, reason: string, message: string): void {
    this.#options.events.warn(by, reason, message);
  }

  /** What is the same on every node the controller tells, once, of a (Cluster)UserDefinedNetwork. */
  #warnNad(found: NetworkReference, reason: string, message: string): void {
    if (found.by.kind === NAD_KIND) this.#warn(found, reason, message);
  }
}

/** The IPv4 address of an endpoint's pod on its primary network, or why requests may not go there. */
function addressOnNetwork(
  { address: known, pod }: LocalEndpoint,
  verdict: { readonly problem: string | null; readonly networks: readonly PodNetwork[] },
  udn: UdnView,
): { readonly address: string } | { readonly problem: string } {
  if (verdict.problem !== null || pod === null) return { problem: verdict.problem ?? `${known} is no pod` };
  // OVN-Kubernetes renders a network's NetworkAttachmentDefinitions under the network's own name.
  const nad = `${pod.namespace}/${udn.name}`;
  const own = verdict.networks.find((one) => one.nad === nad && one.primary);
  const found = own?.addresses.find(({ address }) => address.family === 4)?.address;
  const described = `pod ${pod.namespace}/${pod.name}`;
  if (found === undefined) return { problem: `${described} has no IPv4 address on network ${udn.network}` };
  if (!udnSubnets(udn.networkSpec).some((cidr) => cidrContains(cidr, found)))
    return {
      problem: `${described} says that it has ${formatAddress(found)}, which is in no subnet of the network`,
    };
  return { address: formatAddress(found) };
}
