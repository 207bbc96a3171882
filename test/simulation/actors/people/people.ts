/*
 * actors/people/: who operates the cluster
 *
 *   networks      the networks of the world as they are meant to be
 *   nads, one-family   NetworkAttachmentDefinitions: edited, broken, deleted, joined
 *   owners        networks moved to other namespaces
 *   retention     networks that retain, and VMs that are deleted and made again
 *   releases, checks, commands   holdfast release, check, import, rebuild, …
 *   by-hand, annotations         objects edited and deleted with kubectl
 *   nodes         nodes drained and deleted, releases rolled out
 *   forced        addresses taken away by somebody who may: the oracle is told
 *   peace         what people have broken is put right; then no check finds anything
 *   left-over     what check tells people to do; pod-ends: what the controllers know by themselves
 *   look          paths and what is there
 */

import type { ActionKinds } from "../../world.ts";
import { BROKEN_REPORTS } from "./annotations.ts";
import { BY_HAND } from "./by-hand.ts";
import { CHECKS } from "./checks.ts";
import { NAD_EDITS } from "./nads.ts";
import { NODE_WORK } from "./nodes.ts";
import { ONE_FAMILY } from "./one-family.ts";
import { OWNERS } from "./owners.ts";
import { RELEASES } from "./releases.ts";
import { RETENTION, RETENTION_OWED } from "./retention.ts";

export const PEOPLE: ActionKinds = {
  ...NAD_EDITS,
  ...ONE_FAMILY,
  ...RELEASES,
  ...CHECKS,
  ...BY_HAND,
  ...BROKEN_REPORTS,
  ...OWNERS,
  ...NODE_WORK,
  ...RETENTION,
};

/** Counts that must not stay zero in a long run. */
export const PEOPLE_OWED: readonly string[] = [
  ...["grow", "shrink", "exclude", "gateway", "cooldown", "broken", "other-plugin"].map((one) => `people.nad-${one}`),
  ...["delete", "join", "share", "follow", "mend"].map((one) => `people.nad-${one}`),
  ...RETENTION_OWED,
  "people.release.done",
  "people.release.refused",
  "people.release-force.done",
  "people.release-force.refused",
  "people.address-taken",
  "people.check.answered",
  "people.import.answered",
  "people.rebuild.refused",
  "people.look.answered",
  "people.network-own.answered",
  "people.check-in-peace",
  ...["allocation-delete", "allocation-delete-force", "allocation-edit", "allocation-cool"].map(
    (one) => `people.${one}`,
  ),
  ...["network-object-delete", "network-object-edit", "claim-status", "break-report"].map((one) => `people.${one}`),
  ...["node-drain", "node-remove", "node-add", "node-object-delete", "upgrade"].map((one) => `people.${one}`),
];
