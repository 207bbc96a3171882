import { Buffer } from "node:buffer";
import { join } from "node:path";
import type { IdentityInterface, IdentityView } from "../../identity/wire.ts";
import { EventWriter } from "../../kube/events.ts";
import { HttpKubeApi } from "../../kube/http/http-kube-api.ts";
import { loadKubeConfig } from "../../kube/http/kube-config.ts";
import { type KubeTenantOptions, KubeTenantSource } from "../../metadata/tenant/kube-tenant-source.ts";
import type { Clock } from "../../platform/time.ts";

import type { KubeObject } from "../harness/kube-api.ts";
import { readManifests } from "../harness/kube-manifests.ts";
import { pathOf } from "../harness/kube-pods.ts";
import type { KubeVirt } from "../harness/kubevirt.ts";
import type { Cluster } from "../harness/world/cluster.ts";
import { World } from "../harness/world/world.ts";

const TENANT = join(import.meta.dirname, "../../deploy/metadata/tenant.yaml");
const KUBEVIRT = "kubevirt.io/v1";
/** Where the sources are, and the VMs unless a test says otherwise. */
const NODE = "node-a";
export const NODE_LABEL = "kubevirt.io/nodeName";
const PREFIX = "metadata.holdfast.dev/";

/** A VM that runs, as the daemon tells who it is. */
export interface TenantVm {
  readonly vm: KubeObject;
  readonly vmi: KubeObject;
  readonly identity: IdentityView;
}

export interface TenantVmOptions {
  /** Of the VirtualMachine, without their prefix. */
  readonly annotations?: Readonly<Record<string, string>>;
  readonly vmi?: { readonly metadata?: object; readonly spec?: object; readonly status?: object };
  readonly interfaces?: readonly Partial<IdentityInterface>[];
}

/** A cluster, and tenant sources with the rights of the shipped account. Each test has namespaces of its own. */
export class Tenants {
  readonly cluster: Cluster;
  readonly kubevirt: KubeVirt;
  readonly #world: World;
  readonly #sources: { readonly source: KubeTenantSource; readonly api: HttpKubeApi }[] = [];
  #namespaces = 0;

  private constructor(world: World) {
    this.#world = world;
    this.cluster = world.cluster;
    this.kubevirt = world.kubevirt;
  }

  static async start(): Promise<Tenants> {
    return new Tenants(await World.start({ api: "memory" }));
  }

  async stop(): Promise<void> {
    for (const { source, api } of this.#sources) {
      await source.stop();
      api.close();
    }
    await this.#world.stop();
  }

  get clock(): Clock {
    return this.cluster.time.clock;
  }

  /** See TestTime. */
  until(...args: Parameters<World["until"]>): Promise<void> {
    return this.cluster.time.until(...args);
  }

  /** See TestTime. */
  advance(ms: number): Promise<void> {
    return this.cluster.time.advance(ms);
  }

  /** A source of its own, as a node's metadata server has one. */
  async source(options: Partial<KubeTenantOptions> = {}, server = this.cluster.server): Promise<KubeTenantSource> {
    const api = new HttpKubeApi(loadKubeConfig(this.cluster.kubeconfig("holdfast-metadata", server)), this.clock);
    const made = new KubeTenantSource({
      api,
      node: NODE,
      log: { info: () => {}, warn: () => {} },
      events: new EventWriter({ api, component: "holdfast-metadata", host: NODE }),
      serviceBackends: null,
      ...options,
    });
    const source = this.cluster.time.waitedFor(made, "start", "stop", "viewOf", "keepPassword");
    this.#sources.push({ source, api });
    await source.start();
    return source;
  }

  /** A namespace; with `tenant`, one that has opted in by the shipped manifest. */
  async namespace({ tenant = true } = {}): Promise<string> {
    this.#namespaces += 1;
    const name = `tenant-${this.#namespaces}`;
    await this.kubevirt.createNamespace(name);
    if (tenant) await this.optIn(name);
    return name;
  }

  /** By the shipped manifest, in which the tenant has named its Secrets. */
  async optIn(namespace: string, secrets: readonly string[] = ["boot"]): Promise<void> {
    await this.cluster.apply(
      readManifests(TENANT).map(({ rules, ...one }) => ({
        ...one,
        metadata: { ...one.metadata, namespace },
        ...(rules === undefined ? {} : { rules: withSecrets(rules, secrets) }),
      })),
    );
  }

  /** A Secret; its values are bytes. */
  secret(namespace: string, name: string, values: Readonly<Record<string, Buffer | string>>, serve = true) {
    const data = Object.fromEntries(
      Object.entries(values).map(([key, value]) => [key, Buffer.from(value).toString("base64")]),
    );
    return this.#object(namespace, { kind: "Secret", metadata: metadata(name, serve), data });
  }

