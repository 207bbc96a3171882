import { formatCidr } from "../ipam/cidr.ts";
import { type NetworkDefinition, parsePluginConfig } from "../ipam/network-definition.ts";
import type { ImportSource, IPNetwork } from "../store/kubernetes/objects.ts";
import type { DefinitionBook } from "./definition-book.ts";

/** The condition of an IPNetwork: every address from before Holdfast has its allocation. */
export const IMPORTED = "Imported";
/** Former ones that are remembered; one that is forgotten is imported again, which does no harm. */
const FORMER_MAX = 500;

/**
 * The definitions through which a network is used, as the importer sees them. `nodes`: what the configuration on a node
 * says, where a pod attaches without a NAD.
 */
export function sourcesOf(
  definitions: Pick<DefinitionBook, "nadsOf">,
  network: string,
  nodes: NetworkDefinition | null,
): ImportSource[] {
  const nads = definitions
    .nadsOf(network)
    .map(({ key, uid, generation }) => ({ definition: key, uid, generation }));
  return nodes === null ? nads : [...nads, { subnets: subnetsOf(nodes) }];
}

/** Whether everybody who uses the network through these definitions was imported. */
export function isImported(object: IPNetwork | null, sources: readonly ImportSource[]): boolean {
  const condition = object?.status?.conditions?.find(({ type }) => type === IMPORTED);
  return condition?.status === "True" && uncovered(object, sources).length === 0;
}

/** Those that the last imports did not cover; all of them for an object of release 0.1.0, which has no list. */
export function uncovered(object: IPNetwork | null, sources: readonly ImportSource[]): ImportSource[] {
  const covered = importedFrom(object);
  return sources.filter((wanted) => !covered.some((one) => covers(one, wanted)));
}

/** What is covered after an import of `added`: an older edition of the same definition is replaced. */
export function joined(object: IPNetwork | null, added: readonly ImportSource[]): ImportSource[] {
  const kept = importedFrom(object).filter((one) => !added.some((two) => keyOf(one) === keyOf(two)));
  const newest = added.map((one) => importedFrom(object).find((known) => covers(known, one)) ?? one);
  return [...kept.slice(-FORMER_MAX), ...newest];
}

/** Identity of one edition of a definition, for those who remember it. */
export function editionOf(source: ImportSource): string {
  return "subnets" in source ? keyOf(source) : `${keyOf(source)} ${source.uid} ${source.generation}`;
}

/** For messages. */
export function describeSource(source: ImportSource): string {
  return "subnets" in source
    ? `the configuration on the nodes (${source.subnets})`
    : `NetworkAttachmentDefinition ${source.definition}`;
}

/** The subnets of a definition, separated by commas. */
export function subnetsOf({ rangeSets }: NetworkDefinition): string {
  return rangeSets.flatMap(({ subnets }) => subnets.map(({ cidr }) => formatCidr(cidr))).join(",");
}

/** What the configurations on nodes that were imported say of a network's ranges; none for one that only NADs define. */
export function nodeDefinitionsOf(object: IPNetwork): NetworkDefinition[] {
  return importedFrom(object).flatMap((source) => {
    if (!("subnets" in source)) return [];
    try {
      const ipam = { type: "holdfast-ipam", subnets: source.subnets };
      return [parsePluginConfig({ name: object.spec.network, ipam })];
    } catch {
      // Somebody's edit.
      return [];
    }
  });
}

function importedFrom(object: IPNetwork | null): readonly ImportSource[] {
  return object?.status?.importedFrom ?? [];
}

function keyOf(source: ImportSource): string {
  return "subnets" in source ? `nodes ${source.subnets}` : `nad ${source.definition}`;
}

function covers(known: ImportSource, wanted: ImportSource): boolean {
  if ("subnets" in known || "subnets" in wanted) return keyOf(known) === keyOf(wanted);
  return (
    known.definition === wanted.definition &&
    known.uid === wanted.uid &&
    known.generation >= wanted.generation
  );
}
