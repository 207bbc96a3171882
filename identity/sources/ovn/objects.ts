import { isObject, parseConfiguration } from "../../../ipam/definition/definition-keys.ts";
import { NAD_CONFIG_CHARS_MAX } from "../../../ipam/definition/nad-config.ts";
import type { Configuration } from "../../../ipam/definition/read-keys.ts";
import { RefusalError } from "../../../ipam/refusals.ts";
import { formatAddress } from "../../../ipam/space/address.ts";
import type { KubeApi } from "../../../kube/kube-api.ts";
import { CLAIMS_PATH, NADS_PATH, namespacedPath, PODS_PATH } from "../../../kube/objects.ts";
import { Reflector, type ReflectorState } from "../../../kube/reflector.ts";
import { type ClaimView, projectClaim } from "../../../kube/views/claim-view.ts";
import { statusAddresses } from "../../../kube/views/held-addresses.ts";
import { objectAt, readMetadata } from "../../../kube/views/object-metadata.ts";
import { POD_NETWORKS_ANNOTATION, type PodView, projectPod } from "../../../kube/views/pod-view.ts";
import type { Log } from "../../../platform/log.ts";
import { type Clock, timeoutSignal } from "../../../platform/time.ts";
import { readPodNetworks } from "./pod-networks.ts";

/** `type` of OVN-Kubernetes' plugin. */
const OVN_PLUGIN = "ovn-k8s-cni-overlay";
/** The pod's interface on a user-defined primary network. */
const PRIMARY_INTERFACE = "ovn-udn1";

/** A launcher pod and its networks according to OVN-Kubernetes. */
export type OvnPod = Readonly<NonNullable<ReturnType<typeof ovnPodOf>>>;

export type OvnInterface = Readonly<OvnPod["networks"][number]>;

export type OvnNad = Readonly<NonNullable<ReturnType<typeof projectOvnNad>>>;

/** Projects a pod to what identifies it; null: it has no network of OVN-Kubernetes. Throws MalformedObjectError. */
export function projectOvnPod(object: unknown): OvnPod | null {
  return ovnPodOf(projectPod(object, { addresses: true }));
}

/** The same of a pod that was projected with its addresses. */
export function ovnPodOf({ annotations, ...view }: PodView) {
  const networks = readPodNetworks(annotations[POD_NETWORKS_ANNOTATION]);
  if (networks.length === 0) return null;
  const said = new Map<string, string>();
  for (const { nad, address, interface: name } of statusAddresses({ ...view, annotations }).held) {
    const key = nad === null ? "" : `${nad.namespace}/${nad.name} ${formatAddress(address)}`;
    if (!said.has(key)) said.set(key, name);
  }
  return {
    ...view,
    /** Its containers run. Before that, addresses in the annotation may have been written by anybody. */
    running: view.phase === "Running",
    networks: networks.map((network) => {
      const [first] = network.addresses;
      const name = first && said.get(`${network.nad} ${formatAddress(first.address)}`);
      // null: not known.
      return { ...network, interface: name || (network.primary ? PRIMARY_INTERFACE : null) };
    }),
  };
}

/** null: it is not OVN-Kubernetes' or cannot be read. Throws MalformedObjectError. */
function projectOvnNad(object: unknown) {
  const { key, uid, resourceVersion } = readMetadata(object, "NetworkAttachmentDefinition");
  const { config } = objectAt(object, "spec", "NetworkAttachmentDefinition");
  const read = readOvnConfig(config);
  return read && { key, uid, resourceVersion, ...read };
}

/** A NetworkAttachmentDefinition's configuration; null: it is not OVN-Kubernetes' or cannot be read. */
export function readOvnConfig(config: unknown) {
  const conf = parse(config);
  const plugins: readonly unknown[] = Array.isArray(conf.plugins) ? conf.plugins : [conf];
  const plugin = plugins.filter(isObject).find(({ type }) => type === OVN_PLUGIN);
  const name = conf.name ?? plugin?.name;
  if (plugin === undefined || typeof name !== "string" || name === "") return null;
  const { mtu } = plugin;
  return { network: name, mtu: typeof mtu === "number" && mtu > 0 ? mtu : null };
}

/** An IPAMClaim of one network; null: it belongs to another. Throws MalformedObjectError. */
function projectClaimOf(network: string): (object: unknown) => ClaimView | null {
  return (object) => {
    const claim = projectClaim(object);
    return claim.network === network ? claim : null;
  };
}

function parse(config: unknown): Configuration {
  if (typeof config !== "string" || config.length > NAD_CONFIG_CHARS_MAX) return {};
  try {
    return parseConfiguration(config);
  } catch (error) {
    if (error instanceof RefusalError) return {};
    throw error;
  }
}

