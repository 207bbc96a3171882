import { Etcd } from "../../harness/kube-fake/etcd.ts";
import type { Interface, Oracle } from "../world.ts";
import { makeOracle } from "./oracle.ts";
import type { CheckedMachine } from "./oracle-parts.ts";
import { ALLOCATIONS, CLAIMS, LEASES, NADS, NETWORKS, NODES, type PlainObject, PODS, VMIS } from "./view.ts";

/** Longer than an address may rest, ms. */
const REST_MS = 100_000;
const NETWORK = "blue";

export interface OwnerParts {
  readonly kind?: string;
  readonly name: string;
  readonly uid?: string;
  readonly interface?: string;
  readonly namespace?: string;
  readonly cluster?: string;
}

/** A history that somebody makes up, write by write. One node, `node-1`, whose daemon is ready; one network, `blue`. */
export class Fabricated {
  readonly etcd = new Etcd();
  readonly oracle: Oracle;
  readonly findings: { invariant: string; message: string }[] = [];
  notReady: string | null = null;
  isUp = true;
  nowMs = 0;
  /** Since when the controller knows all pods. */
  knownSinceMs = 0;

  constructor() {
    this.oracle = makeOracle({
      etcd: this.etcd,
      nowMs: () => this.nowMs,
      wallMs: () => this.nowMs,
      machines: () => [this.#machine()],
      controllers: () => [{ isRunning: true, knowsSinceMs: () => this.knownSinceMs }],
      restMsMax: REST_MS,
      pause: async (ms) => {
        this.nowMs += ms;
      },
    });
    this.node("node-1");
  }

  readonly #daemon: CheckedMachine["daemon"] = {
    core: { notReady: () => this.notReady, admin: { check: async () => ({ findings: this.findings }) } },
  };

  #machine(): CheckedMachine {
    return { name: "node-1", isUp: this.isUp, daemon: this.#daemon };
  }

  /** What has been done is one step. */
  step(): void {
    this.nowMs += 1;
    this.oracle.afterStep();
  }

  /** Time passes, a controller renews its lease, and the world is at rest. */
  async rest(): Promise<void> {
    this.nowMs += 2 * REST_MS;
    this.etcd.put(LEASES, "holdfast-system/holdfast-controller", {
      metadata: { name: "holdfast-controller" },
    });
    await this.oracle.atRest();
  }

  node(name: string, ready = "True"): void {
    this.etcd.put(NODES, name, {
      metadata: { name },
      status: { conditions: [{ type: "Ready", status: ready }] },
    });
  }

  pod(
    name: string,
    parts: { status?: object; claim?: string; vmi?: string; node?: string; asks?: object } = {},
  ): Interface["pod"] {
    const uid = uidOf(name);
    const selection = [{ name: NETWORK, "ipam-claim-reference": parts.claim }];
    this.etcd.put(PODS, `shop/${name}`, {
      metadata: {
        namespace: "shop",
        name,
        uid,
        annotations: {
          "k8s.v1.cni.cncf.io/networks": JSON.stringify(selection),
          ...(parts.asks && { "network.kubevirt.io/addresses": JSON.stringify(parts.asks) }),
        },
        ...(parts.vmi && {
          ownerReferences: [{ kind: "VirtualMachineInstance", name: parts.vmi, uid: uidOf(parts.vmi) }],
        }),
      },
      spec: { nodeName: parts.node ?? "node-1" },
      status: { phase: "Running", ...parts.status },
    });
    return { namespace: "shop", name, uid };
  }

  noPod(name: string): void {
    this.etcd.delete(PODS, `shop/${name}`);
  }

  /** An instance of the virtual machine `vm`. */
  instance(name: string, vm: string): void {
    this.etcd.put(VMIS, `shop/${name}`, {
      metadata: {
        namespace: "shop",
        name,
        uid: uidOf(name),
        ownerReferences: [{ kind: "VirtualMachine", name: vm, uid: uidOf(vm) }],
      },
    });
  }

  claim(name: string, ips: readonly string[], parts: { vm?: string; uid?: string; conditions?: object[] } = {}): void {
    this.etcd.put(CLAIMS, `shop/${name}`, {
      metadata: {
        namespace: "shop",
        name,
        uid: parts.uid ?? uidOf(name),
        ...(parts.vm && {
          ownerReferences: [{ kind: "VirtualMachine", name: parts.vm, uid: uidOf(parts.vm) }],
        }),
      },
      spec: { network: NETWORK },
      status: { ips, conditions: parts.conditions },
    });
  }

  noClaim(name: string): void {
    this.etcd.delete(CLAIMS, `shop/${name}`);
  }

  hold(address: string, owner: OwnerParts, { state = "Bound", on = "", until = 0, network = NETWORK } = {}): void {
    const { kind = "Pod", name, uid = uidOf(name), namespace = "shop", cluster } = owner;
    const ifname = owner.interface ?? (kind === "Pod" ? "net1" : "");
    this.etcd.put(ALLOCATIONS, `${network}-${address}`, {
      metadata: { name: `${network}-${address}` },
      spec: { network, address, owner: { kind, namespace, name, uid, interface: ifname, cluster } },
      status: {
        state,
        since: new Date(this.nowMs).toISOString(),
        ...(until === 0 ? {} : { retainedUntil: new Date(until).toISOString() }),
        attachments: on === "" ? {} : { "c/net1": { node: on } },
      },
    });
  }

  free(address: string): void {
    this.etcd.delete(ALLOCATIONS, `blue-${address}`);
  }

  /** The network's definition, and what its object tells. */
  network(status: PlainObject, subnets = "10.1.0.0/25"): void {
    this.etcd.put(NADS, "shop/blue", {
      metadata: { namespace: "shop", name: "blue" },
      spec: { config: JSON.stringify({ name: NETWORK, ipam: { subnets } }) },
    });
    this.etcd.put(NETWORKS, NETWORK, { metadata: { name: NETWORK }, spec: { network: NETWORK }, status });
  }

  /** An interface of a pod in a container of its own. */
  interface(pod: Interface["pod"], containerId = `${pod.name}-sandbox`, node = "node-1"): Interface {
    return { node, containerId, ifname: "net1", network: NETWORK, pod };
  }

  /** A pod with an address that is recorded and answered. */
  served(name: string, address: string): Interface {
    const one = this.interface(this.pod(name));
    this.hold(address, { name });
    this.oracle.up(one, [address]);
    this.step();
    return one;
  }
}

export const uidOf = (name: string): string => `${name}-uid`;
