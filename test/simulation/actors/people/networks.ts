import type { KubeObject } from "../../../../kube/fake/objects.ts";
import type { World } from "../../world.ts";
import { attempted, NADS, NADS_API, nadPath, objectsOf } from "./look.ts";

/** A network as it is meant to be. */
export interface PlannedNetwork {
  readonly network: string;
  /** To whom it belongs. */
  readonly namespace: string;
  /** Of its definition there. */
  readonly nad: string;
  /** Namespaces with a definition of the same text, with which it is shared. */
  readonly sharedWith: readonly string[];
  readonly config: NetworkConfig;
}

// biome-ignore lint/suspicious/noExplicitAny: keys of every plugin
export type NetworkConfig = Readonly<Record<string, any>>;

/** Who attacks lives here; nothing of it is anybody else's. */
export const MALLORY = "mallory";
export const NAMESPACES = ["shop", "bank", MALLORY] as const;

const TYPE = "holdfast-ipam";
const PLUGIN = { cniVersion: "1.0.0", type: "bridge", allowPersistentIPs: true } as const;

/** Wide and narrow, of one family and of two, by our keys and by host-local's, with names that objects cannot have. */
export const NETWORKS: readonly PlannedNetwork[] = [
  {
    network: "blue",
    namespace: "shop",
    nad: "blue",
    sharedWith: ["bank"],
    config: { ...PLUGIN, name: "blue", ipam: { type: TYPE, subnets: "10.1.0.0/25", cooldownSeconds: 5 } },
  },
  {
    network: "green",
    namespace: "shop",
    nad: "green",
    sharedWith: [],
    config: {
      ...PLUGIN,
      name: "green",
      ipam: {
        type: TYPE,
        subnets: "10.2.0.0/26,fd00:2::/64",
        gateway: "10.2.0.1,fd00:2::1",
        excludeSubnets: "10.2.0.32/29",
        cooldownSeconds: 3,
      },
    },
  },
  {
    network: "tight",
    namespace: "bank",
    nad: "tight",
    sharedWith: [],
    config: { ...PLUGIN, name: "tight", ipam: { type: TYPE, subnets: "10.3.0.0/28", cooldownSeconds: 1 } },
  },
  {
    network: "Team_Red-0123456789abcdef",
    namespace: "bank",
    nad: "odd",
    sharedWith: [],
    config: {
      ...PLUGIN,
      name: "Team_Red-0123456789abcdef",
      ipam: {
        type: TYPE,
        ranges: [[{ subnet: "10.4.0.0/27", rangeStart: "10.4.0.4", rangeEnd: "10.4.0.28" }]],
        cooldownSeconds: 10,
      },
    },
  },
];

/** A definition of ours that is there now. */
export interface NadNow {
  readonly namespace: string;
  readonly name: string;
  readonly network: string;
  readonly config: NetworkConfig;
}

/** What of the definitions of honest people can be used now. */
export function nadsNow(world: World): NadNow[] {
  return objectsOf(world, NADS).flatMap((nad) => {
    const { namespace, name } = nad.metadata;
    const config = namespace === MALLORY ? null : configOf(nad);
    return config === null ? [] : [{ namespace, name, network: config.name, config }];
  });
}

/** null: it is not ours, or cannot be read. */
function configOf({ spec }: KubeObject): NetworkConfig | null {
  try {
    const config = JSON.parse(spec.config);
    return config.ipam?.type === TYPE && typeof config.name === "string" ? config : null;
  } catch {
    return null;
  }
}

/** The definitions as they are meant to be: of owners, and of those with whom they share. */
export function plannedNads(): KubeObject[] {
  return NETWORKS.flatMap(({ namespace, nad, sharedWith, config }) => [
    nadObject(
      namespace,
      nad,
      config,
      sharedWith.length === 0 ? {} : { annotations: { [SHARED_WITH]: sharedWith.join() } },
    ),
    ...sharedWith.map((other) => nadObject(other, nad, config)),
  ]);
}

export const SHARED_WITH = "ipam.holdfast.dev/shared-with";

/** `config`: an object, or a text that may be none. */
export function nadObject(
  namespace: string,
  name: string,
  config: NetworkConfig | string,
  metadata: object = {},
): KubeObject {
  return {
    apiVersion: NADS_API,
    kind: "NetworkAttachmentDefinition",
    metadata: { namespace, name, ...metadata },
    spec: { config: typeof config === "string" ? config : JSON.stringify(config) },
  };
}

/** Namespaces and networks, before anything else is there. */
export async function putNetworks({ cluster: { admin } }: World): Promise<void> {
  for (const name of NAMESPACES)
    await attempted(
      admin.create("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name } }),
    );
  for (const nad of plannedNads()) await attempted(admin.create(nadPath(nad.metadata.namespace), nad));
}
