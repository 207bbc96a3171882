import type { KubeObject } from "../kube-api.ts";
import { collectionOf } from "../kube-manifests.ts";
import type { Cluster } from "../world/cluster.ts";
import { NAMESPACE } from "../world/network.ts";
import { CapiAdmission } from "./capi-admission.ts";
import { converted } from "./conversion.ts";
import {
  capiDefinitions,
  clusterVersion,
  type IpamVersion,
  type MachineKinds,
  machineDefinitions,
  switchedDefinitions,
} from "./definitions.ts";
import { unsettledMachines } from "./settled.ts";

const POOL_GROUP = "ipam.holdfast.dev";
const SETTLED_MS_MAX = 30_000;
export const CLUSTER_LABEL = "cluster.x-k8s.io/cluster-name";

export interface ClusterApiOptions {
  /** Default v1beta2. */
  readonly version?: IpamVersion;
  /** Stand-ins of other kinds beside. */
  readonly kinds?: readonly MachineKinds[];
}

/** What a claim has beside its pool. */
export interface MachineClaimParts {
  readonly namespace?: string;
  /** `spec.clusterName`; v1alpha1 has none. */
  readonly cluster?: string;
  readonly labels?: object;
  readonly annotations?: object;
  readonly finalizers?: readonly string[];
  readonly ownerReferences?: readonly object[];
  /** Where it is no AddressPool. */
  readonly poolKind?: { readonly apiGroup: string; readonly kind: string };
}

/** Labels and annotations of a pool, and where it is. */
export interface PoolParts {
  readonly namespace?: string;
  readonly labels?: object;
  readonly annotations?: object;
}

/**
 * Cluster API in a cluster: its definitions, its admission, and what its users and controllers do, on request of the
 * test. Names are of the tests' namespace unless another is given.
 */
export class ClusterApi {
  readonly cluster: Cluster;
  readonly admission: CapiAdmission;
  #version: IpamVersion;

  private constructor(cluster: Cluster, admission: CapiAdmission, version: IpamVersion) {
    this.cluster = cluster;
    this.admission = admission;
    this.#version = version;
  }

  /** Its definitions are served when this returns. */
  static async install(
    cluster: Cluster,
    { version = "v1beta2", kinds = [] }: ClusterApiOptions = {},
  ): Promise<ClusterApi> {
    await cluster.define([...capiDefinitions(version), ...kinds.flatMap(machineDefinitions)]);
    return new ClusterApi(cluster, await CapiAdmission.start(cluster), version);
  }

  get version(): IpamVersion {
    return this.#version;
  }

  stop(): Promise<void> {
    return this.admission.stop();
  }

  /** The definitions of claims and addresses go, and so do all objects of them. */
  async removeIpam(): Promise<void> {
    for (const { metadata } of capiDefinitions(this.#version).slice(0, 2)) {
      const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${metadata.name}`;
      await this.cluster.api.delete(path);
      await this.cluster.time.until(async () => (await this.cluster.api.find(path)) === null, `${metadata.name} to go`);
    }
  }

  /** They come back, empty, or for the first time. */
  async addIpam(version: IpamVersion = this.#version): Promise<void> {
    this.#version = version;
    await this.cluster.define(capiDefinitions(version).slice(0, 2));
  }

  /** Another version is served in place of the one before; statuses are converted as Cluster API's webhook does it. */
  async switchTo(version: IpamVersion): Promise<void> {
    const from = this.#version;
    // Read before: the new version would show nothing of what only the old one knows.
    const claims = await this.claims();
    await this.cluster.define(switchedDefinitions(from, version));
    this.#version = version;
    const apiVersion = `ipam.cluster.x-k8s.io/${version}`;
    for (const { status, ...claim } of claims.filter((one) => one.status !== undefined)) {
      const { namespace, name } = claim.metadata;
      const path = `${this.#ipam("ipaddressclaims", namespace)}/${name}/status`;
      await this.cluster.api.replace(path, {
        ...claim,
        apiVersion,
        status: converted(status, from, version),
      });
    }
  }

  /** An AddressPool; `spec` beside its network. */
  pool(name: string, network: string, spec: object = {}, parts: PoolParts = {}): Promise<KubeObject> {
    const { namespace = NAMESPACE, labels = {}, annotations = {} } = parts;
    return this.#create({
      apiVersion: `${POOL_GROUP}/v1alpha1`,
      kind: "AddressPool",
      metadata: { name, namespace, labels, annotations },
      spec: { network, ...spec },
    });
  }

