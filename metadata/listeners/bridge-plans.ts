import type { ListenerStore } from "../../store/node-store.ts";
import type { Attachment } from "../../store/records.ts";
import {
  formatPlan,
  isOther,
  type KeptPlan,
  parsePlan,
  planAfter,
  planAttachmentKey,
  type RequestedPlan,
} from "./bridge-plan.ts";

/** The plans of this node's networks: stored durably, read from memory. */
export class ListenerPlans {
  readonly #store: Pick<ListenerStore, "listenerPlans" | "keepListenerPlan">;
  readonly #plans = new Map<string, KeptPlan>();

  constructor(store: Pick<ListenerStore, "listenerPlans" | "keepListenerPlan">) {
    this.#store = store;
  }

  get networks(): readonly string[] {
    return [...this.#plans.keys()];
  }

  of(network: string): KeptPlan | null {
    return this.#plans.get(network) ?? null;
  }

  /** Reads everything again after the store was reopened. */
  read(): void {
    this.#plans.clear();
    for (const [network, text] of this.#store.listenerPlans()) this.#plans.set(network, parsePlan(text));
  }

  /** The plan of the network after an attachment with the plan `requested`, written only if it changes; null: none. */
  async note(attachment: Attachment, requested: RequestedPlan): Promise<KeptPlan | null> {
    const { network } = attachment;
    const key = planAttachmentKey(attachment);
    const kept = this.of(network);
    if (kept === null && "refused" in requested) return null;
    if (kept !== null && !isOther(kept, key) && "plan" in requested && isSamePlan(kept, requested.plan))
      return kept;
    const text = await this.#store.keepListenerPlan(network, (known, attachments) => {
      const living = new Set(attachments.map(planAttachmentKey));
      const plan = planAfter(known === null ? null : parsePlan(known), requested, key, living);
      return plan === null ? null : formatPlan(plan);
    });
    if (text === null) return null;
    const plan = parsePlan(text);
    this.#plans.set(network, plan);
    return plan;
  }
}

function isSamePlan({ others: _, ...kept }: KeptPlan, requested: KeptPlan): boolean {
  return formatPlan(kept) === formatPlan(requested);
}
