import { RefusalError } from "../ipam/refusals.ts";
import { formatAddress } from "../ipam/space/address.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import { PODS_PATH } from "../kube/objects.ts";
import { readNetworkSelection } from "../kube/views/network-selection.ts";
import { MalformedObjectError } from "../kube/views/object-metadata.ts";
import { type PodView, projectPod } from "../kube/views/pod-view.ts";
import { ADDRESSES_ANNOTATION, networkOfHashed, readRequestedAddresses } from "../kube/views/requested-addresses.ts";

/** KubeVirt's label of launcher pods. */
const LAUNCHERS = "kubevirt.io=virt-launcher";

/** By claim (`namespace/name`), without prefix length; not what cannot be read, or is numbered. Throws ApiAway. */
export async function askedByClaim(api: KubeApi): Promise<Map<string, readonly string[]>> {
  const asked = new Map<string, readonly string[]>();
  await api.list({
    path: PODS_PATH,
    query: { labelSelector: LAUNCHERS },
    each: (object) => {
      try {
        for (const [claim, addresses] of askedBy(projectPod(object))) asked.set(claim, addresses);
      } catch (error) {
        if (!(error instanceof RefusalError || error instanceof MalformedObjectError)) throw error;
      }
    },
    restarted: () => asked.clear(),
  });
  return asked;
}

function askedBy({ namespace, annotations, terminal }: PodView): [string, readonly string[]][] {
  const asked = readRequestedAddresses(annotations[ADDRESSES_ANNOTATION]);
  if (terminal || asked.size === 0) return [];
  return readNetworkSelection(annotations, namespace).elements.flatMap((element) => {
    const network = element.interface === null ? null : networkOfHashed(asked.keys(), element.interface);
    const addresses = asked.get(network ?? "") ?? [];
    if (!element.claim || addresses.length === 0) return [];
    return [[`${namespace}/${element.claim}`, addresses.map(({ address }) => formatAddress(address))]];
  });
}
