import { formatAddress } from "../../../ipam/space/address.ts";
import type { KubeApi } from "../../../kube/kube-api.ts";
import { CLAIMS_PATH, NADS_PATH, namespacedPath, PODS_PATH } from "../../../kube/objects.ts";
import { Reflector, type ReflectorState } from "../../../kube/reflector.ts";
import type { ClaimView } from "../../../kube/views/claim-view.ts";
import type { Log } from "../../../platform/log.ts";
import { type Clock, timeoutSignal } from "../../../platform/time.ts";
import {
  type OvnInterface,
  type OvnNad,
  type OvnPod,
  projectClaimOf,
  projectOvnNad,
  projectOvnPod,
} from "./objects.ts";

/** Only VMs are answered; other pods are not kept. */
const LAUNCHERS = "kubevirt.io=virt-launcher";

export interface OvnWatchOptions {
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