  configMap(namespace: string, name: string, data: Readonly<Record<string, string>>, serve = true) {
    return this.#object(namespace, { kind: "ConfigMap", metadata: metadata(name, serve), data });
  }

  /** A VM that runs. */
  async vm(namespace: string, name: string, options: TenantVmOptions = {}): Promise<TenantVm> {
    const { metadata: more = {}, spec = {}, status = {} } = options.vmi ?? {};
    const vm = await this.cluster.api.create(pathOf(namespace, "virtualmachines", "", KUBEVIRT), {
      apiVersion: KUBEVIRT,
      kind: "VirtualMachine",
      metadata: { name, namespace, annotations: prefixed(options.annotations ?? {}) },
      spec: { runStrategy: "Always" },
    });
    const { uid } = vm.metadata;
    const vmi = await this.cluster.api.create(pathOf(namespace, "virtualmachineinstances", "", KUBEVIRT), {
      apiVersion: KUBEVIRT,
      kind: "VirtualMachineInstance",
      metadata: {
        name,
        namespace,
        labels: { [NODE_LABEL]: NODE },
        ownerReferences: [{ apiVersion: KUBEVIRT, kind: "VirtualMachine", name, uid, controller: true }],
        ...more,
      },
      spec,
      status,
    });
    return { vm, vmi, identity: identityOf(vm, vmi, options.interfaces) };
  }

  async annotateVm(guest: TenantVm, annotations: Readonly<Record<string, string | null>>): Promise<void> {
    const { namespace, name } = guest.vm.metadata;
    const path = pathOf(namespace, "virtualmachines", name, KUBEVIRT);
    await this.cluster.api.patch(path, { metadata: { annotations: prefixed(annotations) } });
  }

  /** The VM and its VMI are gone; their names are free. */
  async removeVm({ vm, vmi }: TenantVm): Promise<void> {
    const { namespace, name } = vm.metadata;
    await this.cluster.api.delete(pathOf(namespace, "virtualmachines", name, KUBEVIRT));
    await this.cluster.api.delete(pathOf(namespace, "virtualmachineinstances", vmi.metadata.name, KUBEVIRT));
  }

  /** The message of the event about a VM with a reason, when there is one. */
  async event({ vm }: TenantVm, reason: string): Promise<string> {
    const path = pathOf(vm.metadata.namespace, "events");
    let message = "";
    await this.until(async () => {
      const found = (await this.cluster.api.list(path)).filter(
        (one) => one.reason === reason && one.involvedObject.uid === vm.metadata.uid,
      );
      message = found[0]?.message ?? "";
      return found.length > 0;
    }, `an event ${reason}`);
    return message;
  }

  async events(namespace: string): Promise<string[]> {
    return (await this.cluster.api.list(pathOf(namespace, "events"))).map(({ reason }) => reason);
  }

  #object(namespace: string, object: KubeObject): Promise<KubeObject> {
    const plural = object.kind === "Secret" ? "secrets" : "configmaps";
    return this.cluster.api.create(pathOf(namespace, plural), { apiVersion: "v1", ...object });
  }
}

function withSecrets(rules: KubeObject[], names: readonly string[]): KubeObject[] {
  return rules.map((rule) => (rule.resources[0] === "secrets" ? { ...rule, resourceNames: names } : rule));
}

function metadata(name: string, serve: boolean): object {
  return { name, ...(serve ? { labels: { [`${PREFIX}serve`]: "true" } } : {}) };
}

function prefixed(annotations: Readonly<Record<string, string | null>>): Record<string, string | null> {
  return Object.fromEntries(Object.entries(annotations).map(([name, value]) => [`${PREFIX}${name}`, value]));
}

/** What the daemon says of a VM whose one launcher pod runs here. */
function identityOf(
  vm: KubeObject,
  vmi: KubeObject,
  interfaces: readonly Partial<IdentityInterface>[] = [],
): IdentityView {
  const { namespace, name, uid } = vm.metadata;
  return {
    state: "running",
    vm: { namespace, name, uid, vmiUid: vmi.metadata.uid, firmwareUuid: null },
    pods: [],
    interfaces: interfaces.map((one) => ({
      network: "blue",
      interface: "net1",
      owner: { kind: "claim", uid: "c-1", interface: "", namespace, name: `${name}.blue` },
      claim: `${namespace}/${name}.blue`,
      addresses: [],
      mac: null,
      mtu: null,
      routes: [],
      dns: {},
      metadata: null,
      source: "holdfast",
      ...one,
    })),
  };
}

/** What a source serves as the user data of a VM, as text; null: none. */
export async function userDataOf(source: KubeTenantSource, { identity }: TenantVm): Promise<string | null> {
  return (await source.viewOf(identity)).userData?.toString() ?? null;
}
