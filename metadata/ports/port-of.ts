import type { Attachment } from "../../store/records.ts";
import type { NumberedPort } from "./wanted-state.ts";

/** The port of an attachment. `formerGateway`: by which an earlier release gave its guest a route; null: none. */
export function portOf(attachment: Attachment, formerGateway: string | null): NumberedPort {
  const { id, network, containerId, interface: name, netns, mac, ips } = attachment;
  const formerGateways = formerGateway === null ? [] : [formerGateway];
  const port = {
    network,
    containerId,
    interface: name,
    netns: netns.path,
    addresses: ips.map(({ address }) => withoutMask(address)),
    mac,
    formerGateways,
  };
  return { id, port };
}

/** Cut from the canonical text: this is done for every attachment of a network at each of its changes. */
function withoutMask(address: string): string {
  return address.slice(0, address.indexOf("/"));
}
