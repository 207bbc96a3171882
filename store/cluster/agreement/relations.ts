/*
 * store/cluster/agreement/: what a node believes of its uses of addresses, and what follows
 *
 *   relations     the table; facts: what machine and objects tell, asked for as the rows need it
 *   agreement     the loop over it, and what people hear of it
 *   own-objects   what the API server has of this node and the journal has not
 *   held          what this node holds: written-last, missing, node-object
 *   over          what is to be given back; release-address, of one address
 *   unproven      what the journal keeps of what was not compared yet
 */

import type { EndReason } from "../../allocations.ts";

/*
 * A use is one interface of one container on one network. The journal says which phase it is in, the machine whether
 * its container runs, the API server what became of its pod and who has the address:
 *
 *   taking   an ADD of this process was about to reserve, and nobody was answered (what an earlier process was about to
 *            reserve is abandoned when the journal is opened)
 *   held     answered, or learnt from the API server
 *   leaving  over: its addresses are to be given back
 *   gone     given back, or a DEL of something unknown; a late write or a restored server has brought it back
 *   none     the journal knows nothing of it, and the API server has it
 *
 * The first row that applies decides. A fact that a row needs and nobody has asked for yet is to be asked for first, so
 * rows begin with what costs nothing. Whoever cannot be told of the object does not ask; a pod that nobody can tell of
 * is "unknown", and ends nothing. See docs/decisions/0080.
 */

/** What is known of one use and one of its addresses; absent: not asked yet. */
export interface Facts {
  readonly phase: "none" | "taking" | "held" | "leaving" | "gone";
  /**
   * runs: its network namespace is there. ended: the namespace was seen and is gone, or the machine was started again.
   * learnt: the API alone tells of it, so nobody here can see it end. unseen: nobody can tell.
   */
  readonly container: "runs" | "ended" | "learnt" | "unseen";
  /**
   * completed: all of its containers have ended. gone: it does not exist, and if it was static another manifest has its
   * name. unseen: a static one without its object, which the kubelet may run all the same. none: the use names none.
   */
  readonly pod: "living" | "completed" | "gone" | "unseen" | "none" | "unknown";
  /**
   * with-use: Bound to the use's owner, or to whom it was handed over, with this use. without-use: Bound to the owner
   * without it. cooling: released by the owner. freed: released by somebody else. others: somebody else's.
   */
  readonly object: "with-use" | "without-use" | "cooling" | "freed" | "others" | "absent";
  /** Whether what the row waits for has passed: a repeat of the ADD, the grace. */
  readonly waited: "no" | "long-enough" | "longest";
  /** Another row of the owner needs the address: one that is held, or one whose ADD is under way. */
  readonly needed: "no" | "held" | "adding";
  /** Its container's ID or its pod has had a later use here. */
  readonly followed: boolean;
  /** The journal has not served this boot before, and the Node object says that this machine is the node. */
  readonly firstInBoot: boolean;
}

/**
 * keep: all is as it should be. wait: it may still become so. abandon: nobody was answered, and what was reserved is
 * given back. leave: it is over. hold: the API server is to have it again. lose: the address is somebody else's, and
 * its container runs. release: the address is given back. learn: recorded as held. close: nothing is left to be given
 * back.
 */
export type Verdict = "keep" | "wait" | "abandon" | "leave" | "hold" | "lose" | "release" | "learn" | "close";

interface Condition {
  readonly name: string;
  readonly when: { readonly [F in keyof Facts]?: Facts[F] | readonly Facts[F][] };
}

export type EndingRow = Condition & { readonly verdict: "leave"; readonly reason: EndReason };
export type Row = EndingRow | (Condition & { readonly verdict: Exclude<Verdict, "leave"> });

const LACKING = ["without-use", "cooling", "freed", "absent"] as const;
const ENDED = ["completed", "gone"] as const;

export const ROWS: readonly Row[] = [
  // An ADD of which nobody was answered.
  { name: "forgotten", when: { phase: "taking", waited: "longest" }, verdict: "abandon" },
  { name: "not-repeated", when: { phase: "taking", waited: "long-enough", pod: ENDED }, verdict: "abandon" },
  { name: "may-be-repeated", when: { phase: "taking" }, verdict: "wait" },

  // What is used, as long as nothing says that it is over.
  {
    name: "no-container",
    when: {
      phase: "held",
      container: "ended",
      waited: ["long-enough", "longest"],
      pod: [...ENDED, "unseen", "none"],
    },
    verdict: "leave",
    reason: "namespace gone",
  },
  {
    name: "learnt-completed",
    when: { phase: "held", container: "learnt", pod: "completed" },
    verdict: "leave",
    reason: "pod ended",
  },
  {
    name: "learnt-pod-gone",
    when: { phase: "held", container: "learnt", waited: ["long-enough", "longest"], pod: "gone" },
    verdict: "leave",
    reason: "pod gone",
  },
  { name: "in-agreement", when: { phase: "held", object: "with-use" }, verdict: "keep" },
  // Whoever gave the address back has seen the same.
  { name: "completed", when: { phase: "held", pod: "completed" }, verdict: "leave", reason: "pod ended" },
  {
    name: "ended-with-pod",
    when: { phase: "held", container: "ended", pod: "gone" },
    verdict: "leave",
    reason: "pod ended",
  },
  {
    name: "learnt-and-given-back",
    when: { phase: "held", container: "learnt", object: "cooling", pod: "gone" },
    verdict: "leave",
    reason: "pod ended",
  },
  {
    name: "nobody-lost-it",
    when: { phase: "held", object: "others", container: "ended" },
    verdict: "leave",
    reason: "namespace gone",
  },
  { name: "lost", when: { phase: "held", object: "others" }, verdict: "lose" },
  { name: "taken-away", when: { phase: "held", object: LACKING }, verdict: "hold" },

  // What is over.
  {
    name: "not-ours",
    when: { phase: "leaving", object: ["cooling", "freed", "others", "absent"] },
    verdict: "close",
  },
  { name: "used-again", when: { phase: "leaving", needed: "held" }, verdict: "close" },
  { name: "about-to-be-used", when: { phase: "leaving", needed: "adding" }, verdict: "wait" },
  { name: "over", when: { phase: "leaving" }, verdict: "release" },

  // What the API server alone has as in use.
  { name: "returned", when: { phase: "gone" }, verdict: "release" },
  { name: "of-former-container", when: { phase: "none", followed: true }, verdict: "release" },
  { name: "cut-short-by-power", when: { phase: "none", firstInBoot: true, pod: ENDED }, verdict: "release" },
  { name: "unknown-here", when: { phase: "none" }, verdict: "learn" },
];

/** A row that decides, or the fact without which none can. */
export type Judgement =
  | { readonly kind: "decided"; readonly row: Row }
  | { readonly kind: "ask"; readonly fact: keyof Facts };

/** Judges one use by what is known. Pure. Throws Error for a phase without a row, which the tests exclude. */
export function judge(known: Partial<Facts>): Judgement {
  for (const row of ROWS) {
    let missing: keyof Facts | null = null;
    let applies = true;
    for (const fact of Object.keys(row.when) as (keyof Facts)[]) {
      const value = known[fact];
      if (value === undefined) missing ??= fact;
      else if (!([row.when[fact]].flat() as unknown[]).includes(value)) {
        applies = false;
        break;
      }
    }
    if (!applies) continue;
    return missing === null ? { kind: "decided", row } : { kind: "ask", fact: missing };
  }
  throw new Error(`no row for a use that is ${known.phase}`);
}
