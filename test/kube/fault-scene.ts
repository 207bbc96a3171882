/** A cluster with daemons, proxies and controllers in a hurry; what a fault must never break is asserted by `settled`. */
import { once } from "node:events";
import pino from "pino";
import { expect } from "vitest";
import { Controller } from "../../controller/controller.ts";
import { loadControllerSettings } from "../../controller/settings.ts";
import { ALLOCATIONS_PATH, type IPAllocation } from "../../kube/objects.ts";
import { systemClock } from "../../platform/time.ts";
import { ApiProxy } from "../harness/api-proxy.ts";
import { type ClusterOptions, TestCluster } from "../harness/cluster.ts";
import { type CniAnswer, until } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { interfaceOf, KubeVirt, type Vm } from "../harness/kubevirt.ts";
import { type AttachmentOptions, NodeDaemon, type NodeOptions } from "../harness/node.ts";

export const NAMESPACE = "shop";

/** A network as tests pass it around: its NAD has the same name and configuration. */
export interface Net {
  readonly name: string;
  readonly config: object;
}

/** A pod with one interface, and what its sandbox asks for. */
export interface Guest {
  readonly pod: KubeObject;
  readonly net: Net;
  readonly options: AttachmentOptions;
  readonly vm: Vm | null;
}

type Options = Partial<Omit<NodeOptions, "node">>;

export class Scene {
  readonly cluster: TestCluster;
  readonly kubevirt: KubeVirt;
  readonly nodes: NodeDaemon[] = [];
  readonly #proxies: ApiProxy[] = [];
  readonly #controllers: Controller[] = [];
  #count = 0;

  private constructor(cluster: TestCluster) {
    this.cluster = cluster;
    this.kubevirt = new KubeVirt(cluster.api);
  }

  static async start(options: ClusterOptions = {}): Promise<Scene> {
    const scene = new Scene(await TestCluster.start(options));
    await scene.kubevirt.createNamespace(NAMESPACE);
    return scene;
  }

