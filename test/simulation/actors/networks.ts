import type { KubeObject } from "../../../kube/fake/objects.ts";
import type { World } from "../world.ts";
import { create, isBeingDeleted, NADS, NAMESPACES, objectAt, objectsOf } from "./objects.ts";

/** A NetworkAttachmentDefinition as it is in the beginning, and again when its namespace was made again. */
interface Definition {
  readonly namespace: string;
  readonly name: string;
  /** Of the configuration; default: the name. */
  readonly network?: string;
  readonly ipam: object;
  /** Beside the `ipam` block. */
  readonly plugin?: object;
  readonly annotations?: Readonly<Record<string, string>>;
}

const PERSISTENT = { allowPersistentIPs: true };
const SHARED_WITH = "ipam.holdfast.dev/shared-with";

const DEFINITIONS: readonly Definition[] = [
  // Six addresses: it is full soon.
  { namespace: "shop", name: "tiny", ipam: { subnets: "10.10.0.0/29", cooldownSeconds: 5 } },
  // Full of VMs.
  {
    namespace: "shop",
    name: "small",
    ipam: { subnets: "10.11.0.0/28", gateway: "10.11.0.1", cooldownSeconds: 10 },
    plugin: PERSISTENT,
  },
  {
    namespace: "shop",
    name: "dual",
    ipam: { subnets: "10.20.0.0/24,fd20::/64", gateway: "10.20.0.1,fd20::1", cooldownSeconds: 20 },
    plugin: { ...PERSISTENT, isGateway: true },
    annotations: { [SHARED_WITH]: "bank" },
  },
  // The same network, joined by another namespace.
  {
    namespace: "bank",
    name: "dual-of-shop",
    network: "dual",
    ipam: { subnets: "10.20.0.0/24,fd20::/64", gateway: "10.20.0.1,fd20::1", cooldownSeconds: 20 },
    plugin: { ...PERSISTENT, isGateway: true },
  },
  { namespace: "bank", name: "six", ipam: { subnets: "fd30::/120", cooldownSeconds: 5 }, plugin: PERSISTENT },
  {
    namespace: "bank",
    name: "holes",
    ipam: {
      subnets: "10.40.0.0/27",
      excludeSubnets: "10.40.0.4/30,10.40.0.16/32",
      reservedSubnets: "10.40.0.24/30",
      cooldownSeconds: 0,
    },
    plugin: PERSISTENT,
  },
  {
    namespace: "lab",
    name: "sets",
    ipam: {
      ranges: [
        [
          { subnet: "10.50.0.0/24", rangeStart: "10.50.0.10", rangeEnd: "10.50.0.14" },
          { subnet: "10.50.1.0/24", rangeStart: "10.50.1.10", rangeEnd: "10.50.1.19" },
        ],
        [{ subnet: "fd50::/112", rangeEnd: "fd50::ff" }],
      ],
      cooldownSeconds: 5,
    },
  },
  {
    namespace: "lab",
    name: "wide",
    network: "lab-wide",
    ipam: { subnets: "10.60.0.0/16", cooldownSeconds: 15 },
    plugin: PERSISTENT,
  },
];

/** The namespaces of the beginning, in which VMs and pods are made. */
export const NAMES_OF_NAMESPACES: readonly string[] = [...new Set(DEFINITIONS.map(({ namespace }) => namespace))];

/** Makes a namespace where it does not exist, and what it has in the beginning. */
export async function furnish(world: World, namespace: string): Promise<void> {
  if (objectAt(world, NAMESPACES, namespace) === null)
    await create(world, NAMESPACES, {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name: namespace },
    });
  for (const definition of DEFINITIONS)
    if (definition.namespace === namespace) await create(world, NADS, nadOf(definition));
}

function nadOf({ namespace, name, network = name, ipam, plugin, annotations }: Definition): KubeObject {
  const metadata = { name, namespace, ...(annotations === undefined ? {} : { annotations }) };
  return nadObject(metadata, { name: network, ...plugin, ipam });
}

/** A NAD of ours. `config`: beside the version and the type. */
export function nadObject(
  metadata: { readonly name: string; readonly namespace: string; readonly annotations?: object },
  config: { readonly name: string; readonly ipam: object },
): KubeObject {
  const { ipam, ...rest } = config;
  const whole = { cniVersion: "1.0.0", type: "bridge", ...rest, ipam: { type: "holdfast-ipam", ...ipam } };
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata,
    spec: { config: JSON.stringify(whole) },
  };
}

/** What somebody who uses a NAD knows of it. */
export interface Nad {
  readonly namespace: string;
  readonly name: string;
  readonly network: string;
  readonly isPersistent: boolean;
  /** CIDRs of its subnets, as written; range sets: []. */
  readonly subnets: readonly string[];
}

const READ = new WeakMap<KubeObject, Nad | null>();

/** NADs of ours that can be read, in a namespace or everywhere. */
export function nadsIn(world: World, namespace?: string): Nad[] {
  return objectsOf(world, NADS, namespace).flatMap((object) => {
    if (isBeingDeleted(object)) return [];
    const nad = readNad(object);
    return nad === null ? [] : [nad];
  });
}

/** null: it is none of ours, or cannot be read. */
export function readNad(object: KubeObject): Nad | null {
  const known = READ.get(object);
  if (known !== undefined) return known;
  const nad = parseNad(object);
  READ.set(object, nad);
  return nad;
}

function parseNad({ metadata, spec }: KubeObject): Nad | null {
  try {
    const config = JSON.parse(spec.config);
    const plugins = config.plugins ?? [config];
    const { ipam } = plugins.find((one: KubeObject) => one?.ipam !== undefined) ?? {};
    if (ipam?.type !== "holdfast-ipam" || typeof config.name !== "string") return null;
    const subnets = typeof ipam.subnets === "string" ? ipam.subnets.split(",") : (ipam.subnets ?? []);
    const { namespace, name } = metadata;
    const isPersistent = config.allowPersistentIPs === true;
    return { namespace, name, network: config.name, isPersistent, subnets };
  } catch {
    return null;
  }
}
