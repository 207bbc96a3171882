import type { World } from "../world.ts";
import { simClusterOf } from "./cluster.ts";

const ACCOUNT = /^system:serviceaccount:[^:]+:holdfast-(node|controller)$/;

/** The oracle hears who of the product writes what into claims. */
export function tellClaimWrites(world: World): void {
  simClusterOf(world).admitters.push(({ operation, resource, userInfo, oldObject, object }) => {
    const account = ACCOUNT.exec(userInfo.username)?.[1];
    if (operation !== "UPDATE" || resource.resource !== "ipamclaims" || oldObject === null || object === null)
      return null;
    if (account === "node" || account === "controller")
      world.oracle.claimWritten({ by: account, before: oldObject, after: object });
    return null;
  });
}
