import { PodDirectory } from "../../../claims/pod-directory.ts";
import { sameVm, type VmIdentity } from "../../../claims/vm-identity.ts";
import { RefusalError } from "../../../ipam/refusals.ts";
import { AddressSyntaxError, formatAddress, parseAddress } from "../../../ipam/space/address.ts";
import { formatInterfaceAddress } from "../../../ipam/space/cidr.ts";
import { ApiAway, type KubeApi } from "../../../kube/kube-api.ts";
import { ObjectClient } from "../../../kube/object-client.ts";
import { namespacedPath, PODS_PATH } from "../../../kube/objects.ts";
import type { VmFacts } from "../../../kube/views/vmi-view.ts";
import { BoundedMap } from "../../../platform/bounded-map.ts";
import type { Log } from "../../../platform/log.ts";
import { IdentityAway, type IdentitySource, type IdentitySubject } from "../../source.ts";
import type { IdentityInterface, IdentityView } from "../../wire.ts";
import { type OvnInterface, type OvnPod, OvnWatch, projectOvnPod } from "./objects.ts";

/**
 * How long a read of a pod counts as current, ms. The next owner of an address cannot send a request within it:
 * OVN-Kubernetes allocates the address again when the last pod has ended, and a guest has to boot first. The 28
 * requests of a guest's boot cost one or two reads.
 */
const FRESH_MS = 1_000;
const SYNC_MS_MAX = 5_000;
const READ_MS_MAX = 3_000;
/** Pods cached with what was read of them; beyond that the oldest is dropped. */
const REMEMBERED_MAX = 10_000;

export interface OvnIdentityOptions {
  readonly api: KubeApi;
  /** The one network whose requests are answered: only its pods can send them, as it is deployed. */
  readonly network: string;
  readonly log: Pick<Log, "info" | "warn">;
  /** Whether sessions with tokens are offered to guests; default optional. */
  readonly tokens?: "off" | "optional" | "required";
}

interface Read {
  readonly pod: Promise<OvnPod | null>;
  readonly atMs: number;
}

/** The identities on a network that OVN-Kubernetes allocates, from the API. Call `start` before `find`. */
export function createOvnIdentity(options: OvnIdentityOptions): OvnIdentity {
  return new OvnIdentity(options);
}

export class OvnIdentity implements IdentitySource {
  readonly #options: OvnIdentityOptions;
  readonly #watch: OvnWatch;
  readonly #vms: PodDirectory;
  /** By pod UID. */
  readonly #reads = new BoundedMap<string, Read>(REMEMBERED_MAX);

  constructor(options: OvnIdentityOptions) {
    this.#options = options;
    this.#watch = new OvnWatch(options);
    this.#vms = new PodDirectory(options.api, () => undefined);
  }

  /** Begins to watch; does not wait for the API. */
  start(): void {
    this.#watch.start();
  }

