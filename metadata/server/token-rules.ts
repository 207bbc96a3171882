import type { IdentityView } from "../../identity/wire.ts";
import type { TokenOptions } from "../documents/imds-tokens.ts";

type Rule = TokenOptions["tokens"];

/**
 * Whether networks require tokens, as their definitions have it. A definition may go, or be broken by an edit, a moment
 * before the listener does: until then what it said last still counts, for else a network that requires tokens would not.
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
