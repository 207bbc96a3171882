import {
  type FirewallListener,
  type FirewallSets,
  firewallChange,
  firewallSets,
  firewallText,
} from "./firewall-text.ts";
import { mustRun, run } from "./run.ts";

/** The one table of rules. */
export class Firewall {
  readonly #table: string;
  /** What the table has; null: not known. */
  #applied: FirewallSets | null = null;

  constructor(table: string) {
    this.#table = table;
  }

  /**
   * One transaction. `again`: the table as a whole, whatever is there. Resolves with "repaired" when somebody had taken it
   * away; throws when the kernel refuses it.
   */
  async apply(listeners: readonly FirewallListener[], again: boolean): Promise<"applied" | "repaired"> {
    const sets = firewallSets(listeners);
    const before = this.#applied;
    const known = before !== null && before.listeners.length > 0 && sets.listeners.length > 0;
    if (known && !again) {
      const change = firewallChange(this.#table, before, sets);
      const changed = change === "" || (await run("nft", ["-f", "-"], change)).code === 0;
      this.#applied = changed ? sets : null;
      if (changed) return "applied";
    }
    const gone = known && !(await this.isThere());
    await mustRun("nft", ["-f", "-"], firewallText(this.#table, sets));
    this.#applied = sets;
    return gone ? "repaired" : "applied";
  }

  /** Is the table there that was put there? */
  async isThere(): Promise<boolean> {
    const wanted = this.#applied !== null && this.#applied.listeners.length > 0;
    return !wanted || (await run("nft", ["-t", "list", "table", "bridge", this.#table])).code === 0;
  }
}
