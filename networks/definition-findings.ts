import { pluginConfIn } from "../ipam/definition/nad-config.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import type { Finding } from "../ipam/finding.ts";
import { formatCidr } from "../ipam/space/cidr.ts";
import type { DefinitionCatalog } from "./definition-catalog.ts";
import { describeDefinition } from "./pool-definition.ts";

/** Namespaces or definitions that one finding names. */
const SHOWN_MAX = 5;
/** The bridge plugin's own default. */
const BRIDGE_DEFAULT = "cni0";

type Catalog = Pick<DefinitionCatalog, "broken" | "networks" | "definitionOf" | "nadsOf" | "verdict">;

/** What is wrong with definitions themselves, in use or not. */
export function definitionFindings(catalog: Catalog): Finding[] {
  return [...brokenFindings(catalog), ...conflictFindings(catalog)];
}

/** The same of definitions that are valid. */
export function definitionNotes(catalog: Catalog): string[] {
  return networkNotes(
    catalog.networks().flatMap((network): LinkedNetwork[] => {
      const counting = catalog.definitionOf(network);
      return counting === null ? [] : [counting];
    }),
  );
}

/** Definitions that are refused: every ADD through them fails, and an AddressPool gives nothing. */
function brokenFindings(catalog: Catalog): Finding[] {
  return catalog.broken().map(({ key, refusal }) => ({
    invariant: "network",
    message: `${describeDefinition(key)} is refused: ${refusal.message}`,
    hint: refusal.hint,
  }));
}

/** Definitions that disagree with the one in force: every ADD through them fails. */
function conflictFindings(catalog: Catalog): Finding[] {
  return catalog.networks().flatMap((network) => {
    const counting = catalog.definitionOf(network);
    const others = catalog.nadsOf(network).filter(({ key }) => catalog.verdict(key).kind === "conflict");
    if (counting === null || others.length === 0) return [];
    const shown = shortened(others.map(({ key }) => key).sort());
    const define = others.length === 1 ? ` ${shown} defines` : `s ${shown} define`;
    const message = `NetworkAttachmentDefinition${define} network ${network} differently from ${counting.by}, which counts: ADDs through ${others.length === 1 ? "it" : "them"} are refused`;
    return [{ invariant: "network", message, hint: "make them equal, or give one of them another network name" }];
  });
}

export interface LinkedNetwork {
  readonly definition: NetworkDefinition;
  readonly by: string;
  /** A plugin's configuration or a list of them, as text. */
  readonly source: string;
}

/** What networks say that is read otherwise than they may mean it, and where they get into each other's way. */
export function networkNotes(networks: readonly LinkedNetwork[]): string[] {
  return [...networks.flatMap(readingNotes), ...overlapNotes(networks)];
}

function readingNotes({ definition: { name, notes }, by }: LinkedNetwork): string[] {
  const more = notes.length > SHOWN_MAX ? [`${notes.length - SHOWN_MAX} more of this kind`] : [];
  return [...notes.slice(0, SHOWN_MAX), ...more].map((note) => `network ${name} (${by}): ${note}`);
}

/**
 * Networks that give the same addresses on one bridge, master or VLAN, to guests that can reach each other. Each
 * network is named with the latest one before it that it overlaps.
 */
function overlapNotes(networks: readonly LinkedNetwork[]): string[] {
  const byLink = new Map<string, LinkedNetwork[]>();
  for (const one of networks) {
    const link = linkOf(one.source);
    if (link !== null) byLink.set(link, [...(byLink.get(link) ?? []), one]);
  }
  return [...byLink].flatMap(([link, members]) => {
    const notes = members.flatMap((one, index) => {
      const other = members.slice(0, index).findLast((former) => sharedSubnets(former, one).length > 0);
      return other === undefined ? [] : [overlap(other, one, link)];
    });
    if (notes.length <= SHOWN_MAX) return notes;
    return [
      ...notes.slice(0, SHOWN_MAX),
      `${notes.length - SHOWN_MAX} more networks on ${link} give addresses that others there give too`,
    ];
  });
}

function overlap(one: LinkedNetwork, other: LinkedNetwork, link: string): string {
  const [first, second] = [one, other].map(({ definition, by }) => `${definition.name} (${by})`);
  return `networks ${first} and ${second} give addresses of ${shortened(sharedSubnets(one, other))} on one ${link}, so that two guests there can have the same address; give each its own range (subnets, excludeSubnets), bridge, master or VLAN, or both one name: then they share one address space`;
}

/** The subnets of one network from which the other gives addresses too. */
function sharedSubnets({ definition: one }: LinkedNetwork, { definition: other }: LinkedNetwork): string[] {
  const others = other.rangeSets.flatMap(({ subnets }) => subnets);
  const shared = one.rangeSets
    .flatMap(({ subnets }) => subnets)
    .filter(({ cidr, usable }) =>
      others.some((subnet) => subnet.cidr.family === cidr.family && usable.intersect(subnet.usable).size > 0n),
    );
  return [...new Set(shared.map(({ cidr }) => formatCidr(cidr)))];
}

/**
 * What interfaces of a configuration are connected by, `bridge br0 with VLAN 5`; null: it does not say. Its keys decide
 * and not the plugin's name: cnv-bridge is OpenShift's copy of bridge, and others copy macvlan.
 */
function linkOf(source: string): string | null {
  const conf = pluginConfIn(source);
  if (conf === null) return null;
  const { type, bridge, master, vlan = conf.vlanId } = conf;
  const inVlan = typeof vlan === "number" && vlan > 0 ? ` with VLAN ${vlan}` : "";
  const isName = (name: unknown) => typeof name === "string" && name !== "";
  if (isName(bridge)) return `bridge ${bridge}${inVlan}`;
  if (isName(master)) return `master ${master}${inVlan}`;
  return type === "bridge" ? `bridge ${BRIDGE_DEFAULT}${inVlan}` : null;
}

export function shortened(names: readonly string[]): string {
  const shown = names.slice(0, SHOWN_MAX).join(", ");
  return names.length > SHOWN_MAX ? `${shown}, and ${names.length - SHOWN_MAX} more` : shown;
}
