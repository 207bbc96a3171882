/*
 * test/simulation/mutants/: faults put into the product, each of which must be found
 *
 *   add-path, release-path, contact   planted faults, by where they are
 *   claims                            what is taken for a claim's
 *   findings                          what reviews found once and was mended, put back
 *   simulated                         the same of what the simulation found
 *   large                             what only a large cluster notices
 *   mutant                            what each of them says
 */

import { ADD_PATH } from "./add-path.ts";
import { OF_CLAIMS } from "./claims.ts";
import { CONTACT } from "./contact.ts";
import { FINDINGS } from "./findings.ts";
import { LARGE } from "./large.ts";
import type { Mutants } from "./mutant.ts";
import { RELEASE_PATH } from "./release-path.ts";
import { SIMULATED } from "./simulated.ts";

export const MUTANTS: Mutants = {
  ...ADD_PATH,
  ...RELEASE_PATH,
  ...CONTACT,
  ...OF_CLAIMS,
  ...FINDINGS,
  ...SIMULATED,
  ...LARGE,
};
