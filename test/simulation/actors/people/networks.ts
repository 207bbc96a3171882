import { sleep } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
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
/** Everybody else's. */
export const HONEST: readonly string[] = ["shop", "bank", "lab"];
/** Times in the API have whole seconds, and the older definition counts: those who join come so much later, ms. */
const JOIN_MS = 1_500;

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
  // Six addresses, and no claims: it is full soon.
  {
    network: "tiny",
    namespace: "shop",
    nad: "tiny",
    sharedWith: [],
    config: {
      ...PLUGIN,
      allowPersistentIPs: false,
      name: "tiny",
      ipam: { type: TYPE, subnets: "10.5.0.0/29", cooldownSeconds: 5 },
    },
  },
  {
    network: "six",
    namespace: "bank",
    nad: "six",
    sharedWith: ["lab"],
    config: { ...PLUGIN, name: "six", ipam: { type: TYPE, subnets: "fd06::/120", cooldownSeconds: 5 } },
  },
  {
    network: "holes",
    namespace: "lab",
    nad: "holes",
    sharedWith: [],
    config: {
      ...PLUGIN,
      name: "holes",
      ipam: {
        type: TYPE,
        subnets: "10.7.0.0/27",
        excludeSubnets: "10.7.0.4/30,10.7.0.16/32",
        reservedSubnets: "10.7.0.24/30",
        cooldownSeconds: 0,
      },
    },
  },
  {
    network: "sets",
    namespace: "lab",
    nad: "sets",
    sharedWith: [],
    config: {
      ...PLUGIN,
      name: "sets",
      ipam: {
        type: TYPE,
        ranges: [
          [
            { subnet: "10.8.0.0/24", rangeStart: "10.8.0.10", rangeEnd: "10.8.0.14" },
            { subnet: "10.8.1.0/24", rangeStart: "10.8.1.10", rangeEnd: "10.8.1.19" },
          ],
          [{ subnet: "fd08::/112", rangeEnd: "fd08::ff" }],
        ],
        cooldownSeconds: 5,
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
export async function putNetworks(world: World): Promise<void> {
  for (const namespace of [...HONEST, MALLORY]) await putNamespace(world, namespace);
  await putNads(world, plannedNads());
}

/** One namespace as it was in the beginning. */
export async function furnish(world: World, namespace: string): Promise<void> {
  await putNamespace(world, namespace);
  await putNads(
    world,
    plannedNads().filter(({ metadata }) => metadata.namespace === namespace),
  );
}

async function putNamespace({ cluster: { admin } }: World, name: string): Promise<void> {
  const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name } };
  await attempted(admin.create("/api/v1/namespaces", namespace));
}

/** Those of the owners first. */
async function putNads({ cluster: { admin }, clock }: World, nads: readonly KubeObject[]): Promise<void> {
  const put = async (nad: KubeObject) => void (await attempted(admin.create(nadPath(nad.metadata.namespace), nad)));
  for (const nad of nads) if (isOfOwner(nad)) await put(nad);
  await sleep(clock, JOIN_MS);
  for (const nad of nads) if (!isOfOwner(nad)) await put(nad);
}

function isOfOwner({ metadata }: KubeObject): boolean {
  return NETWORKS.some(({ namespace, nad }) => namespace === metadata.namespace && nad === metadata.name);
}
