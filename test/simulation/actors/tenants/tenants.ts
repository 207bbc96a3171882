/*
 * actors/tenants/: somebody who may do what a tenant may, in a namespace of his own, and uses it against others
 *
 *   names      networks of others, names of their objects, files of the node
 *   claims     claims of others, and claims that come with addresses of others
 *   claim-lists what claims of others list, and where they are
 *   told-of    whose claim was named by others learns of it
 *   reports    what pods say of their addresses
 *   forgeries  pods that say they are somebody else's
 *   guard      what must hold beside what the oracle sees: looked at with every write of an address
 *   pods       pods of the attacker
 */

import type { ActionKinds } from "../../world.ts";
import { LIST_ATTACKS } from "./claim-lists.ts";
import { CLAIM_ATTACKS } from "./claims.ts";
import { FORGERIES } from "./forgeries.ts";
import { NAMES } from "./names.ts";
import { REPORTS } from "./reports.ts";
import { THIEF_TOLD_OF } from "./told-of.ts";

export const ATTACKS: ActionKinds = {
  ...NAMES,
  ...CLAIM_ATTACKS,
  ...LIST_ATTACKS,
  ...THIEF_TOLD_OF,
  ...REPORTS,
  ...FORGERIES,
};

/** Counts that must not stay zero in a long run. */
export const ATTACKS_OWED: readonly string[] = [
  "attack.take-name",
  "attack.squat-name",
  "attack.resolv-conf",
  "attack.thief",
  "attack.thief-afar",
  "attack.thief-told",
  "attack.thief-in-peace",
  "attack.claim-prefilled",
  "attack.claim-list",
  "attack.claim-network",
  "attack.claim-append",
  "attack.report-many",
  "attack.report-huge",
  "attack.report-huge-told",
  "attack.report-others",
  "attack.report-nonsense",
  "attack.forged-mirror",
  "attack.forged-owner",
  "attack.namespace",
];
