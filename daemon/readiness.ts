import type { Unready } from "../cni/ready-gate.ts";
import type { StoreStatus } from "../store/node-store.ts";

/** What has to be there before ADD is served, in the order in which it comes at a start. */
export interface ReadinessFacts {
  readonly store: StoreStatus;
  /** DELs that were spooled are done. */
  readonly isDrained: boolean;
  /** What the API server has not listed yet; null: nothing, or there is no cluster. */
  readonly unlisted: string | null;
  /** What this node and the API server have not settled yet; null: nothing, or there is no cluster. */
  readonly unsettled: string | null;
  readonly isStopping: boolean;
}

/** Why ADD cannot be served now, and what becomes of it; null: it can. */
export function whyUnready(facts: ReadinessFacts): Unready | null {
  if (facts.isStopping) return { reason: "it is stopping", outlook: "ends" };
  return whyUnbegun(facts) ?? passes(facts.unsettled);
}

/** Why this node and the API server cannot even begin to settle what is between them. */
export function whyUnbegun({
  store,
  isDrained,
  unlisted,
}: Pick<ReadinessFacts, "store" | "isDrained" | "unlisted">): Unready | null {
  return ofStore(store) ?? passes(isDrained ? unlisted : "the spool is not drained yet");
}

function ofStore(status: StoreStatus): Unready | null {
  switch (status.kind) {
    case "ready":
      return null;
    case "opening":
      return passes("its state is opening");
    case "closed":
      return { reason: "its state is closed", outlook: "ends" };
    // A full disk, or one that fails: nobody knows for how long.
    case "faulted":
      return { reason: status.reason, outlook: status.isReopening ? "passes" : "stays" };
    case "rebuild-required":
      return { reason: status.reason, outlook: "stays" };
  }
}

function passes<Reason extends string | null>(reason: Reason) {
  return reason === null ? null : ({ reason, outlook: "passes" } as const);
}
