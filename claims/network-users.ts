import type { KubeApi } from "../kube/kube-api.ts";
import { labelSelector } from "../kube/object-names.ts";
import { ALLOCATIONS_PATH, type IPAllocation, LABEL_NETWORK, PODS_PATH } from "../kube/objects.ts";
import { PRIMARY_INTERFACE, readNetworkSelection } from "../kube/views/network-selection.ts";
import { type PodView, projectPod } from "../kube/views/pod-view.ts";
import type { DefinitionCatalog } from "./definition-catalog.ts";
import { EVERYBODY, isForPrimaryInterfaces } from "./network-owner.ts";

/** The limit in the definition of IPNetworks. */
const SHARED_WITH_MAX = 1_000;

type NadLookup = Pick<
  DefinitionCatalog,
  "namespacesOf" | "namespacesFromFile" | "definesNetwork" | "isFromFile"
>;

/** Holders of a network's addresses: namespaces, and (`namespace/name`) pods with one on their primary interface. */
interface Holders {
  readonly namespaces: ReadonlySet<string>;
  readonly primaries: ReadonlySet<string>;
}

/**
 * The namespaces besides `definedIn` that use a network today and could not without a share: through NADs of their own,
 * including those whose configuration is a file on the nodes, or on primary interfaces without a NAD. EVERYBODY when
 * they are more than an IPNetwork can name. Throws ApiAway.
 */
export async function namespacesInUse(
  api: KubeApi,
  network: string,
  { catalog, definedIn }: { readonly catalog: NadLookup; readonly definedIn: string },
): Promise<string[]> {
  const { namespaces, primaries } = await readHolders(api, network);
  const unnamed = isForPrimaryInterfaces(definedIn) ? new Set<string>() : primaries;
  const naming = new Set([...catalog.namespacesOf(network), ...catalog.namespacesFromFile()]);
  naming.delete(definedIn);
  if (naming.size === 0 && unnamed.size === 0) return [];
  const used = new Set([...naming].filter((one) => namespaces.has(one)));
  await eachLivingPod(api, (pod) => {
    const { elements, primary } = readNetworkSelection(pod.annotations, pod.namespace);
    for (const { nad } of [...elements, ...(primary === null ? [] : [primary])]) {
      if (nad !== null && isNetworkOf(catalog, nad, network)) used.add(nad.namespace);
    }
    if (unnamed.has(pod.key) && !primary?.nad) used.add(pod.namespace);
  });
  used.delete(definedIn);
  return used.size > SHARED_WITH_MAX ? [EVERYBODY] : [...used].sort();
}

/**
 * Whether pods attach to the network through a NAD. Without a configuration of its own, the NAD's name is the
 * network's.
 */
function isNetworkOf(catalog: NadLookup, nad: { namespace: string; name: string }, network: string): boolean {
  const key = `${nad.namespace}/${nad.name}`;
  return catalog.definesNetwork(key, network) || (nad.name === network && catalog.isFromFile(key));
}

async function readHolders(api: KubeApi, network: string): Promise<Holders> {
  const namespaces = new Set<string>();
  const primaries = new Set<string>();
  const add = (pod: { namespace: string; name: string } | undefined, interfaceName: string) => {
    if (pod === undefined) return;
    namespaces.add(pod.namespace);
    if (interfaceName === PRIMARY_INTERFACE) primaries.add(`${pod.namespace}/${pod.name}`);
  };
  await api.list({
    path: ALLOCATIONS_PATH,
    query: { labelSelector: labelSelector(LABEL_NETWORK, network) },
    each: ({ spec, status }: IPAllocation) => {
      if (spec?.network !== network || status?.state !== "Bound") return;
      add(spec.owner, spec.owner.interface);
      for (const one of Object.values(status.attachments ?? {})) add(one.pod, one.interface);
    },
    restarted: () => {},
  });
  return { namespaces, primaries };
}

/** Skips malformed pods. */
async function eachLivingPod(api: KubeApi, each: (pod: PodView) => void): Promise<void> {
  await api.list({
    path: PODS_PATH,
    each: (object) => {
      try {
        const pod = projectPod(object);
        if (!pod.terminal) each(pod);
      } catch {
        // Such a pod gets no network either.
      }
    },
    restarted: () => {},
  });
}
