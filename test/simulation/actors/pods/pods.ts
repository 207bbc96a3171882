/*
 * test/simulation/actors/pods/: what runs beside VMs
 *
 *   pods             everything that anybody does to them
 *   plain            created, deleted, ended; with addresses of their own; more than fit
 *   stateful         the same names again; static-pods: of a node's own
 *   node-lifecycle   nodes that are away, and what becomes of their pods
 */

import type { ActionKinds } from "../../world.ts";
import { plainPodKinds } from "./plain.ts";
import { statefulPodKinds } from "./stateful.ts";
import { staticPodKinds } from "./static-pods.ts";

export const podKinds: ActionKinds = { ...plainPodKinds, ...statefulPodKinds, ...staticPodKinds };
