import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { addressOf, cooled, retained } from "../../allocations/allocation-object.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { ALLOCATIONS_PATH, CLAIMS_PATH, namespacedPath, objectPath } from "../../kube/objects.ts";
import type { NamespaceIdentity } from "../../platform/namespaces.ts";
import { isoTime } from "../../platform/time.ts";
import type { Allocations } from "../../store/allocations.ts";
import type { KubernetesStore } from "../../store/cluster/cluster-store.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import type { ManualClock } from "../harness/manual-clock.ts";
import { clusterStore, opened } from "./cluster-store.ts";
import type { Subject } from "./subjects.ts";

const CLAIMS = "k8s.cni.cncf.io/v1alpha1";
const FINALIZER = "kubevirt.io/persistent-ipam";
/** A node's first search begins at the hash of its name: of this name at the first address of every /29. */
const NODE = "node-0";

export interface ClusterSubjectOptions {
  readonly clock: ManualClock;
  /** The node's, by the same clock. */
  readonly api: KubeApi;
  /** Of somebody who may do everything. */
  readonly admin: KubeApi;
  /** After the store. */
  close(): Promise<void>;
}

/**
 * A cluster's store on any API server that has the namespace shop. What KubeVirt and the controller do about deleted
 * claims is played here, at once.
 */
export async function clusterSubject({
  clock,
  api,
  admin,
  close,
}: ClusterSubjectOptions): Promise<Subject & { readonly store: KubernetesStore }> {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-store-"));
  const gone = new Set<string>();
  const others = new OtherWriters(admin);
  const namespaceGone = ({ path }: NamespaceIdentity) => gone.has(path);
  const open = () => opened(clusterStore({ directory, api, context: { clock, node: NODE, namespaceGone } }));
  let store = await open();
  const allocations: Allocations = {
    attach: (want) => store.attach(want),
    detach: async (want) => {
      const outcome = await store.detach(want);
      await store.agreement.over.drain();
      await others.endClaims(store);
      return outcome;
    },
    list: (filter, page) => store.list(filter, page),
  };
  return {
    name: "kubernetes",
    allocations,
    get store() {
      return store;
    },
    get reservations() {
      return store.reservations;
    },
    clock,
    gone,
    createClaim: (_namespace, name, network) => others.createClaim(name, network),
    deleteClaim: async (_namespace, name) => {
      await others.deleteClaim(name);
      await others.endClaims(store);
    },
    retaining: (seconds) => {
      others.retainSeconds = seconds;
    },
    reopen: async () => {
      await store.close();
      store = await open();
    },
    close: async () => {
      await store.close();
      rmSync(directory, { recursive: true, force: true });
      await others.wipe();
      await close();
    },
  };
}

/** What KubeVirt and the controller do in the cluster, and an administrator who clears it. */
class OtherWriters {
  readonly #api: KubeApi;
  readonly #objects: ObjectClient;
  retainSeconds = 0;

  constructor(api: KubeApi) {
    this.#api = api;
    this.#objects = new ObjectClient(api);
  }

  async createClaim(name: string, network: string): Promise<void> {
    await this.#objects.create(namespacedPath(CLAIMS_PATH, "shop"), {
      apiVersion: CLAIMS,
      kind: "IPAMClaim",
      metadata: { name, namespace: "shop", finalizers: [FINALIZER] },
      spec: { network, interface: "" },
    });
  }

  async deleteClaim(name: string): Promise<void> {
    await this.#delete(claimPath(name));
  }

  /** Claims that are being deleted and that nobody uses go, and what they had cools down or is retained. */
  async endClaims({ picture }: KubernetesStore): Promise<void> {
    const all = await this.#list(ALLOCATIONS_PATH);
    for (const claim of await this.#list(namespacedPath(CLAIMS_PATH, "shop"))) {
      if (claim.metadata.deletionTimestamp === undefined) continue;
      const owned = all.filter(({ spec }) => spec.owner.uid === claim.metadata.uid);
      if (owned.some(({ status }) => Object.keys(status.attachments).length > 0)) continue;
      await this.#withoutFinalizers(claimPath(claim.metadata.name));
      for (const object of owned) await this.#cool(object, picture);
    }
  }

  async wipe(): Promise<void> {
    const claims = await this.#list(namespacedPath(CLAIMS_PATH, "shop"));
    const allocations = await this.#list(ALLOCATIONS_PATH);
    for (const path of [
      ...allocations.map(({ metadata }) => objectPath(ALLOCATIONS_PATH, metadata.name)),
      ...claims.map(({ metadata }) => claimPath(metadata.name)),
    ]) {
      await this.#withoutFinalizers(path);
      await this.#delete(path);
    }
  }

  async #cool(object: KubeObject, picture: KubernetesStore["picture"]): Promise<void> {
    const path = objectPath(ALLOCATIONS_PATH, object.metadata.name);
    const nowMs = this.#api.clock.wallMs();
    const time = isoTime(nowMs);
    const next =
      this.retainSeconds === 0
        ? cooled(object as never, time)
        : retained(object as never, time, isoTime(nowMs + this.retainSeconds * 1_000));
    const cold = await this.#objects.replace(path, next);
    if (cold.kind !== "done") throw new Error(`${path} cannot be written: ${cold.kind}`);
    const { metadata, spec } = cold.object;
    picture.note(
      spec.network,
      addressOf(cold.object),
      spec.owner.uid,
      cold.object.status.state,
      metadata.resourceVersion,
    );
  }

  /** An object that is being deleted goes with the last of them. */
  async #withoutFinalizers(path: string): Promise<void> {
    await this.#objects.patch(path, { metadata: { finalizers: null } });
  }

  async #delete(path: string): Promise<void> {
    const { clock } = this.#api;
    const deadlineMs = clock.monotonicMs() + 10_000;
    await this.#api.send({ method: "DELETE", path, priority: "housekeeping", deadlineMs });
  }

  async #list(path: string): Promise<KubeObject[]> {
    const found: KubeObject[] = [];
    await this.#api.list({ path, each: (object) => found.push(object), restarted: () => found.splice(0) });
    return found;
  }
}

function claimPath(name: string): string {
  return namespacedPath(CLAIMS_PATH, "shop", name);
}
