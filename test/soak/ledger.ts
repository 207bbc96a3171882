/** An interface of a living container, as its ADD was answered. */
export interface Answered {
  readonly network: string;
  /** With their prefix lengths. */
  readonly ips: readonly string[];
  /** UID of the claim or the pod whose addresses they are. */
  readonly owner: string;
  /** Whether that is a claim, which keeps them without a container. */
  readonly isClaim: boolean;
  readonly node: string;
  readonly container: string;
  readonly ifname: string;
}

/** What a run was answered, and what must be true of it at every moment. Knows nothing of how addresses are given. */
export class Ledger {
  /** What was wrong, in the order in which it was seen. */
  readonly violations: string[] = [];
  readonly #living = new Map<string, Answered>();
  /** By claim and network. */
  readonly #claims = new Map<string, Pick<Answered, "network" | "ips" | "owner">>();

  /** Every interface of a living container. */
  get living(): readonly Answered[] {
    return [...this.#living.values()];
  }

  /** What claims hold, with or without a container. */
  get claims(): readonly Pick<Answered, "network" | "ips" | "owner">[] {
    return [...this.#claims.values()];
  }

  /** An ADD was answered: nobody else may have the addresses, and a claim has the same as before. */
  answered(one: Answered): void {
    const what = `${one.container} of ${one.owner} on ${one.node} was answered ${one.ips.join(", ")} of ${one.network}`;
    if (one.ips.length === 0) this.violate(`${what}: no address`);
    for (const other of [...this.#living.values(), ...this.#claims.values()]) {
      if (other.network !== one.network || other.owner === one.owner) continue;
      const shared = one.ips.filter((ip) => other.ips.includes(ip));
      if (shared.length > 0) this.violate(`${what}: ${shared.join(", ")} belong to ${other.owner}`);
    }
    if (one.isClaim) this.#remember(one, what);
    this.#living.set(keyOf(one.container, one.ifname), one);
  }

  /** Its container is about to end: its DEL may be sent. */
  ending(container: string, ifname: string): void {
    this.#living.delete(keyOf(container, ifname));
  }

  /** The claim is about to be let go. */
  released(owner: string): void {
    for (const [key, claim] of this.#claims) if (claim.owner === owner) this.#claims.delete(key);
  }

  violate(text: string): void {
    this.violations.push(text);
    console.log(`VIOLATION at ${new Date().toISOString()}: ${text}`);
  }

  #remember(one: Answered, what: string): void {
    const key = `${one.owner} ${one.network}`;
    const before = this.#claims.get(key);
    if (before === undefined) this.#claims.set(key, one);
    else if (before.ips.join() !== one.ips.join())
      this.violate(`${what}: the claim had ${before.ips.join(", ")} before`);
  }
}

function keyOf(container: string, ifname: string): string {
  return `${container}/${ifname}`;
}
