import type { IdentityView } from "../../identity/wire.ts";
import type { TokenOptions } from "../documents/imds-tokens.ts";

type Rule = TokenOptions["tokens"];

/**
 * Whether networks require tokens, according to their definitions. A definition may be deleted, or broken by an edit, a
 * moment before the listener is removed: until then its last valid content counts, so that a network keeps requiring
 * tokens.
 */
export class TokenRules {
  readonly #last = new Map<string, Rule>();

  of({ interfaces }: IdentityView, network: string): Rule {
    const defined = interfaces.find((one) => one.network === network)?.metadata?.tokens;
    if (defined === undefined) return this.#last.get(network) ?? "optional";
    this.#last.set(network, defined);
    return defined;
  }
}
