import { KubeClaimAccess } from "../../claims/kube-claim-access.ts";
import { PodDirectory } from "../../claims/pod-directory.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { KubernetesStore, type KubernetesStoreOptions } from "../../store/cluster/cluster-store.ts";
import { steadyContinuity } from "../harness/steady-continuity.ts";
import { BOOT } from "./subjects.ts";

type Context = KubernetesStoreOptions["context"];

/** What a test says of its store; the rest is that of node-a, whose cluster is always there and defines no networks. */
type Given = Partial<Omit<KubernetesStoreOptions, "context">> &
  Pick<KubernetesStoreOptions, "directory"> & { readonly api: KubeApi; readonly context?: Partial<Context> };

/** A node's store over that API, on the clock of the API. It is not open yet. */
export function clusterStore({ api, context, ...more }: Given): KubernetesStore {
  const { clock } = api;
  const pods = new PodDirectory(api, () => undefined);
  return new KubernetesStore({
    api,
    context: { clock, node: "node-a", bootId: BOOT, namespaceGone: () => false, ...context },
    log: { info: () => {}, warn: () => {}, error: () => {} },
    claimAccess: new KubeClaimAccess({ api, pods, warn: () => {} }),
    definitions: { definitionOf: () => null, networks: () => [] },
    continuity: steadyContinuity(context?.clock ?? clock),
    addDeadlineMs: 60_000,
    serverMs: () => clock.wallMs(),
    readNetwork: async () => {},
    probe: async () => {},
    warnPod: () => {},
    ...more,
  });
}

/** A comparison of everything with the API. */
export const EVERYTHING = { everything: true } as const;

/** Opens it, as a daemon does that starts; nobody publishes anything. */
export async function opened(store: KubernetesStore): Promise<KubernetesStore> {
  await store.open();
  return store;
}
