import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { KubeClaimDesk } from "../../claims/claim-desk.ts";
import { PodDirectory } from "../../claims/pod-directory.ts";
import { HttpKubeApi } from "../../kube/http/http-kube-api.ts";
import { loadKubeConfig } from "../../kube/http/kube-config.ts";
import { ALLOCATIONS_PATH, objectPath } from "../../kube/objects.ts";
import type { NamespaceIdentity } from "../../platform/namespaces.ts";
import { systemClock } from "../../platform/time.ts";
import type { Allocations } from "../../store/allocations.ts";
import { addressOf, cooled } from "../../store/cluster/allocations/allocation-object.ts";
import { KubernetesStore } from "../../store/cluster/cluster-store.ts";
import { TestCluster } from "../harness/cluster.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { KubePods, pathOf } from "../harness/kube-pods.ts";
import { ManualClock } from "../harness/manual-clock.ts";
import { steadyContinuity } from "../harness/steady-continuity.ts";
import { describeAllocations } from "../store/allocations-contract.ts";
import { BOOT, type Subject } from "../store/subjects.ts";

const CLAIMS = "k8s.cni.cncf.io/v1alpha1";
const FINALIZER = "kubevirt.io/persistent-ipam";
/** A node's first search begins at the hash of its name: of this name at the first address of every /29. */
const NODE = "node-0";

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await TestCluster.start({ controllers: false });
  await new KubePods(cluster.api).createNamespace("shop");
});
afterAll(() => cluster?.stop());

describeAllocations("kubernetes", kubernetesSubject);

/** A store on the real API server. What KubeVirt and the controller do about deleted claims is played here, at once. */
async function kubernetesSubject(): Promise<Subject> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-store-"));
  const clock = new ManualClock();
  const gone = new Set<string>();
  const api = new HttpKubeApi(loadKubeConfig(cluster.kubeconfig("holdfast-node")), systemClock);
  const pods = new PodDirectory(api, () => undefined);
  const open = async () => {
    const store = new KubernetesStore({
      folder,
      context: {
        clock,
        node: NODE,
        bootId: BOOT,
        namespaceGone: (netns: NamespaceIdentity) => gone.has(netns.path),
      },
      log: { info: () => {}, warn: () => {}, error: () => {} },
      api,
      desk: new KubeClaimDesk({ api, pods, clock, warn: () => {} }),
      definitions: { definitionOf: () => null, networks: () => [], accessTo: () => null },
      continuity: steadyContinuity(),
      addDeadlineMs: 60_000,
      watchNetwork: () => () => {},
    });
    await store.open();
    await store.hint.refresh();
    return store;
  };
  let store = await open();
  const allocations: Allocations = Object.assign(Object.create(null), {
    attach: (want: Parameters<Allocations["attach"]>[0]) => store.attach(want),
    detach: async (want: Parameters<Allocations["detach"]>[0]) => {
      const outcome = await store.detach(want);
      await store.drainOutbox();
      await endClaims(store);
      return outcome;
    },
    list: (...args: Parameters<Allocations["list"]>) => store.list(...args),
  });
  return {
    name: "kubernetes",
    allocations,
    clock,
    gone,
    createClaim: async (namespace, name, network) => {
      await cluster.api.create(claimPath(namespace), {
        apiVersion: CLAIMS,
        kind: "IPAMClaim",
        metadata: { name, namespace, finalizers: [FINALIZER] },
        spec: { network, interface: "" },
      });
    },
    deleteClaim: async (namespace, name) => {
      await cluster.api.delete(claimPath(namespace, name));
      await endClaims(store);
    },
    reopen: async () => {
      await store.close();
      store = await open();
    },
    close: async () => {
      await store.close();
      api.close();
      rmSync(folder, { recursive: true, force: true });
      await wipe();
    },
  };
}

/** Claims that are being deleted and that nobody uses go, and what they had rests. */
async function endClaims(store: KubernetesStore): Promise<void> {
  const all = await cluster.api.list(ALLOCATIONS_PATH);
  for (const claim of await cluster.api.list(claimPath("shop"))) {
    if (claim.metadata.deletionTimestamp === undefined) continue;
    const owned = all.filter(({ spec }) => spec.owner.uid === claim.metadata.uid);
    if (owned.some(({ status }) => Object.keys(status.attachments).length > 0)) continue;
    await withoutFinalizers(claimPath("shop", claim.metadata.name));
    for (const object of owned) {
      const path = objectPath(ALLOCATIONS_PATH, object.metadata.name);
      const { metadata, spec } = await cluster.api.replace(path, cooled(object, new Date().toISOString()));
      store.hint.note(spec.network, addressOf(object), spec.owner.uid, true, metadata.resourceVersion);
    }
  }
}

async function wipe(): Promise<void> {
  const paths = (collection: string, objects: readonly KubeObject[]) =>
    objects.map(({ metadata }) => `${collection}/${metadata.name}`);
  for (const path of [
    ...paths(ALLOCATIONS_PATH, await cluster.api.list(ALLOCATIONS_PATH)),
    ...paths(claimPath("shop"), await cluster.api.list(claimPath("shop"))),
  ]) {
    await withoutFinalizers(path);
    await cluster.api.delete(path);
  }
}

/** An object that is being deleted goes with the last of them. */
async function withoutFinalizers(path: string): Promise<void> {
  await cluster.api.patch(path, { metadata: { finalizers: null } });
}

function claimPath(namespace: string, name = ""): string {
  return pathOf(namespace, "ipamclaims", name, CLAIMS);
}
