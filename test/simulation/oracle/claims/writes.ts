import type { ClaimWrite } from "../../world.ts";
import { readAddress } from "../address.ts";
import type { Allocations, Held } from "../allocations.ts";
import { violation } from "../violation.ts";
import { LIST_MAX, listOf } from "./claims.ts";

/** What the product writes into claims: a node appends, and nobody lists what was never reserved for the claim. */
export class ClaimWrites {
  /** UID of a claim and an address that was held for it. */
  readonly #hadOnce = new Set<string>();

  constructor(allocations: Allocations) {
    for (const held of allocations.all()) this.note(held);
  }

  note(held: Held | null): void {
    if (held?.isBound && held.owner.kind === "IPAMClaim")
      this.#hadOnce.add(`${held.owner.uid} ${readAddress(held.address)?.key}`);
  }

  check({ by, before, after }: ClaimWrite): void {
    const [was, is] = [listOf(before), listOf(after)];
    if (was.join() === is.join() && before.spec?.network === after.spec?.network) return;
    const { namespace, name, uid } = after.metadata;
    const what = `a ${by} wrote ${is.join(", ") || "nothing"} into claim ${namespace}/${name}, which listed ${was.join(", ") || "nothing"}`;
    const appends = was.every((ip, index) => is[index] === ip) && is.length <= LIST_MAX;
    if (by === "node" && !appends) throw violation("rewritten-list", what);
    if (by === "node" && before.spec?.network !== after.spec?.network)
      throw violation("rewritten-list", `a node moved claim ${namespace}/${name} to ${after.spec?.network}`);
    const amiss = is.filter((ip) => !was.includes(ip) && !this.#hadOnce.has(`${uid} ${readAddress(ip)?.key}`));
    if (amiss.length > 0) throw violation("published-unheld", `${what}; ${amiss.join(", ")} was never held for it`);
  }
}
