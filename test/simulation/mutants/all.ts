/*
 * test/simulation/mutants/: faults put into the product, each of which must be found
 *
 *   add-path, release-path, contact   planted faults, by where they are
 *   findings                          what was found once and mended, put back
 *   mutant                            what each of them says
 */

import { ADD_PATH } from "./add-path.ts";
import { CONTACT } from "./contact.ts";
import { FINDINGS } from "./findings.ts";
import type { Mutants } from "./mutant.ts";
import { RELEASE_PATH } from "./release-path.ts";

export const MUTANTS: Mutants = { ...ADD_PATH, ...RELEASE_PATH, ...CONTACT, ...FINDINGS };
