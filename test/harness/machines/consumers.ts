import type { KubeObject } from "../kube-api.ts";
import { collectionOf } from "../kube-manifests.ts";
import { NAMESPACE } from "../world/network.ts";
import { CLUSTER_LABEL, type ClusterApi } from "./cluster-api.ts";

const CAPM3_FINALIZER = "metal3data.infrastructure.cluster.x-k8s.io";
const CAPV_FINALIZER = "vspherevm.infrastructure.cluster.x-k8s.io/ip-claim-protection";
const DATA = "infrastructure.cluster.x-k8s.io/v1beta2";
const VSPHERE = "infrastructure.cluster.x-k8s.io/v1beta1";

/** A stand-in for Metal3's infrastructure provider: what it does about the pools of a machine. */
export class Capm3 {
  readonly #capi: ClusterApi;
  readonly #namespace: string;

  /** The kinds `metal3-data` must be installed. */
  constructor(capi: ClusterApi, namespace = NAMESPACE) {
    this.#capi = capi;
    this.#namespace = namespace;
  }

  /** The claim of a data object on a pool, which may be there already; the data object is made where it is missing. */
  async claim(data: string, pool: string, cluster: string): Promise<KubeObject> {
    const labels = { [CLUSTER_LABEL]: cluster };
    const namespace = this.#namespace;
    const parts = { apiVersion: DATA, kind: "Metal3Data", name: data, namespace, labels };
    const owner = await owned(this.#capi, parts);
    const name = `${data}-${pool}`;
    const known = await this.#capi.readClaim(name, namespace);
    if (known !== null) return known;
    return this.#capi.claim(name, pool, {
      namespace,
      labels,
      finalizers: [CAPM3_FINALIZER],
      ownerReferences: [{ ...owner, controller: true }],
    });
  }

  /** `address/prefix`, once the claim is answered. It does not look at conditions. */
  address(data: string, pool: string): Promise<string> {
    return this.#capi.fulfilled(`${data}-${pool}`, this.#namespace);
  }

  /** The machine goes: finalizer, then claim. */
  async release(data: string, pool: string): Promise<void> {
    await release(this.#capi, `${data}-${pool}`, CAPM3_FINALIZER, this.#namespace);
  }
}

/** A stand-in for the infrastructure provider of vSphere. */
export class Capv {
  readonly #capi: ClusterApi;

  /** The kinds `capv` must be installed. */
  constructor(capi: ClusterApi) {
    this.#capi = capi;
  }

  /** The claim of a VM's first network device. */
  async claim(vm: string, pool: string, cluster: string): Promise<KubeObject> {
    const labels = { [CLUSTER_LABEL]: cluster };
    const owner = await owned(this.#capi, { apiVersion: VSPHERE, kind: "VSphereVM", name: vm, labels });
    return this.#capi.claim(`${vm}-0-0`, pool, {
      labels,
      ...(this.#capi.version === "v1alpha1" ? {} : { cluster }),
      finalizers: [CAPV_FINALIZER],
      ownerReferences: [{ ...owner, controller: true, blockOwnerDeletion: true }],
    });
  }

  /** `address/prefix`, once the claim is Ready, and where it has no such condition, once it is answered. */
  async address(vm: string): Promise<string> {
    const name = `${vm}-0-0`;
    await this.#capi.cluster.time.until(async () => {
      const ready = await this.#capi.ready(name);
      if (ready !== undefined) return ready.status === "True";
      return (await this.#capi.readClaim(name))?.status?.addressRef?.name !== undefined;
    }, `${name} to be Ready`);
    return this.#capi.fulfilled(name);
  }

  async release(vm: string): Promise<void> {
    await release(this.#capi, `${vm}-0-0`, CAPV_FINALIZER);
  }
}

interface OwnerParts {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly namespace?: string;
  readonly labels: object;
}

/** The reference to an object, which is made where it is missing. */
async function owned(
  { cluster }: ClusterApi,
  { apiVersion, kind, name, namespace = NAMESPACE, labels }: OwnerParts,
): Promise<KubeObject> {
  const object = { apiVersion, kind, metadata: { name, namespace, labels }, spec: {} };
  const collection = collectionOf(object);
  const known = await cluster.api.find(`${collection}/${name}`);
  const { metadata } = known ?? (await cluster.api.create(collection, object));
  return { apiVersion, kind, name, uid: metadata.uid };
}

async function release(capi: ClusterApi, name: string, finalizer: string, namespace = NAMESPACE): Promise<void> {
  const claim = await capi.readClaim(name, namespace);
  const finalizers = (claim?.metadata.finalizers ?? []).filter((one: string) => one !== finalizer);
  if (claim !== null) await capi.editClaim(name, { metadata: { finalizers } }, namespace);
  await capi.deleteClaim(name, namespace);
}
