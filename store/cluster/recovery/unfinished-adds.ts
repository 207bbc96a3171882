import { ApiAway } from "../../../kube/kube-api.ts";
import { severalAtOnce } from "../../../platform/several-at-once.ts";
import { ownerOf, type TakingRow } from "../../journal/rows.ts";
import type { StateDirectory } from "../../journal/state-directory.ts";
import { abandon, takingAtRest } from "../../journal/uses.ts";
import type { NodeContext } from "../../node-context.ts";
import { judgeAsking } from "../agreement/facts.ts";
import type { Facts } from "../agreement/relations.ts";
import type { ClaimAccess } from "../parts/claim-access.ts";

/** A runtime that still wants an ADD has repeated it after so long, as a rule: its pod is asked for then. µs. */
const REPEATED_US_MAX = 30_000_000;
/** A runtime repeats an ADD within minutes: after this long, the addresses of an unfinished ADD are released. µs. */
const TAKING_US_MAX = 600_000_000;
/** Pods asked for at once. */
const TOGETHER_MAX = 8;
const READ_MS_MAX = 10_000;

/**
 * Gives back what ADDs reserved whose answer was lost, and to which nobody comes back: neither their repeat nor, where the runtime has
 * forgotten them, a DEL. Never what an ADD reserves that is under way in this process, however old: after a suspend in the middle of
 * it, its machine does not know what it has reserved. Returns whether there was something.
 */
export async function abandonUnfinished(
  { directory, context, claimAccess }: Parts,
  nowUs: number,
  underWay: ReadonlySet<string>,
): Promise<boolean> {
  const over = new Set<number>();
  await severalAtOnce(takingAtRest(directory.ledger, underWay), TOGETHER_MAX, async (taking) => {
    const ageUs = nowUs - taking.boot_us;
    const row = await judgeAsking(
      {
        phase: "taking",
        underWay: false,
        waited: ageUs > TAKING_US_MAX ? "longest" : ageUs > REPEATED_US_MAX ? "long-enough" : "no",
      },
      { pod: () => podOf(taking, { context, claimAccess }) },
    );
    if (row?.verdict === "abandon") over.add(taking.id);
  });
  if (over.size === 0) return false;
  return directory.write((ledger) => {
    const rows = takingAtRest(ledger, underWay).filter(({ id }) => over.has(id));
    for (const row of rows) abandon(ledger, row);
    return rows.length > 0;
  });
}

interface Parts {
  readonly directory: StateDirectory;
  readonly context: NodeContext;
  readonly claimAccess: Pick<ClaimAccess, "hasEnded">;
}

/** Of an ADD for a claim, nobody has noted whose ADD it was. */
async function podOf(
  taking: TakingRow,
  { context, claimAccess }: Pick<Parts, "context" | "claimAccess">,
): Promise<Facts["pod"]> {
  if (taking.owner_kind !== "pod") return "none";
  const { namespace, name, uid } = ownerOf(taking);
  try {
    const deadlineMs = context.clock.monotonicMs() + READ_MS_MAX;
    return (await claimAccess.hasEnded({ namespace, name, uid }, deadlineMs)) ? "gone" : "living";
  } catch (error) {
    if (error instanceof ApiAway) return "unknown";
    throw error;
  }
}
