import type { Owner } from "../../../ipam/owner.ts";
import type { Clock } from "../../../platform/time.ts";
import type { AttachWant } from "../../allocations.ts";

export const STILL_UNDER_WAY = "an earlier request of the same container or owner is still waiting for it";

/** Lets one at a time through for each key, in order of arrival. */
export class KeyedMutex {
  readonly #clock: Clock;
  readonly #last = new Map<string, Promise<void>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The turn of one key, then that of another, null for none. null: not before the deadline. */
  async enterBoth(first: string, second: string | null, deadlineMs: number): Promise<(() => void) | null> {
    const leaveFirst = await this.enter(first, deadlineMs);
    if (leaveFirst === null || second === null) return leaveFirst;
    const leaveSecond = await this.enter(second, deadlineMs);
    if (leaveSecond === null) {
      leaveFirst();
      return null;
    }
    return () => {
      leaveSecond();
      leaveFirst();
    };
  }

  /**
   * Resolves with what must be called to let the next one in; null: no turn by `deadlineMs`, an instant of the clock.
   */
  async enter(key: string, deadlineMs: number): Promise<(() => void) | null> {
    const before = this.#last.get(key);
    let end: () => void = () => {};
    const mine = new Promise<void>((resolve) => {
      end = resolve;
    });
    const leave = () => {
      if (this.#last.get(key) === mine) this.#last.delete(key);
      end();
    };
    this.#last.set(key, mine);
    if (before === undefined || (await this.#hasEnded(before, deadlineMs))) return leave;
    // Whoever comes after this one still waits for the one before it.
    void before.then(leave);
    return null;
  }

  /** false: the time was up before. */
  #hasEnded(turn: Promise<void>, deadlineMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const leftMs = Math.max(0, deadlineMs - this.#clock.monotonicMs());
      const timer = this.#clock.timer(leftMs, () => resolve(false));
      void turn.then(() => {
        timer.cancel();
        resolve(true);
      });
    });
  }
}

/** Whose turn giving or taking addresses needs. Before it is read, a claim is known by its name alone. */
export function ownerKey(owner: Pick<Owner, "kind" | "namespace" | "name" | "uid" | "interface">): string {
  return owner.kind === "claim"
    ? `claim ${owner.namespace}/${owner.name}`
    : `${owner.kind} ${owner.uid} ${owner.interface}`;
}

/** The key of an ADD before its decision; null: a container outside of Kubernetes, which has a key of its own. */
export function attachKey({ claim, pod, interface: interfaceName }: AttachWant): string | null {
  if (claim !== null) return ownerKey({ kind: "claim", ...claim, uid: "", interface: "" });
  return pod && ownerKey({ kind: "pod", ...pod, interface: interfaceName });
}
