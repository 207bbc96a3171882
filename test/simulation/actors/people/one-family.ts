import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { configOf, withIpam } from "./configs.ts";
import { orderTaken } from "./forced.ts";
import { ALLOCATIONS, allocationPath, attempted, objectsOf } from "./look.ts";
import { honest, mendLater, write } from "./nads.ts";
import type { NetworkConfig } from "./networks.ts";

/** A network of two families becomes one of its first, where a pod is to get another address of that one. */
export const ONE_FAMILY: ActionKinds = { "people-nad-one-family": { weight: 0, run: leaveOneFamily } };

async function leaveOneFamily(world: World, chance: Chance): Promise<void> {
  const one = chance.of(ofTwoFamilies(world));
  const nad = honest(world).find((object) => configOf(object)?.name === one?.spec.network);
  const config = nad && configOf(nad);
  if (one === undefined || !config) return;
  await write(world, nad, withIpam(config, firstFamily(config)), "one-family");
  const path = allocationPath(one.metadata.name);
  orderTaken(world, one, "kubectl delete of an IPAllocation, so that its pod gets another address");
  await attempted(world.cluster.admin.patch(path, { metadata: { finalizers: null } }));
  await attempted(world.cluster.admin.remove(path));
  await mendLater(world, nad, chance.between(10_000, 60_000));
}

/** IPv4 addresses of pods that have another one on the same network. */
function ofTwoFamilies(world: World): KubeObject[] {
  const held = objectsOf(world, ALLOCATIONS).filter(
    ({ spec, status }) => spec?.owner?.kind === "Pod" && status?.state === "Bound",
  );
  const isOfPair = ({ spec }: KubeObject) =>
    held.some(
      (other) =>
        other.spec.network === spec.network &&
        other.spec.owner.uid === spec.owner.uid &&
        other.spec.owner.interface === spec.owner.interface &&
        other.spec.address.includes(":"),
    );
  return held.filter((one) => !one.spec.address.includes(":") && isOfPair(one));
}

function firstFamily({ ipam }: NetworkConfig): object {
  if (ipam.ranges !== undefined) return { ranges: ipam.ranges.slice(0, 1) };
  const first = (list: string | undefined) => list?.split(",")[0];
  return { subnets: first(ipam.subnets), gateway: first(ipam.gateway) };
}
