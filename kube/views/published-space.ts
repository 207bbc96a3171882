import type { Address, Family } from "../../ipam/space/address.ts";
import { IntervalSet } from "../../ipam/space/interval-set.ts";
import { decodeList, decodeSet, encodeList, encodeSet, FAMILIES, type UsedSpace } from "../../ipam/space/used-space.ts";
import { parseTime } from "../../platform/time.ts";
import type { IPNetwork, PublishedSpaceFields } from "../objects.ts";

/** The used space that a controller publishes in an IPNetwork, with what it is worth. */
export interface PublishedSpace extends UsedSpace {
  /** When it was observed, by the API server's clock, ms. */
  readonly observedMs: number;
  /** The newest version of an allocation that it takes into account. */
  readonly version: bigint;
  /** UIDs of claims that list no address yet, by the address that they hold, in canonical form. */
  readonly unlisted: ReadonlyMap<string, string>;
}

/** The used space of an IPNetwork; null: none is published, or somebody has edited it. */
export function readPublishedSpace(object: IPNetwork | null): PublishedSpace | null {
  const fields = object?.status?.usedSpace;
  if (!fields) return null;
  try {
    const setsOf = (texts: readonly string[]) => ({
      4: decodeSetOf(texts, 4),
      6: decodeSetOf(texts, 6),
    });
    const observedMs = parseTime(fields.observed);
    if (Number.isNaN(observedMs)) return null;
    return {
      observedMs,
      version: BigInt(fields.version),
      used: setsOf(fields.used),
      retained: setsOf(fields.retained),
      cooling: FAMILIES.flatMap((family) =>
        decodeList(textOf(fields.cooling, family) ?? "").map((value): Address => ({ family, value })),
      ),
      unlisted: new Map(fields.unlisted.map((text) => text.split(" ", 2) as [string, string])),
    };
  } catch (error) {
    if (error instanceof RangeError || error instanceof SyntaxError || error instanceof TypeError) return null;
    throw error;
  }
}

/** A used space as it is published, without the instant of its observation. */
export function publishedFields({
  used,
  retained,
  cooling,
  version,
  unlisted,
}: Omit<PublishedSpace, "observedMs">): Omit<PublishedSpaceFields, "observed"> {
  const textsOf = (isEmpty: (family: Family) => boolean, text: (family: Family) => string) =>
    FAMILIES.filter((family) => !isEmpty(family)).map((family) => `${wordOf(family)} ${text(family)}`);
  const setTexts = (sets: UsedSpace["used"]) =>
    textsOf(
      (family) => sets[family].size === 0n,
      (family) => encodeSet(sets[family]),
    );
  const coolingOf = (family: Family) => cooling.filter((one) => one.family === family);
  return {
    version: `${version}`,
    used: setTexts(used),
    retained: setTexts(retained),
    cooling: textsOf(
      (family) => coolingOf(family).length === 0,
      (family) => encodeList(coolingOf(family).map(({ value }) => value)),
    ),
    unlisted: [...unlisted].map(([address, uid]) => `${address} ${uid}`),
  };
}

function decodeSetOf(texts: readonly string[], family: Family): IntervalSet {
  const text = textOf(texts, family);
  return text === null ? IntervalSet.EMPTY : decodeSet(text);
}

function textOf(texts: readonly string[], family: Family): string | null {
  const prefix = `${wordOf(family)} `;
  return texts.find((text) => text.startsWith(prefix))?.slice(prefix.length) ?? null;
}

function wordOf(family: Family): string {
  return `ipv${family}`;
}
