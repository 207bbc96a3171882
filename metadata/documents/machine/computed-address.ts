import {
  type Address,
  AddressSyntaxError,
  compareAddresses,
  familyBits,
  formatAddress,
  parseAddress,
} from "../../../ipam/space/address.ts";
import {
  type Cidr,
  cidrContains,
  formatCidr,
  type InterfaceAddress,
  networkOf,
  parseInterfaceAddress,
} from "../../../ipam/space/cidr.ts";
import { type ComputedRange, TemplateProblem } from "./template.ts";

export interface ComputedAddress {
  readonly address: Address;
  /** null: the range names no subnet. */
  readonly subnet: Cidr | null;
}

/**
 * The address of a machine by its index: `start`, or else the address after the one that `subnet` is written with, plus
 * index × step: with 192.168.0.10/24 index 0 is 192.168.0.11, as Metal3 counts. It is computed alone, and no ledger
 * knows of it. Throws TemplateProblem for an address beyond `end`, the subnet or the family's last.
 */
export function computedAddress(range: ComputedRange, index: number): ComputedAddress {
  const written = range.subnet === undefined ? null : readSubnet(range.subnet);
  const subnet = written === null ? null : networkOf(written.address, written.prefixLength);
  const first = firstAddress(range, written);
  const { family } = first;
  const value = first.value + BigInt(index) * BigInt(range.step || 1);
  if (value < 0n || value >= 1n << BigInt(familyBits(family))) {
    throw new TemplateProblem(`index ${index} leads beyond the last IPv${family} address`);
  }
  const address = { family, value };
  const end = range.end === undefined ? null : readAddress(range.end, "end");
  if (end !== null && (end.family !== family || compareAddresses(address, end) > 0)) {
    throw new TemplateProblem(`${formatAddress(address)} of index ${index} is beyond end ${formatAddress(end)}`);
  }
  if (subnet !== null && !cidrContains(subnet, address)) {
    throw new TemplateProblem(`${formatAddress(address)} of index ${index} is outside subnet ${formatCidr(subnet)}`);
  }
  return { address, subnet };
}

function firstAddress({ start }: ComputedRange, subnet: InterfaceAddress | null): Address {
  if (start !== undefined) return readAddress(start, "start");
  if (subnet === null) throw new TemplateProblem("a computed address needs start or subnet");
  const { family, value } = subnet.address;
  return { family, value: value + 1n };
}

function readAddress(text: string, key: string): Address {
  return read(() => parseAddress(text), key);
}

function readSubnet(text: string): InterfaceAddress {
  return read(() => parseInterfaceAddress(text), "subnet");
}

function read<T>(parse: () => T, key: string): T {
  try {
    return parse();
  } catch (error) {
    if (error instanceof AddressSyntaxError) throw new TemplateProblem(`${key}: ${error.message}`);
    throw error;
  }
}
