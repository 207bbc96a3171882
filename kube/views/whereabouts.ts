import { copyOf } from "../../ipam/copied-text.ts";
import { isObject } from "../../ipam/definition/definition-keys.ts";
import { type Address, familyBits } from "../../ipam/space/address.ts";
import { type Cidr, cidrContains, formatCidr } from "../../ipam/space/cidr.ts";
import { WRITTEN } from "../../ipam/space/written.ts";

/** An address that whereabouts has recorded as in use. */
export interface WhereaboutsEntry {
  readonly address: Address;
  /** The pod's sandbox; "" when the entry has none. */
  readonly containerId: string;
  /** "": an older release of whereabouts, which did not record it. */
  readonly interface: string;
  /** null: the entry names no pod. */
  readonly pod: { readonly namespace: string; readonly name: string } | null;
  /** The IPPool, `namespace/name`. */
  readonly pool: string;
}

export type WhereaboutsPool = Readonly<Exclude<ReturnType<typeof readPool>, string>>;

/** Named ones; the others are counted. */
const PROBLEMS_MAX = 20;
/** Offsets are written as decimal numbers. */
const OFFSET = /^\d{1,39}$/;

/**
 * Reads an IPPool (whereabouts.cni.cncf.io/v1alpha1): `spec.range`, and in `spec.allocations` by the offset from the
 * address in it `{id, podref, ifname}`. A string tells why it cannot be read.
 */
export function readPool(object: unknown) {
  const metadata = isObject(object) && isObject(object.metadata) ? object.metadata : {};
  const spec = isObject(object) && isObject(object.spec) ? object.spec : {};
  const key = `${metadata.namespace}/${metadata.name}`;
  let range: Cidr;
  let first: Address;
  try {
    const [text = ""] = String(spec.range).split("/");
    first = WRITTEN.address(text);
    if (!String(spec.range).includes("/"))
      return `IPPool ${key}: spec.range: "${text}" has no prefix length; write it with that of its subnet, as ${text}/24`;
    range = WRITTEN.around(String(spec.range)).cidr;
  } catch (error) {
    return `IPPool ${key}: spec.range: ${(error as Error).message}`;
  }
  const entries: WhereaboutsEntry[] = [];
  /** Entries that name no address; whereabouts does not know them either. */
  const problems: string[] = [];
  let unread = 0;
  for (const [offset, entry] of Object.entries(isObject(spec.allocations) ? spec.allocations : {})) {
    const address = addressAt(first, offset);
    if (address === null || !cidrContains(range, address) || !isObject(entry)) {
      unread += 1;
      if (unread <= PROBLEMS_MAX)
        problems.push(
          `IPPool ${key}: spec.allocations["${copyOf(offset.slice(0, 40))}"] is not in ${formatCidr(range)}`,
        );
      continue;
    }
    entries.push({
      address,
      containerId: textOf(entry.id),
      interface: textOf(entry.ifname),
      pod: readPodRef(entry.podref),
      pool: key,
    });
  }
  if (unread > PROBLEMS_MAX)
    problems.push(`IPPool ${key}: ${unread - PROBLEMS_MAX} more of spec.allocations are not in its range`);
  return { key, range, entries, problems };
}

function addressAt(first: Address, offset: string): Address | null {
  if (!OFFSET.test(offset)) return null;
  const value = first.value + BigInt(offset);
  return value >> BigInt(familyBits(first.family)) === 0n ? { family: first.family, value } : null;
}

function readPodRef(value: unknown): WhereaboutsEntry["pod"] {
  const [namespace = "", name = "", ...more] = textOf(value).split("/");
  return namespace === "" || name === "" || more.length > 0 ? null : { namespace, name };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
