import type { Conversation } from "../steps.ts";
import { ABSENT } from "./absent.ts";
import { CLEANING } from "./cleaning.ts";
import { CREATING } from "./creating.ts";
import { DELETING } from "./deleting.ts";
import { GAPS } from "./gaps.ts";
import { LENGTHS } from "./lengths.ts";
import { LISTS } from "./lists.ts";
import { RIGHTS } from "./rights.ts";
import { SCHEMAS } from "./schemas.ts";
import { TROUBLES } from "./troubles.ts";
import { WATCHES } from "./watches.ts";
import { WRITING } from "./writing.ts";

/** Everything that is said to an API server, in memory or real. The last ones restart it. */
export const CONVERSATIONS: readonly Conversation[] = [
  ...CREATING,
  ...ABSENT,
  ...WRITING,
  ...DELETING,
  ...SCHEMAS,
  ...LENGTHS,
  ...RIGHTS,
  ...LISTS,
  ...WATCHES,
  ...CLEANING,
  ...GAPS,
  ...TROUBLES,
];
