import type { StoreStatus } from "./node-store.ts";

/** Why requests cannot be served now. */
export interface Unready {
  readonly reason: string;
  /**
   * What becomes of it: it `passes` by itself, as after every start; it `stays` until somebody acts; or the process
   * `ends`, and the next one serves what is asked.
   */
  readonly outlook: "passes" | "stays" | "ends";
}

/** The first need of who has no address yet; an ADD is served without it. */
export const CONTACT = "contact";

/** Something that has to be there before requests are served. */
export interface Need {
  readonly name: string;
  /** A reason alone passes by itself; null: it is there. */
  readonly whyNot: () => Unready | string | null;
}

/** What has to be there before requests are served, in the order in which it comes at a start. */
export class Readiness {
  readonly #needs: readonly Need[];
  readonly #watchers: (() => void)[] = [];
  readonly #waiting: (() => void)[] = [];

  constructor(needs: readonly Need[]) {
    this.#needs = needs;
  }

  /** Why the first one that is missing is, of those before the one of this name, or of all; null: all are there. */
  whyNot(before?: string): Unready | null {
    for (const { name, whyNot } of this.#needs) {
      if (name === before) break;
      const why = whyNot();
      if (why !== null) return typeof why === "string" ? { reason: why, outlook: "passes" } : why;
    }
    return null;
  }

  /** One of them may have another answer now. */
  changed(): void {
    for (const changed of [...this.#watchers, ...this.#waiting.splice(0)]) changed();
  }

  /** Calls `changed` at each change; it must only take note. */
  watch(changed: () => void): void {
    this.#watchers.push(changed);
  }

  /** Resolves when the condition holds, which may change with them; false: the signal came first. */
  async until(condition: () => boolean, signal: AbortSignal): Promise<boolean> {
    while (!condition() && !signal.aborted)
      await new Promise<void>((resolve) => {
        const goOn = () => {
          signal.removeEventListener("abort", goOn);
          resolve();
        };
        this.#waiting.push(goOn);
        signal.addEventListener("abort", goOn);
      });
    return !signal.aborted;
  }
}

/** Why the state serves nothing; null: it does. */
export function whyAway(status: StoreStatus): Unready | null {
  switch (status.kind) {
    case "ready":
      return null;
    case "opening":
      return { reason: "its state is opening", outlook: "passes" };
    case "closed":
      return { reason: "its state is closed", outlook: "ends" };
    // A full disk, or one that fails: nobody knows for how long.
    case "faulted":
      return { reason: status.reason, outlook: status.isReopening ? "passes" : "stays" };
    case "rebuild-required":
      return { reason: status.reason, outlook: "stays" };
  }
}
