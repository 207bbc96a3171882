import type { Fate } from "../../harness/kube-fake/client/link.ts";

export type Verb = "send" | "list" | "watch";

/** What can become of one message, and how often of a thousand. */
export interface Trouble {
  /** As it is counted, behind `api.`. */
  readonly name: string;
  readonly perMille: number;
  readonly verbs: readonly Verb[];
  /** `number`: [0, 1), how much of it. */
  fate(number: number): Fate;
}

/** The latest that a message comes, ms. */
const LATE_MS_MAX = 15_000;
const RETRY_AFTER_SECONDS_END = 4;
/** A list is cut within so many objects. */
const CUT_WITHIN = 20;

const ALL: readonly Verb[] = ["send", "list", "watch"];
const ANSWERED: readonly Verb[] = ["send", "list"];
const SEND: readonly Verb[] = ["send"];

const late = (number: number) => 500 + number * LATE_MS_MAX;

/** Everything that goes wrong with single messages. */
export const TROUBLES: readonly Trouble[] = [
  { name: "lost-before", perMille: 8, verbs: ALL, fate: () => ({ lost: "before" }) },
  { name: "lost-after", perMille: 10, verbs: ANSWERED, fate: () => ({ lost: "after" }) },
  { name: "hangs", perMille: 2, verbs: ALL, fate: () => ({ hangs: true }) },
  { name: "unheard", perMille: 3, verbs: ANSWERED, fate: () => ({ unheard: true }) },
  { name: "twice", perMille: 6, verbs: SEND, fate: () => ({ twice: true }) },
  { name: "late-request", perMille: 6, verbs: ALL, fate: (number) => ({ requestMs: late(number) }) },
  { name: "late-answer", perMille: 6, verbs: ANSWERED, fate: (number) => ({ answerMs: late(number) }) },
  { name: "401", perMille: 1, verbs: ALL, fate: () => ({ status: 401 }) },
  {
    name: "429",
    perMille: 4,
    verbs: ALL,
    fate: (number) => ({ status: 429, retryAfterSeconds: Math.floor(number * RETRY_AFTER_SECONDS_END) }),
  },
  { name: "500", perMille: 2, verbs: ALL, fate: () => ({ status: 500 }) },
  { name: "503", perMille: 2, verbs: ALL, fate: () => ({ status: 503 }) },
  { name: "504", perMille: 2, verbs: ANSWERED, fate: () => ({ status: 504 }) },
  { name: "410", perMille: 3, verbs: ["list", "watch"], fate: () => ({ status: 410 }) },
  {
    name: "list-cut",
    perMille: 10,
    verbs: ["list"],
    fate: (number) => ({ cutAfter: Math.floor(number * CUT_WITHIN) }),
  },
];

const SUM = TROUBLES.reduce((sum, { perMille }) => sum + perMille, 0);

/** Of a message, at most: what does not fit its verb does not happen. */
export const TROUBLE_PROBABILITY = SUM / 1_000;

/** One of them, by a number in [0, 1); null: it does not fit the verb. */
export function troubleOf(number: number, verb: Verb): Trouble | null {
  let left = number * SUM;
  for (const trouble of TROUBLES) {
    left -= trouble.perMille;
    if (left < 0) return trouble.verbs.includes(verb) ? trouble : null;
  }
  return null;
}
