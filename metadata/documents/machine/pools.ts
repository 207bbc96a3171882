import type { Family } from "../../../ipam/space/address.ts";
import { type MachineObjects, poolOfAnnotation } from "./objects.ts";
import type {
  AnnotationReference,
  MachineTemplateSpec,
  TemplateNetworks,
  TemplatePoolReference,
  TemplateRoute,
  TemplateStaticNetwork,
} from "./template.ts";
import { TemplateProblem } from "./template.ts";

export interface PoolReference {
  readonly apiGroup: string;
  readonly kind: string;
  readonly name: string;
}

export interface PoolResult {
  readonly address: string;
  /** Prefix length; null: the pool has none. */
  readonly prefix: number | null;
  readonly gateway: string | null;
  readonly dnsServers: readonly string[];
  /** Of a pool with two families, as a VM's network can be: the result of each. Other pools have none. */
  readonly families?: ReadonlyMap<Family, PoolResult>;
}

export type PoolResults = ReadonlyMap<string, PoolResult>;

const IP_POOL = { apiGroup: "ipam.metal3.io", kind: "IPPool" } as const;

/**
 * Each pool that a template names, in the order of their first mention; without any object at hand, none of
 * annotations. Throws TemplateProblem for one name with two kinds, and for an annotation that names none.
 */
export function poolsOfTemplate(spec: MachineTemplateSpec, objects: MachineObjects): PoolReference[] {
  const pools = new Map<string, PoolReference>();
  const { machine, metal3Machine, host } = objects;
  const hasObjects = machine !== null || metal3Machine !== null || host !== null;
  for (const mention of mentions(spec)) {
    if ("annotation" in mention && !hasObjects) continue;
    const pool = "annotation" in mention ? ofAnnotation(mention.annotation, objects) : ofReference(mention.pool);
    if (pool === null) continue;
    const known = pools.get(pool.name);
    if (known !== undefined && (known.kind !== pool.kind || known.apiGroup !== pool.apiGroup)) {
      throw new TemplateProblem(
        `pool ${pool.name}: multiple references with the same name but different resource types, ` +
          `${known.kind}.${known.apiGroup} and ${pool.kind}.${pool.apiGroup}`,
      );
    }
    pools.set(pool.name, known ?? pool);
  }
  return [...pools.values()];
}

/** The pool of a network or of a route's gateway; null: it names none. Throws TemplateProblem as above. */
export function poolNamed(
  names: {
    readonly annotation: AnnotationReference | undefined;
    readonly reference: TemplatePoolReference | undefined;
    readonly name: string | undefined;
  },
  objects: MachineObjects,
): string | null {
  if (isGiven(names.annotation)) return poolOfAnnotation(names.annotation, objects);
  return names.reference?.name || names.name || null;
}

/** Of a pool's results that of the family. Throws TemplateProblem where it has results of the other family alone. */
export function resultOfFamily(pool: string, result: PoolResult, family: Family): PoolResult {
  const own = result.families === undefined ? result : result.families.get(family);
  if (own === undefined) throw new TemplateProblem(`pool ${pool} has no IPv${family} address here`);
  return own;
}

function ofReference({ name, kind, apiGroup }: TemplatePoolReference): PoolReference | null {
  if (!name) return null;
  return { apiGroup: apiGroup || IP_POOL.apiGroup, kind: kind || IP_POOL.kind, name };
}

function ofAnnotation(reference: AnnotationReference, objects: MachineObjects): PoolReference {
  return { ...IP_POOL, name: poolOfAnnotation(reference, objects) };
}

function isGiven(reference: AnnotationReference | undefined): reference is AnnotationReference {
  return Boolean(reference?.object || reference?.annotation);
}

type Mention = { readonly pool: TemplatePoolReference } | { readonly annotation: AnnotationReference };

function* mentions({ metaData, networkData }: MachineTemplateSpec): Generator<Mention> {
  for (const list of [
    metaData?.ipAddressesFromPool,
    metaData?.prefixesFromPool,
    metaData?.gatewaysFromPool,
    metaData?.dnsServersFromPool,
  ]) {
    for (const pool of list ?? []) yield { pool };
  }
  for (const network of networksIn(networkData?.networks)) {
    yield* named(network.fromPoolAnnotation, network.fromPoolRef, network.ipAddressFromIPPool);
    for (const { gateway, services } of network.routes ?? []) {
      yield* named(gateway?.fromPoolAnnotation, gateway?.fromPoolRef, gateway?.fromIPPool);
      if (services?.dnsFromIPPool) yield { pool: { name: services.dnsFromIPPool } };
    }
  }
  const { dnsFromIPPool } = networkData?.services ?? {};
  if (dnsFromIPPool) yield { pool: { name: dnsFromIPPool } };
}

function* named(
  annotation: AnnotationReference | undefined,
  pool: TemplatePoolReference | undefined,
  name: string | undefined,
): Generator<Mention> {
  if (isGiven(annotation)) yield { annotation };
  if (pool !== undefined) yield { pool };
  if (name) yield { pool: { name } };
}

/** All networks, in the order in which they are rendered. */
export function networksIn(networks: TemplateNetworks | undefined): readonly TemplateStaticNetwork[] {
  const { ipv4 = [], ipv6 = [], ipv4DHCP = [], ipv6DHCP = [], ipv6SLAAC = [] } = networks ?? {};
  return [...ipv4, ...ipv6, ...ipv4DHCP, ...ipv6DHCP, ...ipv6SLAAC];
}

export function routesIn(networks: TemplateNetworks | undefined): readonly TemplateRoute[] {
  return networksIn(networks).flatMap(({ routes = [] }) => routes);
}