/** Only VMs are answered; other pods are not kept. */
const LAUNCHERS = "kubevirt.io=virt-launcher";

interface OvnWatchOptions {
  readonly api: KubeApi;
  readonly network: string;
  readonly log: Pick<Log, "info" | "warn">;
}

/** The launcher pods on one network of OVN-Kubernetes, by address, and the claims of the network. */
export class OvnWatch {
  readonly #clock: Clock;
  readonly #network: string;
  readonly #nads: Reflector<OvnNad>;
  readonly #pods: Reflector<OvnPod>;
  readonly #claims: Reflector<ClaimView>;
  readonly #states = new Map<string, ReflectorState>();
  /** Keys of pods by address, on any network: the network of a NAD may become known later. */
  readonly #keys = new Map<string, Set<string>>();

  constructor({ api, network, log }: OvnWatchOptions) {
    this.#clock = api.clock;
    this.#network = network;
    const namespace = namespaceOf(network);
    const at = (path: string) => (namespace === null ? path : namespacedPath(path, namespace));
    const shared = (path: string) => ({
      api,
      log,
      path: at(path),
      onState: (state: ReflectorState) => this.#states.set(path, state),
    });
    this.#nads = new Reflector<OvnNad>({
      ...shared(NADS_PATH),
      project: projectOvnNad,
      onUpsert: () => {},
      onDelete: () => {},
    });
    this.#pods = new Reflector<OvnPod>({
      ...shared(PODS_PATH),
      query: { labelSelector: LAUNCHERS },
      project: projectOvnPod,
      onUpsert: (pod, previous) => {
        if (previous) this.#unlist(previous);
        this.#list(pod);
      },
      onDelete: (pod) => this.#unlist(pod),
    });
    this.#claims = new Reflector<ClaimView>({
      ...shared(CLAIMS_PATH),
      forbiddenIsEmpty: true,
      project: projectClaimOf(network),
      onUpsert: () => {},
      onDelete: () => {},
    });
  }

  start(): void {
    for (const one of [this.#nads, this.#pods, this.#claims]) one.start();
  }

  async stop(): Promise<void> {
    await Promise.all([this.#nads, this.#pods, this.#claims].map((one) => one.stop()));
  }

  /** Returns false if it took too long. */
  async ready(msMax: number): Promise<boolean> {
    if (this.known) return true;
    const inTime = timeoutSignal(this.#clock, msMax);
    await Promise.all([this.#nads, this.#pods, this.#claims].map((one) => one.waitSynced(inTime)));
    return this.known;
  }

  /** Whether everything was listed at least once. */
  get known(): boolean {
    return this.#nads.synced && this.#pods.synced;
  }

  /** Whether the watch may have missed pods. */
  get deaf(): boolean {
    return [NADS_PATH, PODS_PATH].some((path) => this.#states.get(path) === "away");
  }

  /** The running launcher pods that have an address (canonical, without mask) on the network. */
  podsWith(address: string): OvnPod[] {
    return [...(this.#keys.get(address) ?? [])].flatMap((key) => {
      const pod = this.#pods.items.get(key);
      return pod !== undefined && this.has(pod, address) ? [pod] : [];
    });
  }

  has(pod: OvnPod, address: string): boolean {
    return (
      pod.running &&
      pod.networks.some(
        (one) =>
          this.nadOf(one)?.network === this.#network &&
          one.addresses.some((held) => formatAddress(held.address) === address),
      )
    );
  }

  nadOf({ nad }: OvnInterface): OvnNad | undefined {
    return this.#nads.items.get(nad);
  }

  /** Claims of the network in a namespace that list one of these addresses. */
  claimsOf(namespace: string, addresses: readonly string[]): ClaimView[] {
    return [...this.#claims.items.values()].filter(
      (claim) => claim.namespace === namespace && claim.ips.some((ip) => addresses.includes(ip.split("/")[0] ?? "")),
    );
  }

  #list(pod: OvnPod): void {
    for (const address of addressesOf(pod)) {
      const keys = this.#keys.get(address) ?? new Set();
      this.#keys.set(address, keys.add(pod.key));
    }
  }

  #unlist(pod: OvnPod): void {
    for (const address of addressesOf(pod)) {
      const keys = this.#keys.get(address);
      keys?.delete(pod.key);
      if (keys?.size === 0) this.#keys.delete(address);
    }
  }
}

/** A UserDefinedNetwork's name begins with its namespace: permissions in that namespace are enough then. */
function namespaceOf(network: string): string | null {
  if (network.startsWith("cluster_udn_")) return null;
  return /^([a-z0-9][-a-z0-9]*)_/.exec(network)?.[1] ?? null;
}

function addressesOf({ networks }: OvnPod): string[] {
  return networks.flatMap(({ addresses }) => addresses.map(({ address }) => formatAddress(address)));
}
