import type { Attachment } from "../../store/records.ts";
import type { NumberedPort } from "./wanted-state.ts";

/** The port of an attachment. */
export function portOf(attachment: Attachment): NumberedPort {
  const { id, network, containerId, interface: name, netns, mac, ips } = attachment;
  const port = {
    network,
    containerId,
    interface: name,
    netns: netns.path,
    addresses: ips.map(({ address }) => withoutMask(address)),
    mac,
  };
  return { id, port };
}

/** Cut from the canonical text: this is done for every attachment of a network at each of its changes. */
function withoutMask(address: string): string {
  return address.slice(0, address.indexOf("/"));
}
