import type { KubeObject } from "../../harness/kube-fake/objects.ts";
import type { World } from "../world.ts";
import { isBeingDeleted, NADS, objectsOf } from "./objects.ts";

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
