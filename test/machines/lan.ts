import { onTestFinished } from "vitest";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import type { ClusterApi, ClusterApiOptions } from "../harness/machines/cluster-api.ts";
import { CutLink } from "../harness/world/cut-link.ts";
import { World } from "../harness/world/world.ts";

export interface LanOptions extends ClusterApiOptions {
  /** Of network "blue"; default 10.0.0.0/24. */
  readonly ipam?: object;
  /** Of pool "lan" beside its network; null: there is none. */
  readonly pool?: object | null;
  /** Where the first controller's connection ends. */
  readonly cut?: ConstructorParameters<typeof CutLink>[0];
}

/** A world with Cluster API, network "blue", its pool "lan", and a controller that works. */
export interface Lan {
  readonly world: World;
  readonly capi: ClusterApi;
  /** The controller's. */
  readonly link: CutLink;
  /** The writes of what machines have, as `POST ipaddresses`. */
  writes(): string[];
  /** `name address state` of the allocations of claims. */
  held(): Promise<string[]>;
  /** Of one claim. */
  heldBy(name: string): Promise<string[]>;
}

export async function beginLan({ ipam, pool = {}, cut = null, ...options }: LanOptions = {}): Promise<Lan> {
  const world = await World.start({ api: "memory" });
  onTestFinished(() => world.stop());
  const capi = await world.startClusterApi(options);
  const link = new CutLink(cut);
  await world.startController({ identity: "one" }, link);
  await world.importedNetwork("blue", ipam);
  if (pool !== null) {
    await capi.pool("lan", "blue", pool);
    await capi.untilPool("lan", "Serving");
  }
  const held = async () => {
    const all: KubeObject[] = await world.cluster.api.list(ALLOCATIONS_PATH);
    return all
      .filter(({ spec }) => spec.owner.kind === "IPAddressClaim")
      .map(({ spec, status }) => `${spec.owner.name} ${spec.address} ${status.state}`)
      .toSorted();
  };
  return {
    world,
    capi,
    link,
    writes: () =>
      link.writes.flatMap((one) => {
        const [, verb, resource] = /^(\w+) .*\/(ipallocations|ipaddresses|ipaddressclaims)/.exec(one) ?? [];
        return resource === undefined ? [] : [`${verb} ${resource}`];
      }),
    held,
    heldBy: async (name) => (await held()).filter((one) => one.startsWith(`${name} `)),
  };
}

/** The names of several claims. */
export function names(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `m${index}`);
}