  readPool(name: string, namespace = NAMESPACE): Promise<KubeObject | null> {
    return this.cluster.api.find(poolPath(name, namespace));
  }

  editPool(name: string, patch: object, namespace = NAMESPACE): Promise<KubeObject> {
    return this.cluster.api.patch(poolPath(name, namespace), patch);
  }

  async deletePool(name: string, namespace = NAMESPACE): Promise<void> {
    await this.cluster.api.delete(poolPath(name, namespace));
  }

  /** The pool's condition Ready, once it has this reason. */
  async untilPool(name: string, reason: string, namespace = NAMESPACE): Promise<KubeObject> {
    let found: KubeObject;
    await this.cluster.time.until(
      async () => {
        found = conditionOf((await this.readPool(name, namespace))?.status?.conditions);
        return found?.reason === reason;
      },
      () => `pool ${name} to say ${reason}; it says ${JSON.stringify(found)}`,
    );
    return found;
  }

  /** A Cluster. */
  capiCluster(name: string, spec: object = {}, namespace = NAMESPACE): Promise<KubeObject> {
    return this.#create({
      apiVersion: `cluster.x-k8s.io/${clusterVersion(this.#version)}`,
      kind: "Cluster",
      metadata: { name, namespace },
      spec,
    });
  }

  editCluster(name: string, patch: object, namespace = NAMESPACE): Promise<KubeObject> {
    return this.cluster.api.patch(this.#clusterPath(name, namespace), patch);
  }

  async deleteCluster(name: string, namespace = NAMESPACE): Promise<void> {
    await this.cluster.api.delete(this.#clusterPath(name, namespace));
  }

  /** An IPAddressClaim. */
  claim(name: string, pool: string, parts: MachineClaimParts = {}): Promise<KubeObject> {
    const { namespace = NAMESPACE, cluster, poolKind, ...metadata } = parts;
    const { apiGroup, kind } = poolKind ?? { apiGroup: POOL_GROUP, kind: "AddressPool" };
    return this.#create({
      apiVersion: `ipam.cluster.x-k8s.io/${this.#version}`,
      kind: "IPAddressClaim",
      metadata: { name, namespace, ...metadata },
      spec: {
        poolRef: { apiGroup, kind, name: pool },
        ...(cluster === undefined ? {} : { clusterName: cluster }),
      },
    });
  }

  readClaim(name: string, namespace = NAMESPACE): Promise<KubeObject | null> {
    return this.cluster.api.find(`${this.#ipam("ipaddressclaims", namespace)}/${name}`);
  }

  claims(namespace: string | null = null): Promise<KubeObject[]> {
    return this.cluster.api.list(this.#ipam("ipaddressclaims", namespace));
  }

  editClaim(name: string, patch: object, namespace = NAMESPACE): Promise<KubeObject> {
    return this.cluster.api.patch(`${this.#ipam("ipaddressclaims", namespace)}/${name}`, patch);
  }

  /** As somebody else's provider, or a restore, fills it in. */
  publishClaim(name: string, status: object, namespace = NAMESPACE): Promise<KubeObject> {
    return this.cluster.api.patch(`${this.#ipam("ipaddressclaims", namespace)}/${name}/status`, { status });
  }

  /** Asks for its deletion; finalizers may keep it. */
  async deleteClaim(name: string, namespace = NAMESPACE): Promise<void> {
    await this.cluster.api.delete(`${this.#ipam("ipaddressclaims", namespace)}/${name}`);
  }

  /** The IPAddress, or null. */
  address(name: string, namespace = NAMESPACE): Promise<KubeObject | null> {
    return this.cluster.api.find(`${this.#ipam("ipaddresses", namespace)}/${name}`);
  }

  addresses(namespace: string | null = null): Promise<KubeObject[]> {
    return this.cluster.api.list(this.#ipam("ipaddresses", namespace));
  }

  /** An IPAddress that somebody else has made: another provider, a restore, a move. */
  putAddress(
    name: string,
    spec: object,
    {
      namespace = NAMESPACE,
      ...metadata
    }: {
      readonly namespace?: string;
      readonly annotations?: object;
      readonly ownerReferences?: readonly object[];
    } = {},
  ): Promise<KubeObject> {
    return this.#create({
      apiVersion: `ipam.cluster.x-k8s.io/${this.#version}`,
      kind: "IPAddress",
      metadata: { name, namespace, ...metadata },
      spec,
    });
  }

  async deleteAddress(name: string, namespace = NAMESPACE): Promise<void> {
    await this.cluster.api.delete(`${this.#ipam("ipaddresses", namespace)}/${name}`);
  }

  /** `address/prefix` as a consumer reads it: once the claim names its IPAddress, which is there. */
  async fulfilled(name: string, namespace = NAMESPACE): Promise<string> {
    let found: KubeObject | null = null;
    let claim: KubeObject | null = null;
    await this.cluster.time.until(
      async () => {
        claim = await this.readClaim(name, namespace);
        const reference = claim?.status?.addressRef?.name;
        found = reference ? await this.address(reference, namespace) : null;
        return found !== null;
      },
      () => `claim ${name} to be fulfilled; it says ${JSON.stringify(claim?.status)}`,
    );
    const { address, prefix } = (found as unknown as KubeObject).spec;
    return `${address}/${prefix}`;
  }

  /** The claim's condition Ready, in the form for readers of today where there are two; undefined: none. */
  async ready(name: string, namespace = NAMESPACE): Promise<KubeObject | undefined> {
    const status = (await this.readClaim(name, namespace))?.status;
    return conditionOf(status?.v1beta2?.conditions) ?? conditionOf(status?.conditions);
  }

  /** The same, once it has this reason. */
  async untilReady(name: string, reason: string, namespace = NAMESPACE): Promise<KubeObject> {
    let found: KubeObject;
    await this.cluster.time.until(
      async () => {
        found = await this.ready(name, namespace);
        return found?.reason === reason;
      },
      () => `claim ${name} to say ${reason}; it says ${JSON.stringify(found)}`,
    );
    return found;
  }

  /** Every living claim of an AddressPool has one address, which nobody else has; nothing is left of others. */
  async settled(): Promise<void> {
    let problems: string[] = [];
    const isSettled = async () => {
      problems = await unsettledMachines(this);
      return problems.length === 0;
    };
    await this.cluster.time.until(isSettled, "machines to settle", SETTLED_MS_MAX).catch(() => {
      throw new Error(`machines did not settle:\n${problems.join("\n")}`);
    });
  }

  #create(object: KubeObject): Promise<KubeObject> {
    return this.cluster.api.create(collectionOf(object), object);
  }

  #clusterPath(name: string, namespace: string): string {
    return `/apis/cluster.x-k8s.io/${clusterVersion(this.#version)}/namespaces/${namespace}/clusters/${name}`;
  }

  #ipam(plural: string, namespace: string | null): string {
    const scope = namespace === null ? "" : `/namespaces/${namespace}`;
    return `/apis/ipam.cluster.x-k8s.io/${this.#version}${scope}/${plural}`;
  }
}

function poolPath(name: string, namespace: string): string {
  return `/apis/${POOL_GROUP}/v1alpha1/namespaces/${namespace}/addresspools/${name}`;
}

function conditionOf(conditions: readonly KubeObject[] = []): KubeObject | undefined {
  return conditions.find(({ type }) => type === "Ready");
}
