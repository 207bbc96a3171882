import pino from "pino";
import { Controller } from "../../controller/controller.ts";
import { type ControllerSettings, loadControllerSettings } from "../../controller/settings.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { allocationName } from "../../kube/object-names.ts";
import {
  ALLOCATIONS_PATH,
  type AllocationAttachment,
  type AllocationOwner,
  CLAIMS_PATH,
  namespacedPath,
} from "../../kube/objects.ts";
import { systemClock } from "../../platform/time.ts";
import { newAllocation } from "../../store/cluster/allocations/allocation-object.ts";
import { TestCluster } from "../harness/cluster.ts";
import { until } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { KubePods } from "../harness/kube-pods.ts";

const TIME = "2026-01-01T00:00:00.000Z";
export const NAMESPACE = "shop";

/** A cluster, and controllers in this process that are in a hurry. Each test has its own network and names. */
export class ControllerStage {
  readonly cluster: TestCluster;
  readonly pods: KubePods;
  readonly #controllers: Controller[] = [];

  private constructor(cluster: TestCluster) {
    this.cluster = cluster;
    this.pods = new KubePods(cluster.api);
  }

  static async start(): Promise<ControllerStage> {
    const stage = new ControllerStage(await TestCluster.start());
    await stage.pods.createNamespace(NAMESPACE);
    return stage;
  }

  async stop(): Promise<void> {
    await Promise.all(this.#controllers.map((one) => one.stop()));
    await this.cluster.stop();
  }

  /** `flags` over settings of seconds. It is not waited for. */
  async controller(flags: Partial<Record<keyof ControllerSettings, unknown>> = {}): Promise<Controller> {
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

  /** A network with a NAD of its name that the controllers have imported already. */
  async network(name: string, subnets: string, more: object = {}): Promise<void> {
    await this.pods.createNad(NAMESPACE, name, config(name, subnets, more));
    await until(
      async () => (await this.networkObject(name))?.status?.conditions?.[0]?.status === "True",
      `${name} to be imported`,
    );
  }

  networkObject(name: string): Promise<KubeObject | null> {
    return this.cluster.api.find(`/apis/ipam.holdfast.dev/v1alpha1/ipnetworks/${name}`);
  }

  /** A claim; `ips` null has no status. */
  async claim(name: string, network: string, ips: readonly string[] | null): Promise<KubeObject> {
    const path = namespacedPath(CLAIMS_PATH, NAMESPACE);
    const claim = await this.cluster.api.create(path, {
      apiVersion: "k8s.cni.cncf.io/v1alpha1",
      kind: "IPAMClaim",
      metadata: { name, namespace: NAMESPACE },
      spec: { network, interface: "" },
    });
    return ips === null ? claim : this.publish(name, ips);
  }

  publish(name: string, ips: readonly string[]): Promise<KubeObject> {
    const path = `${namespacedPath(CLAIMS_PATH, NAMESPACE, name)}/status`;
    return this.cluster.api.patch(path, { status: { ips } });
  }

  claimObject(name: string): Promise<KubeObject | null> {
    return this.cluster.api.find(namespacedPath(CLAIMS_PATH, NAMESPACE, name));
  }

  async deleteClaim(name: string): Promise<void> {
    await this.cluster.api.delete(namespacedPath(CLAIMS_PATH, NAMESPACE, name));
  }

  allocate(
    network: string,
    address: string,
    owner: AllocationOwner,
    attachment: AllocationAttachment | null = null,
  ): Promise<KubeObject> {
    const one = parseInterfaceAddress(address);
    return this.cluster.api.create(
      ALLOCATIONS_PATH,
      newAllocation(network, one, { owner, attachment }, TIME),
    );
  }

  allocation(network: string, address: string): Promise<KubeObject | null> {
    const name = allocationName(network, parseInterfaceAddress(address).address);
    return this.cluster.api.find(`${ALLOCATIONS_PATH}/${name}`);
  }

  async state(network: string, address: string): Promise<string> {
    return (await this.allocation(network, address))?.status.state ?? "none";
  }

  async becomes(network: string, address: string, state: string): Promise<void> {
    await until(async () => (await this.state(network, address)) === state, `${address} to be ${state}`);
  }

  /** Many passes later it is still Bound. */
  async stays(network: string, address: string): Promise<void> {
    for (let look = 0; look < 8; look++) {
      await new Promise((resolve) => setTimeout(resolve, 500));
      const state = await this.state(network, address);
      if (state !== "Bound") throw new Error(`${address} is ${state}, and should have been kept`);
    }
  }
}

export function config(name: string, subnets: string, more: object = {}): object {
  return {
    cniVersion: "1.0.0",
    name,
    type: "bridge",
    allowPersistentIPs: true,
    ipam: { type: "holdfast-ipam", subnets, ...more },
  };
}

export function claimOwner({ metadata }: KubeObject): AllocationOwner {
  const { namespace, name, uid } = metadata;
  return { kind: "IPAMClaim", namespace, name, uid, interface: "" };
}

export function podOwner({ metadata }: KubeObject): AllocationOwner {
  const { namespace, name, uid } = metadata;
  return { kind: "Pod", namespace, name, uid, interface: "net1" };
}

/** The pod's sandbox on its node. */
export function attachmentOf({ metadata, spec }: KubeObject): AllocationAttachment {
  const { namespace, name, uid } = metadata;
  return {
    containerID: `sandbox-${uid}`,
    interface: "net1",
    node: spec.nodeName,
    pod: { namespace, name, uid },
    since: TIME,
  };
}
