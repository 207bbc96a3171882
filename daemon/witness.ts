import type { Attachment, PodIdentity } from "../allocations/records.ts";
import type { Log } from "../platform/log.ts";
import type { Machine } from "../platform/machine.ts";
import type { Namespaces } from "../platform/namespaces.ts";
import { type Clock, nextTurn } from "../platform/time.ts";
import type { EndReason } from "../store/allocations.ts";
import { containerOf, judgeAsking } from "../store/cluster/agreement/facts.ts";
import type { Facts } from "../store/cluster/agreement/relations.ts";
import type { NodeAttachments } from "../store/node-store.ts";

/** Attachments checked in one turn of the event loop. */
const PAGE = 200;

type ReadPodState = (pod: PodIdentity | null) => Promise<Facts["pod"]>;

const SAID: { readonly [R in EndReason]?: string } = {
  "namespace gone": "its network namespace is gone",
  "pod ended": "all containers of its pod have ended",
  "pod gone": "its pod is gone",
};

/**
 * Ends attachments whose DEL was lost, as the table says. Nothing is ended before the node has settled: on another
 * machine under this name, with a copy of this one's journal, no namespace is there, and what it ended would be
 * released as soon as the Node object is deleted. See docs/decisions/0081.
 */
export class Witness {
  readonly #store: Pick<NodeAttachments, "attachmentsAfter" | "endAttachment">;
  readonly #machine: Parameters<typeof containerOf>[0];
  readonly #podState: ReadPodState | null;
  readonly #isSettled: () => boolean;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #graceMs: number;
  /** Attachment id → since when it has been seen to be gone, ms. */
  #gone = new Map<number, number>();

  constructor(parts: {
    readonly store: Pick<NodeAttachments, "attachmentsAfter" | "endAttachment">;
    readonly clock: Clock;
    readonly log: Log;
    readonly machine: Pick<Machine, "bootId">;
    readonly namespaces: Pick<Namespaces, "stateOf">;
    readonly graceSeconds: number;
    /** null: nothing here tells of pods. */
    readonly podState: ReadPodState | null;
    /** Whether the journal's containers are certainly this machine's. */
    isSettled(): boolean;
  }) {
    this.#store = parts.store;
    this.#clock = parts.clock;
    this.#log = parts.log;
    const { machine, namespaces } = parts;
    this.#machine = {
      bootId: machine.bootId,
      namespaceAlive: (netns) => namespaces.stateOf(netns) === "alive",
      namespaceGone: (netns) => namespaces.stateOf(netns) === "gone",
    };
    this.#podState = parts.podState;
    this.#isSettled = () => parts.isSettled();
    this.#graceMs = parts.graceSeconds * 1_000;
  }

  /** One pass over all attachments. Two passes, a grace period apart, are needed to end one. */
  async runPass(): Promise<void> {
    if (!this.#isSettled()) {
      // A journal that begins anew uses the same ids for other attachments.
      this.#gone.clear();
      return;
    }
    const stillGone = new Map<number, number>();
    for (let after = 0; ; ) {
      const page = this.#store.attachmentsAfter(after, PAGE);
      for (const attachment of page) {
        const sinceMs = await this.#judge(attachment);
        if (sinceMs !== null) stillGone.set(attachment.id, sinceMs);
      }
      const last = page[page.length - 1];
      if (!last) break;
      after = last.id;
      await nextTurn(this.#clock);
    }
    this.#gone = stillGone;
  }

  /** Ends it, or returns since when its container seems to be gone, ms; null: it does not, or was ended. */
  async #judge(attachment: Attachment): Promise<number | null> {
    const container = containerOf(this.#machine, attachment);
    if (container !== "ended" && container !== "learnt") return null;
    const nowMs = this.#clock.monotonicMs();
    const sinceMs = this.#gone.get(attachment.id) ?? nowMs;
    const waited = nowMs - sinceMs < this.#graceMs ? "no" : "long-enough";
    let pod: Facts["pod"] | undefined;
    const askPod = async () => {
      pod = (await this.#podState?.(attachment.pod)) ?? "none";
      return pod;
    };
    const row = await judgeAsking({ phase: "held", container, waited }, { pod: askPod });
    if (row?.verdict === "leave") {
      await this.#end(attachment, row.reason);
      return null;
    }
    // Of a namespace that nobody has seen, the end of its pod begins the grace, in which its container may still run.
    return container === "ended" || pod === "gone" ? sinceMs : null;
  }

  async #end(attachment: Attachment, reason: EndReason): Promise<void> {
    const { network, containerId, interface: name } = attachment;
    if (await this.#store.endAttachment(attachment, reason))
      this.#log.warn({ network, containerId, interface: name }, `${SAID[reason]} and no DEL came; ended`);
  }
}
