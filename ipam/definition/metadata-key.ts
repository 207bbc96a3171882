import { type Address, formatAddress, parseAddress } from "../space/address.ts";
import { cidrContains, formatCidr, formatInterfaceAddress, type InterfaceAddress } from "../space/cidr.ts";
import { IntervalSet } from "../space/interval-set.ts";
import { makeRangeSet, type RangeSet, type SubnetDefinition } from "../space/range-set.ts";
import {
  type ConfigValue,
  invalid,
  isGiven,
  isObject,
  readObject,
  readText,
  readWith,
} from "./definition-keys.ts";

/** Whether VMs of a network get metadata at 169.254.169.254, and how. */
export type NetworkMetadata =
  | {
      readonly kind: "on";
      /** Reserved for the listeners, the same on every node, and never allocated. IPv4, with the mask of its subnet. */
      readonly address: InterfaceAddress;
      /** Whether the EC2 tree requires a session token (IMDSv2). */
      readonly tokens: MetadataTokens;
    }
  /** Metadata was requested and is not possible; the rest of the network is as without it. */
  | { readonly kind: "refused"; readonly reason: string };

type MetadataTokens = "off" | "optional" | "required";

const METADATA_KEYS = ["address", "tokens"] as const;
const TOKENS: readonly unknown[] = ["off", "optional", "required"] satisfies MetadataTokens[];

interface MetadataSettings {
  readonly address: { readonly found: ConfigValue; readonly address: Address } | null;
  readonly tokens: MetadataTokens;
}

/**
 * Reads the key `metadata` and takes the reserved address out of the ranges. The address follows from the definition
 * alone, so that every node chooses the same. Throws RefusalError CONFIG_INVALID. See docs/decisions/0018.
 */
export function reserveForMetadata(
  found: ConfigValue | null,
  rangeSets: readonly RangeSet[],
): { readonly metadata: NetworkMetadata | null; readonly rangeSets: readonly RangeSet[] } {
  const settings = found === null ? null : readSettings(found);
  if (settings === null || rangeSets.length === 0) return { metadata: null, rangeSets };
  const set = rangeSets.find(({ family }) => family === 4);
  const subnet = set?.subnets.find(({ usable }) => usable.size > 0n);
  if (set === undefined || subnet === undefined) return refused(rangeSets, "it has no IPv4 subnet");
  const value =
    settings.address === null
      ? highestToSpare(set, subnet)
      : readReserved(settings.address.found, settings.address.address, subnet);
  if (value === null || set.usable.size === 1n) {
    return refused(rangeSets, `no address of ${formatCidr(subnet.cidr)} is left for its listener`);
  }
  return {
    metadata: {
      kind: "on",
      address: { address: { family: 4, value }, prefixLength: subnet.cidr.prefixLength },
      tokens: settings.tokens,
    },
    rangeSets: rangeSets.map((one) => (one === set ? without(set, value) : one)),
  };
}

/** For fingerprints: plain JSON data that differs exactly when the meaning does. */
export function canonicalMetadata(metadata: NetworkMetadata | null): unknown {
  return metadata?.kind === "on" ? [formatInterfaceAddress(metadata.address), metadata.tokens] : metadata;
}

function refused(rangeSets: readonly RangeSet[], reason: string) {
  return { metadata: { kind: "refused" as const, reason }, rangeSets };
}

function readSettings(found: ConfigValue): MetadataSettings | null {
  if (found.value === false) return null;
  if (found.value === true) return { address: null, tokens: "optional" };
  if (!isObject(found.value)) {
    invalid(
      found,
      'expected true, false or an object such as {"address": "10.0.0.254", "tokens": "required"}',
    );
  }
  const { address, tokens } = readObject(found, METADATA_KEYS);
  return {
    address: isGiven(address) ? readAddress({ key: `${found.key}.address`, value: address }) : null,
    tokens: isGiven(tokens) ? readTokens({ key: `${found.key}.tokens`, value: tokens }) : "optional",
  };
}

function readAddress(found: ConfigValue): MetadataSettings["address"] {
  const address = readWith(parseAddress, found);
  if (address.family !== 4) invalid(found, "expected an IPv4 address: guests ask 169.254.169.254");
  return { found, address };
}

function readTokens(found: ConfigValue): MetadataTokens {
  const text = readText(found);
  if (!TOKENS.includes(text)) invalid(found, 'expected "off", "optional" or "required"');
  return text as MetadataTokens;
}

function readReserved(
  found: ConfigValue,
  address: Address,
  { cidr, extent, usable }: SubnetDefinition,
): bigint {
  if (!cidrContains(cidr, address)) {
    invalid(found, `it is not inside ${formatCidr(cidr)}, the network's first IPv4 subnet`);
  }
  if (!extent.contains(address.value)) {
    const [first, last] = [extent.first ?? 0n, extent.last ?? 0n];
    const text = (value: bigint) => formatAddress({ family: 4, value });
    invalid(found, `it is not inside the range ${text(first)} to ${text(last)}; name an address of it`);
  }
  if (!usable.contains(address.value)) {
    invalid(found, "it is the network, broadcast or gateway address, or in excludeSubnets; name another one");
  }
  return address.value;
}

/** The highest address that is allocated automatically, if another such one remains; else the highest reserved one. */
function highestToSpare(set: RangeSet, { usable, automatic }: SubnetDefinition): bigint | null {
  if (set.automatic.size > 1n && automatic.last !== null) return automatic.last;
  return usable.subtract(automatic).last;
}

function without(set: RangeSet, value: bigint): RangeSet {
  const one = IntervalSet.of(value, value);
  return makeRangeSet(
    set.subnets.map((subnet) => ({
      ...subnet,
      usable: subnet.usable.subtract(one),
      automatic: subnet.automatic.subtract(one),
    })),
  );
}