  /** Why identities cannot be determined; null: they can. */
  notReady(): string | null {
    if (!this.#watch.known) return "the pods of the network are not known yet: the API server does not say";
    return this.#watch.deaf ? "no answer from the API server" : null;
  }

  /** Does not close the API's client. */
  close(): Promise<void> {
    return this.#watch.stop();
  }

  async find(subject: IdentitySubject): Promise<IdentityView | null> {
    if (subject.kind !== "address" || subject.network !== this.#options.network) return null;
    const wanted = canonical(subject.address);
    if (wanted === null) return null;
    if (!(await this.#watch.ready(SYNC_MS_MAX)))
      throw new IdentityAway("the pods of the network are not known yet: the API server does not say");
    try {
      return await this.#find(wanted);
    } catch (error) {
      if (error instanceof ApiAway) throw new IdentityAway(error.message);
      if (error instanceof RefusalError) throw new IdentityAway(error.refusal.message);
      throw error;
    }
  }

  async #find(address: string): Promise<IdentityView | null> {
    const read = await Promise.all(this.#watch.podsWith(address).map((pod) => this.#fresh(pod)));
    const pods = read.filter((pod) => pod !== null).filter((pod) => this.#watch.has(pod, address));
    if (pods.length === 0) {
      // A guest takes a 404 as final, and its pod may not have been seen yet.
      if (read.length > 0 || this.#watch.deaf)
        throw new IdentityAway(`the pod that has ${address} now is not known yet`);
      return null;
    }
    const vms = await Promise.all(pods.map((pod) => this.#vmOf(pod)));
    if (vms.some((vm) => vm === null)) return null;
    const [vm] = vms as [VmFacts, ...VmFacts[]];
    if (!vms.every((other) => other !== null && sameVm(identityOf(vm), identityOf(other)))) {
      this.#options.log.warn(`${address} is on pods of several VMs, none is answered: ${pods.map(({ key }) => key)}`);
      return null;
    }
    return this.#view(pods, vms as VmFacts[]);
  }

  /** The pod as the API server has it now; null: it is gone, or another pod has its name. Throws ApiAway. */
  #fresh(seen: OvnPod): Promise<OvnPod | null> {
    const known = this.#reads.get(seen.uid);
    if (known && this.#options.api.clock.monotonicMs() - known.atMs < FRESH_MS) return known.pod;
    const pod = this.#read(seen);
    this.#reads.set(seen.uid, { pod, atMs: this.#options.api.clock.monotonicMs() });
    pod.catch(() => this.#reads.delete(seen.uid));
    return pod;
  }

  async #read({ namespace, name, uid }: OvnPod): Promise<OvnPod | null> {
    const path = namespacedPath(PODS_PATH, namespace, name);
    const deadlineMs = this.#options.api.clock.monotonicMs() + READ_MS_MAX;
    const object = await new ObjectClient(this.#options.api, "add").find(path, deadlineMs);
    const pod = object === null ? null : projectOvnPod(object);
    return pod?.uid === uid ? pod : null;
  }

  /** null: no VM, or it is gone. Throws ApiAway, RefusalError. */
  async #vmOf(pod: OvnPod): Promise<VmFacts | null> {
    const view = { ...pod, annotations: {} };
    return (await this.#vms.vmFacts(view, this.#options.api.clock.monotonicMs() + READ_MS_MAX)).vm;
  }

  #view(pods: readonly OvnPod[], vms: readonly VmFacts[]): IdentityView {
    // Of two VMIs of one VM, the later one is alive.
    const order = pods.map((_, i) => i).sort((a, b) => compare(pods[b] as OvnPod, pods[a] as OvnPod));
    const [latest = 0] = order;
    const pod = pods[latest] as OvnPod;
    return {
      state: pods.length > 1 ? "migrating" : "running",
      vm: vms[latest] ?? null,
      pods: pods.map(({ namespace, name, uid, node, creationTimestamp }) => ({
        namespace,
        name,
        uid,
        node: node ?? "",
        containerID: "",
        since: creationTimestamp,
      })),
      interfaces: pod.networks.flatMap((one) => this.#interface(pod, one, vms[latest] as VmFacts)),
    };
  }

  #interface(pod: OvnPod, one: OvnInterface, vm: VmFacts): IdentityInterface[] {
    const nad = this.#watch.nadOf(one);
    if (nad === undefined) return [];
    const isAskedNetwork = nad.network === this.#options.network;
    const addresses = one.addresses.map(({ address }) => formatAddress(address));
    const claims = isAskedNetwork ? this.#watch.claimsOf(pod.namespace, addresses) : [];
    const claim = claims.find((candidate) => (candidate.vm?.uid || vm.uid) === vm.uid);
    const { namespace, name, uid } = claim ?? pod;
    return [
      {
        network: nad.network,
        interface: one.interface,
        owner: {
          kind: claim ? "claim" : "pod",
          uid,
          interface: claim ? "" : (one.interface ?? ""),
          namespace,
          name,
        },
        claim: claim?.key ?? null,
        addresses: one.addresses.map((held) => {
          const gateway = one.gateways.find(({ family }) => family === held.address.family);
          const text = formatInterfaceAddress(held);
          return gateway ? { address: text, gateway: formatAddress(gateway) } : { address: text };
        }),
        mac: one.mac,
        mtu: nad.mtu,
        routes: [],
        dns: {},
        metadata: isAskedNetwork ? { address: "169.254.169.254", tokens: this.#options.tokens ?? "optional" } : null,
        source: "ovn-kubernetes",
      },
    ];
  }
}

/** A connection's address as a socket reports it; null: it is not an address. */
function canonical(address: string): string | null {
  try {
    return formatAddress(parseAddress(address.replace(/^::ffff:(?=\d+\.)/i, "")));
  } catch (error) {
    if (error instanceof AddressSyntaxError) return null;
    throw error;
  }
}

function identityOf({ vmiUid, uid }: VmFacts): VmIdentity {
  return { vmi: { uid: vmiUid }, vmUid: uid };
}

function compare(a: OvnPod, b: OvnPod): number {
  if (a.creationTimestamp === b.creationTimestamp) return a.name < b.name ? -1 : 1;
  return a.creationTimestamp < b.creationTimestamp ? -1 : 1;
}
