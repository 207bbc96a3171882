import { existsSync } from "node:fs";
import {
  type FirewallListener,
  type FirewallSets,
  firewallChange,
  firewallRestoreText,
  firewallSets,
  firewallText,
  natText,
} from "./firewall-text.ts";
import { mustRun, run } from "./run.ts";

/** There while the kernel takes bridged IPv4 through iptables. */
const BRIDGE_NF = "/proc/sys/net/bridge/bridge-nf-call-iptables";

/** The table of rules, and the one that keeps requests out of the host's NAT where that sees bridged traffic. */
export class Firewall {
  readonly #table: string;
  /** What the table has; null: not known. */
  #applied: FirewallSets | null = null;
  /** Whether the table for NAT was loaded; null: not known. */
  #nat: boolean | null = null;
  #natProblem: string | null = null;
  /** The work at hand and all that waits for it. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(table: string) {
    this.#table = table;
  }

  /** Why requests of guests behind a masquerading rule may get no answer; null: nothing is known to be wrong. */
  get natProblem(): string | null {
    return this.#natProblem;
  }

  /**
   * One transaction. `again`: the table as a whole, whatever is there. Resolves with "repaired" when somebody had taken it
   * away; throws when the kernel refuses it.
   */
  apply(listeners: readonly FirewallListener[], again: boolean): Promise<"applied" | "repaired"> {
    return this.#inTurn(() => this.#apply(firewallSets(listeners), again));
  }

  /** Makes the table again if there is none, in one step. Resolves with whether there was none. */
  restore(): Promise<boolean> {
    return this.#inTurn(async () => {
      if (this.#applied === null || this.#applied.listeners.length === 0) return false;
      // An own transaction that replaced the table is heard of as well; then this is refused.
      const restored = await run("nft", ["-f", "-"], firewallRestoreText(this.#table, this.#applied));
      if (restored.code !== 0) return false;
      this.#nat = null;
      await this.#exempt(true);
      return true;
    });
  }

  /** Is the table there that was put there? */
  async isThere(): Promise<boolean> {
    const wanted = this.#applied !== null && this.#applied.listeners.length > 0;
    return !wanted || (await run("nft", ["-t", "list", "table", "bridge", this.#table])).code === 0;
  }

  async #apply(sets: FirewallSets, again: boolean): Promise<"applied" | "repaired"> {
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
    if (again) this.#nat = null;
    await this.#exempt(sets.listeners.length > 0);
    return gone ? "repaired" : "applied";
  }

  /** The rules work without it: only guests behind a masquerading rule do not. */
  async #exempt(wanted: boolean): Promise<void> {
    const bridged = existsSync(BRIDGE_NF);
    if (!bridged && wanted) {
      this.#natProblem = null;
      return;
    }
    if (this.#nat === wanted) return;
    const loaded = await run("nft", ["-f", "-"], natText(this.#table, wanted));
    this.#nat = loaded.code === 0 ? wanted : null;
    this.#natProblem = loaded.code === 0 || !wanted ? null : loaded.stderr.trim().slice(0, 300);
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(work);
    this.#turn = turn.catch(() => {});
    return turn;
  }
}
