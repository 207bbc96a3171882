import { CLUSTER_OWED, clusterActions } from "../cluster/actions.ts";
import { MACHINE_OWED, machineActions } from "../machine/actions.ts";
import type { ActionKinds } from "../world.ts";
import { GUEST_KINDS, GUESTS_OWED } from "./guests/kinds.ts";
import { KUBEVIRT_OWED, kubevirtKinds } from "./kubevirt/kubevirt.ts";
import { MACHINE_KINDS, MACHINES_OWED } from "./machines/kinds.ts";
import { PEOPLE, PEOPLE_OWED } from "./people/people.ts";
import { PODS_OWED, podKinds } from "./pods/pods.ts";
import { ATTACKS, ATTACKS_OWED } from "./tenants/tenants.ts";

/** Everything that anybody does. */
export const ACTOR_KINDS: ActionKinds = {
  ...clusterActions,
  ...machineActions,
  ...kubevirtKinds,
  ...podKinds,
  ...PEOPLE,
  ...ATTACKS,
  ...MACHINE_KINDS,
  ...GUEST_KINDS,
};

/** What must have been counted at least once in a long run. */
export const OWED: readonly string[] = [
  ...CLUSTER_OWED,
  ...MACHINE_OWED,
  ...KUBEVIRT_OWED,
  ...PODS_OWED,
  ...PEOPLE_OWED,
  ...ATTACKS_OWED,
  ...MACHINES_OWED,
  ...GUESTS_OWED,
];
