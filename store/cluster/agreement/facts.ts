import type { AllocationReading } from "../../../allocations/allocation-client.ts";
import { isHandedOver, sameAllocationOwner } from "../../../allocations/allocation-object.ts";
import { type Attachment, isLearnt } from "../../../allocations/records.ts";
import {
  type AllocationAttachment,
  type AllocationOwner,
  attachmentKey,
  type IPAllocation,
} from "../../../kube/objects.ts";
import type { NodeContext } from "../../node-context.ts";
import { type Facts, judge, type Row, type Verdict } from "./relations.ts";

type Machine = Pick<NodeContext, "bootId" | "namespaceAlive" | "namespaceGone">;

/** No namespace outlives its boot, so one that is still there is of this boot, whatever its stamp says. */
export function containerOf(machine: Machine, use: Pick<Attachment, "stamp" | "netns">): Facts["container"] {
  if (machine.namespaceAlive?.(use.netns) === true) return "runs";
  if (use.stamp.bootId !== machine.bootId || machine.namespaceGone(use.netns)) return "ended";
  return isLearnt(use) ? "learnt" : "unseen";
}

interface UsedBy {
  readonly owner: Pick<AllocationOwner, "kind" | "uid" | "interface">;
  readonly attachment: Pick<AllocationAttachment, "containerID" | "interface">;
}

/** An address as it was read, for whoever should have it. */
export function objectOf(reading: AllocationReading | null, { owner, attachment }: UsedBy): Facts["object"] {
  if (reading === null) return "absent";
  const { object } = reading;
  const { status } = object;
  const key = attachmentKey(attachment.containerID, attachment.interface);
  if (!sameAllocationOwner(object.spec.owner, owner)) {
    if (isHandedOver(object, key)) return "with-use";
    return isReleased(object) ? "freed" : "others";
  }
  if (isReleased(object)) return "cooling";
  return status?.state === "Bound" && key in (status.attachments ?? {}) ? "with-use" : "without-use";
}

export function isReleased({ status }: IPAllocation): boolean {
  return status?.state === "Cooling" || status?.state === "Retained";
}

/** Of a use of which everything that a row needs is known, or `asked` when one needs it. */
export function verdictOn(
  known: Partial<Facts>,
  asked: { readonly [F in keyof Facts]?: () => Facts[F] } = {},
): Verdict {
  let facts = known;
  for (;;) {
    const judgement = judge(facts);
    if (judgement.kind === "decided") return judgement.row.verdict;
    const ask = asked[judgement.fact];
    if (ask === undefined) throw new Error(`a use was judged without ${judgement.fact}`);
    facts = { ...facts, [judgement.fact]: ask() };
  }
}

type Asked = { readonly [F in keyof Facts]?: () => Facts[F] | Promise<Facts[F]> };

/** Judges a use and asks for what is needed; null: for a fact that cannot be asked for here. */
export async function judgeAsking(known: Partial<Facts>, asked: Asked): Promise<Row | null> {
  let facts = known;
  for (;;) {
    const judgement = judge(facts);
    if (judgement.kind === "decided") return judgement.row;
    const ask = asked[judgement.fact];
    if (ask === undefined) return null;
    facts = { ...facts, [judgement.fact]: await ask() };
  }
}
