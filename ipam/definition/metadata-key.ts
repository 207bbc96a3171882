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

/** VMs of a network get metadata at 169.254.169.254. */
export interface NetworkMetadata {
  /** Whether the EC2 tree requires a session token (IMDSv2). */
  readonly tokens: MetadataTokens;
  /** null: earlier releases gave the network no metadata, or the address is back in the ranges. */
  readonly reserved: ReservedAddress | null;
}

/**
 * The address by which guests of earlier releases have their route to 169.254.169.254: it follows from the definition
 * alone, so that every node and release has the same. Out of the ranges while such a guest may run (inForce).
 */
export interface ReservedAddress {
  /** IPv4, with the mask of its subnet. */
  readonly address: InterfaceAddress;
  /** Whether it is allocated automatically once it is back; else on request. */
  readonly automatic: boolean;
  /** The definition names it (`metadata.address`), which has no use any more. */
  readonly named: boolean;
}

type MetadataTokens = "off" | "optional" | "required";

const METADATA_KEYS = ["address", "tokens"] as const;
const TOKENS: readonly unknown[] = ["off", "optional", "required"] satisfies MetadataTokens[];

interface MetadataSettings {
  readonly address: { readonly found: ConfigValue; readonly address: Address } | null;
  readonly tokens: MetadataTokens;
}

/**
 * Reads the key `metadata` and takes the reserved address out of the ranges. Throws RefusalError CONFIG_INVALID. See
 * docs/decisions/0043.
 */
export function readMetadata(
  found: ConfigValue | null,
  rangeSets: readonly RangeSet[],
): { readonly metadata: NetworkMetadata | null; readonly rangeSets: readonly RangeSet[] } {
  const settings = found === null ? null : readSettings(found);
  if (settings === null || rangeSets.length === 0) return { metadata: null, rangeSets };
  const { tokens } = settings;
  const set = rangeSets.find(({ family }) => family === 4);
  const subnet = set?.subnets.find(({ usable }) => usable.size > 0n);
  if (set === undefined || subnet === undefined) return { metadata: { tokens, reserved: null }, rangeSets };
  const value =
    settings.address === null
      ? highestToSpare(set, subnet)
      : readReserved(settings.address.found, settings.address.address, subnet);
  // Earlier releases spared none there, and gave no metadata.
  if (value === null || set.usable.size === 1n) return { metadata: { tokens, reserved: null }, rangeSets };
  const reserved: ReservedAddress = {
    address: { address: { family: 4, value }, prefixLength: subnet.cidr.prefixLength },
    automatic: subnet.automatic.contains(value),
    named: settings.address !== null,
  };
  return {
    metadata: { tokens, reserved },
    rangeSets: rangeSets.map((one) => (one === set ? without(set, value) : one)),
  };
}

/** The range sets with the reserved address in them again. */
export function rangeSetsWith(
  rangeSets: readonly RangeSet[],
  { address: { address }, automatic }: ReservedAddress,
): readonly RangeSet[] {
  const one = IntervalSet.of(address.value, address.value);
  return rangeSets.map((set) => {
    const own = set.subnets.find(
      ({ cidr, extent }) => cidr.family === address.family && extent.contains(address.value),
    );
    if (own === undefined) return set;
    const back = {
      ...own,
      usable: own.usable.union(one),
      automatic: automatic ? own.automatic.union(one) : own.automatic,
    };
    return makeRangeSet(set.subnets.map((subnet) => (subnet === own ? back : subnet)));
  });
}

/** The range sets without some addresses, wherever they are. */
export function rangeSetsWithout(
  rangeSets: readonly RangeSet[],
  addresses: readonly Address[],
): readonly RangeSet[] {
  return rangeSets.map((set) =>
    addresses
      .filter(({ family, value }) => family === set.family && set.usable.contains(value))
      .reduce((less, { value }) => without(less, value), set),
  );
}

/** For fingerprints: plain JSON data that differs exactly when the meaning does. */
export function canonicalMetadata(metadata: NetworkMetadata | null): unknown {
  if (metadata === null) return null;
  const { reserved, tokens } = metadata;
  return [reserved === null ? null : formatInterfaceAddress(reserved.address), tokens];
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
