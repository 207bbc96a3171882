import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { parsePluginConfig } from "../ipam/definition/plugin-config.ts";
import { formatCidr } from "../ipam/space/cidr.ts";
import type { ImportSource, IPNetwork } from "../kube/objects.ts";
import type { DefinitionCatalog } from "./definition-catalog.ts";
import { describeDefinition } from "./pool-definition.ts";

/** The condition of an IPNetwork: every address from before Holdfast has an allocation. */
export const IMPORTED = "Imported";
/** The condition of an IPNetwork that tells why an import cannot go on. */
export const IMPORT_STALLED = "ImportStalled";
/** Former definitions that are remembered; a forgotten one is imported again, which does no harm. */
const FORMER_MAX = 500;

/** A definition as followed here: an import of any edition from `joinedAt` on covers it (docs/decisions/0026). */
export type SeenSource =
  | (Extract<ImportSource, { definition: string }> & { readonly joinedAt: number })
  | Extract<ImportSource, { subnets: string }>;

/** As the importer sees a network's definitions. `nodes`: a node's configuration, for pods attached without a NAD. */
export function sourcesOf(
  definitions: Pick<DefinitionCatalog, "nadsOf">,
  network: string,
  nodes: NetworkDefinition | null,
): SeenSource[] {
  const nads = definitions
    .nadsOf(network)
    .map(({ key, uid, generation, joinedAt }) => ({ definition: key, uid, generation, joinedAt }));
  return nodes === null ? nads : [...nads, { subnets: subnetsOf(nodes) }];
}

export function isImported(object: IPNetwork | null, sources: readonly SeenSource[]): boolean {
  const condition = object?.status?.conditions?.find(({ type }) => type === IMPORTED);
  return condition?.status === "True" && uncovered(object, sources).length === 0;
}

export function uncovered(object: IPNetwork | null, sources: readonly SeenSource[]): SeenSource[] {
  const covered = new Map(importedFrom(object).map((one) => [keyOf(one), one]));
  return sources.filter((wanted) => {
    const known = covered.get(keyOf(wanted));
    return known === undefined || !covers(known, wanted);
  });
}

/** The list after an import of `added`: an older edition of the same definition is replaced. */
export function joined(object: IPNetwork | null, added: readonly SeenSource[]): ImportSource[] {
  const kept = importedFrom(object).filter((one) => !added.some((two) => keyOf(one) === keyOf(two)));
  const newest = added.map((one) => {
    const known = importedFrom(object).find((other) => covers(other, one));
    return known === undefined || isNewer(one, known) ? recorded(one) : known;
  });
  return [...kept.slice(-FORMER_MAX), ...newest];
}

/** With the present editions of what it covers: a restarted reader would import them again. null: nothing changes. */
export function broughtUpToDate(object: IPNetwork | null, sources: readonly SeenSource[]): ImportSource[] | null {
  const newer = (known: ImportSource) => sources.find((one) => covers(known, one) && isNewer(one, known));
  const listed = importedFrom(object);
  if (!listed.some(newer)) return null;
  return listed.map((known) => {
    const one = newer(known);
    return one === undefined ? known : recorded(one);
  });
}

export function describeSource(source: ImportSource): string {
  return "subnets" in source
    ? `the configuration on the nodes (${source.subnets})`
    : describeDefinition(source.definition);
}

/** The subnets of a definition, separated by commas. */
export function subnetsOf({ rangeSets }: NetworkDefinition): string {
  return rangeSets.flatMap(({ subnets }) => subnets.map(({ cidr }) => formatCidr(cidr))).join(",");
}

/** The ranges that imported configurations on nodes give a network; none for one that only NADs define. */
export function nodeDefinitionsOf(object: IPNetwork): NetworkDefinition[] {
  const all = importedFrom(object).map((source) => ("subnets" in source ? source.subnets : null));
  return all.flatMap((subnets) => nodeDefinition(object, subnets) ?? []);
}

/** The ranges of configurations on nodes that daemons want to be imported, and that are not yet. */
export function wantedOf(object: IPNetwork | null): NetworkDefinition[] {
  return (object?.status?.importWanted ?? []).flatMap(({ subnets }) => nodeDefinition(object, subnets) ?? []);
}

/** What is wanted after an import; null: nothing. */
export function stillWanted(object: IPNetwork | null, covered: readonly ImportSource[]): IPNetworkWants | null {
  const open = (object?.status?.importWanted ?? []).filter(
    ({ subnets }) =>
      nodeDefinition(object, subnets) !== null && !covered.some((one) => "subnets" in one && one.subnets === subnets),
  );
  return open.length === 0 ? null : open;
}

type IPNetworkWants = NonNullable<NonNullable<IPNetwork["status"]>["importWanted"]>;

function nodeDefinition(object: IPNetwork | null, subnets: unknown): NetworkDefinition | null {
  if (object === null || typeof subnets !== "string") return null;
  try {
    return parsePluginConfig({ name: object.spec.network, ipam: { type: "holdfast-ipam", subnets } });
  } catch {
    // Edited by hand.
    return null;
  }
}

function importedFrom(object: IPNetwork | null): readonly ImportSource[] {
  return object?.status?.importedFrom ?? [];
}

function keyOf(source: ImportSource): string {
  return "subnets" in source ? `nodes ${source.subnets}` : `nad ${source.definition}`;
}

/** Since `joinedAt` addresses come only from us: an import of any edition from then on has seen all others. */
function covers(known: ImportSource, wanted: SeenSource): boolean {
  if ("subnets" in known || "subnets" in wanted) return keyOf(known) === keyOf(wanted);
  return known.definition === wanted.definition && known.uid === wanted.uid && known.generation >= wanted.joinedAt;
}

/** Whether two sources are editions of one definition. */
function isNewer(one: ImportSource, other: ImportSource): boolean {
  return "generation" in one && "generation" in other && one.generation > other.generation;
}

function recorded(source: SeenSource): ImportSource {
  if ("subnets" in source) return source;
  const { definition, uid, generation } = source;
  return { definition, uid, generation };
}
