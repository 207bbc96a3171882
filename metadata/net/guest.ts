import { isNetworkName } from "../../ipam/definition/plugin-config.ts";
import { formatAddress, parseAddress } from "../../ipam/space/address.ts";
import type { WantedPort } from "../ports/wire.ts";
import type { NotFound } from "./port-lookup.ts";

/** An attachment whose port is wanted, validated for use in commands and in haproxy's map. */
export interface Guest {
  readonly wanted: WantedPort;
  /** As in LISTENER_HEADERS. */
  readonly subject: string;
  /** The recorded address by which the metadata server knows it: of IPv4, if it has one. */
  readonly source: string;
  /** As requested; null: none was. Lower case with colons. */
  readonly mac: string | null;
  readonly formerGateways: readonly string[];
}

/** Unlike every other attachment's on this node. */
export function guestKey({ network, containerId, interface: name }: WantedPort): string {
  return `${network} ${containerId} ${name}`;
}

/** The guest, or why it cannot be served. */
export function guestOf(wanted: WantedPort): Guest | NotFound {
  const { network, containerId, interface: name } = wanted;
  // The CNI rules. The names are used in headers.
  if (!isNetworkName(network))
    return never(
      `the name of network ${JSON.stringify(network)} may only have letters, digits, "_", "." and "-"`,
    );
  if (!/^[\w.-]+$/.test(containerId)) return never(`its container ID ${JSON.stringify(containerId)} is none`);
  try {
    const addresses = wanted.addresses.map(parseAddress);
    const source = addresses.find(({ family }) => family === 4) ?? addresses[0];
    if (source === undefined) return { kind: "pending", problem: "it has no recorded address" };
    return {
      wanted,
      subject: `container/${containerId}/${encodeURIComponent(name)}`,
      source: formatAddress(source),
      mac: macText(wanted.mac),
      formerGateways: wanted.formerGateways
        .map(parseAddress)
        .filter(({ family }) => family === 4)
        .map(formatAddress),
    };
  } catch (error) {
    return never((error as Error).message);
  }
}

/** Whether nothing that is recorded of an attachment has changed. */
export function sameWanted(one: WantedPort, other: WantedPort): boolean {
  return (
    one.network === other.network &&
    one.containerId === other.containerId &&
    one.interface === other.interface &&
    one.netns === other.netns &&
    one.mac === other.mac &&
    sameTexts(one.addresses, other.addresses) &&
    sameTexts(one.formerGateways, other.formerGateways)
  );
}

function sameTexts(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((text, at) => text === other[at]);
}

/** Lower case with colons, from any of the usual spellings; null: none. */
export function macText(mac: string | null): string | null {
  const digits = mac?.toLowerCase().replaceAll(/[:.-]/g, "") ?? "";
  return /^[0-9a-f]{12}$/.test(digits) ? (digits.match(/../g) as string[]).join(":") : null;
}

function never(problem: string): NotFound {
  return { kind: "final", problem };
}
