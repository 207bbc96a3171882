import type { PodNetwork } from "../../identity/sources/ovn/pod-networks.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { cidrContains } from "../../ipam/space/cidr.ts";
import type { UdnView } from "../../networks/udn/udn-object.ts";
import { udnSubnets } from "../../networks/udn/udn-subnets.ts";
import type { LocalEndpoint } from "./services-endpoints.ts";

/** The IPv4 address that an endpoint's pod has on a primary network of OVN-Kubernetes, or why requests may not go there. */
export function addressOnNetwork(
  { address: known, pod }: LocalEndpoint,
  verdict: { readonly problem: string | null; readonly networks: readonly PodNetwork[] },
  udn: UdnView,
): { readonly address: string } | { readonly problem: string } {
  if (verdict.problem !== null || pod === null) return { problem: verdict.problem ?? `${known} is no pod` };
  // OVN-Kubernetes renders a network's NetworkAttachmentDefinitions under the network's own name.
  const nad = `${pod.namespace}/${udn.name}`;
  const own = verdict.networks.find((one) => one.nad === nad && one.primary);
  const found = own?.addresses.find(({ address }) => address.family === 4)?.address;
  const described = `pod ${pod.namespace}/${pod.name}`;
  if (found === undefined) return { problem: `${described} has no IPv4 address on network ${udn.network}` };
  if (!udnSubnets(udn.networkSpec).some((cidr) => cidrContains(cidr, found)))
    return {
      problem: `${described} says that it has ${formatAddress(found)}, which is in no subnet of the network`,
    };
  return { address: formatAddress(found) };
}
