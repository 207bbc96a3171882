import type { Log } from "../platform/log.ts";
import type { Machine } from "../platform/machine.ts";
import type { NamespaceState, Namespaces } from "../platform/namespaces.ts";
import { type Clock, nextTurn } from "../platform/time.ts";
import type { EndReason } from "../store/allocations.ts";
import type { PodState } from "../store/cluster/parts/claim-access.ts";
import type { NodeAttachments } from "../store/node-store.ts";
import { type Attachment, isLearnt, type PodIdentity } from "../store/records.ts";

/** Attachments checked in one turn of the event loop. */
const PAGE = 200;

/** `alone`: nothing else tells that its containers have ended. */
type ReadPodState = (pod: PodIdentity | null, alone: boolean) => Promise<PodState>;

/**
 * Ends attachments whose DEL was lost: an attachment whose network namespace was seen and has been gone for the whole
 * grace period is ended as if by DEL; in Kubernetes only if its pod has ended too. A namespace that was never seen, or
 * cannot be checked, is left alone. Nothing is ended before the node has settled: on another machine under this name, with a copy
 * of this one's journal, no namespace is there, and what it ended would be released as soon as the Node object is deleted.
 * See docs/decisions/0005.
 */
export class Witness {
  readonly #store: Pick<NodeAttachments, "attachmentsAfter" | "endAttachment">;
  readonly #machine: Pick<Machine, "bootId">;
  readonly #namespaces: Pick<Namespaces, "stateOf">;
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
    /** "living" also where nobody can tell; null: nothing here tells of pods. */
    readonly podState: ReadPodState | null;
    /** Whether the journal's containers are certainly this machine's. */
    isSettled(): boolean;
  }) {
    this.#store = parts.store;
    this.#clock = parts.clock;
    this.#log = parts.log;
    this.#machine = parts.machine;
    this.#namespaces = parts.namespaces;
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
        if (!this.#isGone(attachment)) continue;
        if (this.#hasOnlyItsPod(attachment)) {
          // Its namespace is not known: that its pod is gone begins the grace in which its container may still run. When the pod says
          // that all containers have ended, none does, and its object may be gone when the grace is over.
          const state = await this.#stateOfPod(attachment);
          if (state === "completed") await this.#end(attachment);
          if (state !== "gone") continue;
        }
        const sinceMs = this.#gone.get(attachment.id) ?? this.#clock.monotonicMs();
        if (this.#clock.monotonicMs() - sinceMs < this.#graceMs) stillGone.set(attachment.id, sinceMs);
        else if (await this.#hasEnded(attachment))
          await this.#end(attachment, this.#hasOnlyItsPod(attachment) ? "pod gone" : "namespace gone");
        else stillGone.set(attachment.id, sinceMs);
      }
      const last = page[page.length - 1];
      if (!last) break;
      after = last.id;
      await nextTurn(this.#clock);
    }
    this.#gone = stillGone;
  }

  /** No namespace outlives its boot, so one that still exists is of this boot, whatever its stamp says. */
  #isGone(attachment: Attachment): boolean {
    const state = this.#stateOf(attachment);
    const isFormer = attachment.stamp.bootId !== this.#machine.bootId && state !== "alive";
    return this.#hasOnlyItsPod(attachment) || state === "gone" || isFormer;
  }

  /** Whether the only evidence is that its pod has ended for the whole grace. */
  #hasOnlyItsPod(attachment: Attachment): boolean {
    return attachment.pod !== null && this.#podState !== null && isLearnt(attachment);
  }

  #stateOf({ netns }: Attachment): NamespaceState {
    return this.#namespaces.stateOf(netns);
  }

  async #hasEnded(attachment: Attachment): Promise<boolean> {
    return (await this.#stateOfPod(attachment)) !== "living";
  }

  async #stateOfPod(attachment: Attachment): Promise<PodState> {
    return this.#podState === null ? "gone" : this.#podState(attachment.pod, this.#hasOnlyItsPod(attachment));
  }

  /** Of a pod that is gone, the containers may still run somewhere. */
  async #end(attachment: Attachment, reason: EndReason = "namespace gone"): Promise<void> {
    const { network, containerId, interface: name } = attachment;
    if (await this.#store.endAttachment(attachment, reason)) {
      this.#log.warn(
        { network, containerId, interface: name },
        "its network namespace is gone and no DEL came; ended",
      );
    }
  }
}