  async stop(): Promise<void> {
    for (const { daemon } of this.nodes) daemon.process.kill("SIGCONT");
    await Promise.all(this.nodes.map((node) => node.stop()));
    await Promise.all(this.#controllers.map((one) => one.stop()));
    for (const proxy of this.#proxies) await proxy.stop();
    await this.cluster.stop();
  }

  /** A Node object and its daemon. */
  async node(name: string, options: Options = {}): Promise<NodeDaemon> {
    await this.kubevirt.createNode(name);
    const kubeconfig = this.cluster.kubeconfig("holdfast-node");
    const node = await NodeDaemon.start({ node: name, kubeconfig, ...options });
    this.nodes.push(node);
    return node;
  }

  /** A node whose daemon reaches the API server through a proxy only. */
  async proxied(name: string, options: Options = {}): Promise<{ node: NodeDaemon; proxy: ApiProxy }> {
    const proxy = await ApiProxy.start(this.cluster);
    this.#proxies.push(proxy);
    const kubeconfig = this.cluster.kubeconfig("holdfast-node", proxy.url, proxy.ca);
    return { node: await this.node(name, { kubeconfig, ...options }), proxy };
  }

  /** A controller whose graces are a second. */
  async controller(flags: Readonly<Record<string, unknown>> = {}): Promise<Controller> {
    const settings = loadControllerSettings(
      {
        kubeconfig: this.cluster.kubeconfig("holdfast-controller"),
        metricsAddress: "127.0.0.1:0",
        sweepIntervalSeconds: 1,
        sweepGraceSeconds: 1,
        logLevel: process.env.HOLDFAST_TEST_LOG ?? "silent",
        ...flags,
      },
      {},
    );
    const controller = new Controller(settings, pino({ level: settings.logLevel }), systemClock);
    await controller.start();
    this.#controllers.push(controller);
    return controller;
  }

  /** A network with its NAD. */
  async net(name: string, subnets: string, ipam: object = {}): Promise<Net> {
    const config = {
      cniVersion: "1.0.0",
      name,
      type: "bridge",
      allowPersistentIPs: true,
      ipam: { type: "holdfast-ipam", subnets, ...ipam },
    };
    await this.kubevirt.createNad(NAMESPACE, name, config);
    return { name, config };
  }

  /** A plain pod on a node. */
  async pod(net: Net, node: string, name = this.#fresh("pod"), more: object = {}): Promise<Guest> {
    const networks = [{ name: net.name }];
    const pod = await this.kubevirt.createPod(NAMESPACE, name, { node, networks, ...more });
    return { pod, net, options: { config: net.config }, vm: null };
  }

  /** A started VM with a claim: its launcher pod. */
  async vm(net: Net, node: string, name = this.#fresh("vm")): Promise<Guest & { readonly vm: Vm }> {
    const vm = await this.kubevirt.createVm(NAMESPACE, name, [
      { logical: net.name, nad: net.name, network: net.name },
    ]);
    const { pod } = await this.kubevirt.startVm(vm, node);
    return { pod, net, options: optionsOf(net), vm };
  }

  /** The target of a live migration. */
  async target(guest: Guest & { readonly vm: Vm }, node: string): Promise<Guest & { readonly vm: Vm }> {
    return { ...guest, pod: await this.kubevirt.migrate(guest.vm, node) };
  }

  /** `status.ips` of a VM's claim. */
  async published({ vm, net }: Guest): Promise<string[]> {
    return (await this.kubevirt.claim(vm as Vm, net.name))?.status?.ips ?? [];
  }

  allocations(net: Net): Promise<IPAllocation[]> {
    const selector = encodeURIComponent(`ipam.holdfast.dev/network=${net.name}`);
    return this.cluster.api.list(`${ALLOCATIONS_PATH}?labelSelector=${selector}`);
  }

  /** `address: owner's UID` of what is Bound, sorted. */
  async bound(net: Net): Promise<string[]> {
    const objects = (await this.allocations(net)).filter(({ status }) => status?.state === "Bound");
    return objects.map(({ spec }) => `${spec.address} ${spec.owner.uid}`).sort();
  }

  /** Whoever holds what this guest's answer says, as `bound` writes it. */
  async holding(guest: Guest, ips: readonly string[]): Promise<string[]> {
    const claim = guest.vm && (await this.kubevirt.claim(guest.vm, guest.net.name));
    const { uid } = (claim ?? guest.pod).metadata;
    return ips.map((ip) => `${ip} ${uid}`);
  }

  /** Once everything owed is told, `check` finds nothing on any node, and exactly this is Bound on the network. */
  async settled(
    net: Net,
    guests: readonly (readonly [Guest, readonly string[]])[],
    nodes = this.nodes,
  ): Promise<void> {
    const wanted = await Promise.all(guests.map(([guest, ips]) => this.holding(guest, ips)));
    const text = [...new Set(wanted.flat())].sort();
    let bound: string[] = [];
    const same = async () => {
      bound = await this.bound(net);
      return JSON.stringify(bound) === JSON.stringify(text);
    };
    await until(same, "what is Bound", 30_000).catch(() => expect(bound).toEqual(text));
    for (const node of nodes) await checked(node);
  }

  #fresh(kind: string): string {
    this.#count += 1;
    return `${kind}-${this.#count}`;
  }
}

/** A node's own check finds nothing wrong, at the latest when everything owed is told. */
export async function checked(node: NodeDaemon): Promise<void> {
  let said = "";
  const clean = async () => {
    const { status, body, json } = await node.daemon.get("/v1/check");
    said = body;
    return status === 200 && json().findings.length === 0;
  };
  await until(clean, "check", 30_000).catch(() => {
    throw new Error(`check on ${node.name}: ${said}; log: ${node.log}`);
  });
}

export function optionsOf(net: Net): AttachmentOptions {
  return { config: net.config, ifname: interfaceOf(net.name) };
}

/** An ADD that must succeed: its addresses. */
export async function added(node: NodeDaemon, guest: Guest, more: object = {}): Promise<string[]> {
  const answer = await node.add(guest.pod, { ...guest.options, ...more });
  expect(answer.code, answer.stdout + node.log).toBe(0);
  return ipsOf(answer);
}

/** An ADD repeated as a runtime does: "try again" is, everything else counts. */
export async function addedInTheEnd(node: NodeDaemon, guest: Guest, more: object = {}): Promise<string[]> {
  let answer = await node.add(guest.pod, { ...guest.options, ...more });
  await until(async () => {
    if (answer.code === 0) return true;
    expect(answer.json().code, answer.stdout).toBe(11);
    answer = await node.add(guest.pod, { ...guest.options, ...more });
    return answer.code === 0;
  }, `an ADD on ${node.name}`);
  return ipsOf(answer);
}

/** A DEL, which always succeeds. */
export async function deleted(node: NodeDaemon, guest: Guest, more: object = {}): Promise<void> {
  const answer = await node.del(guest.pod, { ...guest.options, ...more });
  expect(answer.code, answer.stdout + answer.stderr).toBe(0);
}

export function ipsOf(answer: CniAnswer): string[] {
  return answer.json().ips.map((ip: { address: string }) => ip.address);
}

/** Waits for a daemon that a kill point ends. */
export async function died({ daemon }: NodeDaemon): Promise<void> {
  if (daemon.process.exitCode === null && daemon.process.signalCode === null)
    await once(daemon.process, "exit");
  expect(daemon.process.signalCode).toBe("SIGKILL");
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
