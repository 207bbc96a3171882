import { PeriodicTask } from "../../../platform/periodic-task.ts";
import type { Clock } from "../../../platform/time.ts";
import { type BridgePlan, bridgeFlows, changeText, type Flows, flowsText, repairText } from "./flow-text.ts";
import { FlowWatch } from "./flow-watch.ts";
import { Ofctl } from "./ofctl.ts";

/** Pause after news before flows are counted, ms: a bundle of our own makes many. */
const SETTLE_MS = 30;

/** The flows of ours on one bridge. Calls come one after the other. */
export class BridgeFlows {
  readonly #cookie: string;
  readonly #ofctl: Ofctl;
  readonly #lost: () => void;
  readonly #watch: FlowWatch;
  /** null: nothing was written yet. */
  #written: Flows | null = null;
  /** Must what was written be compared before the next change? */
  #isSuspect = false;
  #isWriting = false;
  /** Has `write` changed anything since news were last looked into? */
  #hasWritten = false;
  #modified = false;
  readonly #checking: PeriodicTask;
  #closed = false;

  /** `lost`: somebody else has changed the flows, or they are gone with the switch. */
  constructor(bridge: { readonly socket: string; readonly cookie: string }, clock: Clock, lost: () => void) {
    this.#cookie = bridge.cookie;
    this.#ofctl = new Ofctl(bridge.socket, bridge.cookie);
    this.#lost = lost;
    this.#checking = new PeriodicTask({ clock, settleMs: SETTLE_MS, work: () => this.#check() });
    this.#checking.start();
    this.#watch = new FlowWatch(bridge, clock, {
      news: (modified) => this.#hear(modified),
      lost: () => this.#forget(),
      found: () => this.#forget(),
    });
  }

  /** Follows what others do to them. */
  watch(): void {
    this.#watch.start();
  }

  close(): void {
    this.#closed = true;
    void this.#checking.stop();
    this.#watch.stop();
  }

  /** Names of the bridge's ports and their numbers, as the switch has them. */
  ports(): Promise<ReadonlyMap<string, number>> {
    return this.#ofctl.ports();
  }

  /**
   * Brings the flows to the plan, in one transaction; `again`: compares with what the switch has. Resolves with whether
   * somebody else had changed what was written.
   */
  async write(plan: BridgePlan, again: boolean): Promise<boolean> {
    // Also while it compares: what somebody changes behind its back then is looked into afterwards.
    this.#isWriting = true;
    try {
      return await this.#write(plan, again);
    } finally {
      this.#isWriting = false;
    }
  }

  async #write(plan: BridgePlan, again: boolean): Promise<boolean> {
    const flows = bridgeFlows(plan);
    const written = this.#written;
    const compares = again || this.#isSuspect || written === null;
    const change = compares
      ? repairText(this.#cookie, await this.#ofctl.diff(flowsText(this.#cookie, flows)))
      : changeText(this.#cookie, { from: written, to: flows });
    this.#isSuspect = true;
    if (change !== "") {
      this.#hasWritten = true;
      await this.#ofctl.change(change);
    }
    this.#written = flows;
    this.#isSuspect = false;
    return compares && written !== null && change !== "" && sameFlows(flows, written);
  }

  /** Are there any, also of an earlier process? */
  async areThere(): Promise<boolean> {
    return (await this.#ofctl.count()) > 0;
  }

  /** Takes them away, also those of an earlier process. */
  async clear(): Promise<void> {
    this.#written = null;
    await this.#ofctl.clear();
  }

  #forget(): void {
    if (this.#closed) return;
    this.#isSuspect = true;
    this.#lost();
  }

  #hear(modified: boolean): void {
    this.#modified ||= modified;
    this.#checking.trigger();
  }

  /**
   * Our own changes make news, too: only what is not as written counts. Without any, whatever is told of is compared.
   */
  async #check(): Promise<void> {
    if (this.#isWriting) return this.#hear(false);
    const compares = this.#modified || !this.#hasWritten;
    this.#modified = false;
    this.#hasWritten = false;
    const written = this.#written;
    if (written === null || this.#isSuspect) return;
    try {
      const isSame =
        (await this.#ofctl.count()) === written.size &&
        !(compares && repairText(this.#cookie, await this.#ofctl.diff(flowsText(this.#cookie, written))) !== "");
      if (isSame) return;
      if (this.#isWriting || written !== this.#written) this.#hear(true);
      else this.#lost();
    } catch {
      // Its end is heard by the watch.
    }
  }
}

function sameFlows(one: Flows, other: Flows): boolean {
  return one.size === other.size && [...one].every(([match, actions]) => other.get(match) === actions);
}
