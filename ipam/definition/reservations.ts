import { type Address, type Family, formatAddress, parseAddress, sameAddress } from "../space/address.ts";
import { IntervalSet } from "../space/interval-set.ts";
import { countingSubnets, makeRangeSet, type RangeSet } from "../space/range-set.ts";
import { type ConfigValue, invalid, isObject, readWith, refuseUnknownKeys, tooMany } from "./definition-keys.ts";
import { canonicalMac, readMac } from "./mac.ts";
import type { RequestedAddress } from "./requested-address.ts";

/** Entries of one network's configuration, which a NetworkAttachmentDefinition has to hold. */
const ENTRIES_MAX = 10_000;
/** Addresses of one configuration: each takes 4 µs to read, and an event loop is not kept for more than 50 ms. */
const RESERVED_MAX = 10_000;
/** Addresses of one MAC: more than any network has range sets. */
export const ADDRESSES_MAX = 32;
/** Of the first octet: an address of a group, which no interface has. */
const GROUP_BIT = 1;

/** Addresses of a network that only an interface with a certain MAC is given. See docs/decisions/0069. */
export class Reservations {
  readonly byMac: ReadonlyMap<string, readonly Address[]>;
  /** MAC by the address's text. */
  readonly macs: ReadonlyMap<string, string>;
  readonly #values: Readonly<Record<Family, IntervalSet>>;

  /** `macs` has the texts of the same addresses: there may be tens of thousands. */
  constructor(byMac: ReadonlyMap<string, readonly Address[]>, macs: ReadonlyMap<string, string>) {
    this.byMac = byMac;
    this.macs = macs;
    const addresses = [...byMac.values()].flat();
    const valuesOf = (family: Family) =>
      addresses.filter((one) => one.family === family).map(({ value }) => ({ first: value, last: value }));
    this.#values = { 4: IntervalSet.from(valuesOf(4)), 6: IntervalSet.from(valuesOf(6)) };
  }

  /** `mac` in any spelling; undefined, or none that anything is reserved for: []. */
  of(mac: string | undefined): readonly RequestedAddress[] {
    const known = mac === undefined ? null : canonicalMac(mac);
    const addresses = known === null ? [] : (this.byMac.get(known) ?? []);
    return addresses.map((address) => ({
      address,
      prefixLength: null,
      source: `the reservation of ${known}`,
    }));
  }

  /** Whose address it is, if somebody else's than `mac`; null: anybody may ask for it. */
  otherMac(address: Address, mac: string | undefined): string | null {
    const owner = this.macs.get(formatAddress(address));
    return owner === undefined || (mac !== undefined && canonicalMac(mac) === owner) ? null : owner;
  }

  values(family: Family): IntervalSet {
    return this.#values[family];
  }

  /** The same text for the same reservations. */
  get canonical(): readonly string[] {
    return [...this.macs].map(([address, mac]) => `${mac} ${address}`).sort();
  }
}

/**
 * Reads `[{"mac": "02:00:00:00:00:01", "ips": ["192.168.10.50"]}]`, besides those of `others`. Throws RefusalError
 * CONFIG_INVALID that names the entry.
 */
export function readReservations(
  found: ConfigValue,
  rangeSets: readonly RangeSet[],
  others?: Reservations,
): Reservations {
  const { key, value } = found;
  if (!Array.isArray(value) || value.length > ENTRIES_MAX)
    invalid(found, `expected a list of at most ${ENTRIES_MAX}: [{"mac": "02:00:00:00:00:01", "ips": [ADDRESS]}]`);
  const count = addressCount(value);
  if (count > RESERVED_MAX) tooMany(`${key}[].ips`, count, RESERVED_MAX);
  const byMac = new Map<string, readonly Address[]>(others?.byMac);
  const macs = new Map<string, string>(others?.macs);
  const read = { placeOf: countingSubnets(rangeSets), macs };
  for (const [index, entry] of value.entries()) {
    const at = `${key}[${index}]`;
    if (!isObject(entry)) invalid({ key: at, value: entry }, 'expected {"mac": MAC, "ips": [ADDRESS]}');
    refuseUnknownKeys(entry, at, ["mac", "ips"]);
    const mac = readInterfaceMac({ key: `${at}.mac`, value: entry.mac });
    if (byMac.has(mac))
      invalid({ key: `${at}.mac`, value: entry.mac }, "it has an entry already; write all its ips there");
    byMac.set(mac, readAddresses({ key: `${at}.ips`, value: entry.ips }, mac, read));
  }
  return new Reservations(byMac, macs);
}

/** Of what may be anything. */
export function addressCount(entries: unknown): number {
  if (!Array.isArray(entries)) return 0;
  return entries.reduce<number>((sum, entry) => sum + (Array.isArray(entry?.ips) ? entry.ips.length : 0), 0);
}

function readInterfaceMac({ key, value }: ConfigValue): string {
  const mac = readMac({ key, value });
  if ((Number.parseInt(mac.slice(0, 2), 16) & GROUP_BIT) !== 0 || mac === "00:00:00:00:00:00")
    invalid({ key, value }, "no interface has the MAC address of a group, or none");
  return mac;
}

function readAddresses(
  { key, value }: ConfigValue,
  mac: string,
  { placeOf, macs }: { readonly placeOf: ReturnType<typeof countingSubnets>; readonly macs: Map<string, string> },
): readonly Address[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > ADDRESSES_MAX)
    invalid({ key, value }, `expected a list of 1 to ${ADDRESSES_MAX} addresses`);
  const sets: number[] = [];
  return value.map((text, index) => {
    const found = { key: `${key}[${index}]`, value: text };
    const address = readWith(parseAddress, found);
    const place = placeOf(address);
    if (place === null) invalid(found, "it is in no subnet of the network");
    if (!place.subnet.usable.contains(address.value))
      invalid(found, "it is a gateway's, a network's or a broadcast address, or excluded");
    const canonical = formatAddress(address);
    const other = macs.get(canonical);
    if (other !== undefined) invalid(found, other === mac ? "it is there twice" : `${other} has it already`);
    if (sets.includes(place.index)) invalid(found, "an interface has one address of each subnet");
    macs.set(canonical, mac);
    sets.push(place.index);
    return address;
  });
}

/** The range sets without what is reserved among the addresses that are given without a request. */
export function withReserved(rangeSets: readonly RangeSet[], reservations: Reservations): RangeSet[] {
  const reserved = { 4: reservations.values(4), 6: reservations.values(6) };
  return rangeSets.map((set) =>
    makeRangeSet(
      set.subnets.map((subnet) => ({
        ...subnet,
        automatic: subnet.automatic.subtract(reserved[set.family]),
      })),
    ),
  );
}

export function withReservation(
  requested: readonly RequestedAddress[],
  reservations: Reservations | undefined,
  mac: string | undefined,
): readonly RequestedAddress[] {
  const own = reservations?.of(mac) ?? [];
  const more = own.filter((one) => !requested.some(({ address }) => sameAddress(address, one.address)));
  return more.length === 0 ? requested : [...requested, ...more];
}
