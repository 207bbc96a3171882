import type { Action, ActionKinds } from "../world.ts";
import { Chance } from "./chance.ts";

/** The world is left in peace. The engine itself does it. */
export const PEACE = "peace";
/** Between two times of peace. */
const ACTIONS_BETWEEN_PEACE = 250;
/** Half of the actions come in the middle of the one before. */
const SOON_MS_MAX = 60;
/** The others leave it some time, this much on average. */
const LATER_MS_MEAN = 1_500;
/** After so many actions what has come least is given a turn, once in so many. */
const LEAST = { after: 500, every: 3 } as const;

/** Who does what when. */
export interface Plan {
  /** null: there is no more. */
  next(): Action | null;
}

/**
 * Goes on for ever; the seed and the names and weights of the kinds decide. A long history leaves out nothing that has
 * any weight: chance alone would leave one of two hundred rare kinds out of nearly every one.
 */
export class GeneratedPlan implements Plan {
  readonly #chance: Chance;
  readonly #kinds: readonly { readonly kind: string; readonly upTo: number }[];
  readonly #total: number;
  /** How often each has come, of those that come at all. */
  readonly #came = new Map<string, number>();
  #count = 0;

  constructor(seed: number, kinds: ActionKinds) {
    this.#chance = new Chance(`${seed} plan`);
    let total = 0;
    this.#kinds = Object.keys(kinds)
      .sort()
      .map((kind) => {
        total += kinds[kind]?.weight ?? 0;
        if (kinds[kind]?.weight || kinds[kind]?.isInTurn) this.#came.set(kind, 0);
        return { kind, upTo: total };
      });
    this.#total = total;
  }

  next(): Action {
    this.#count += 1;
    const isSoon = this.#chance.happens(0.5);
    const late = this.#chance.number();
    const afterMs = Math.floor(isSoon ? late * SOON_MS_MAX : -Math.log(1 - late) * LATER_MS_MEAN);
    const drawn = this.#chance.number() * this.#total;
    const seed = this.#chance.below(2 ** 32);
    const kind = this.#kindOf(drawn);
    const came = this.#came.get(kind);
    if (came !== undefined) this.#came.set(kind, came + 1);
    return { kind, afterMs, seed };
  }

  #kindOf(drawn: number): string {
    if (this.#count % ACTIONS_BETWEEN_PEACE === 0) return PEACE;
    if (this.#count > LEAST.after && this.#count % LEAST.every === 0) return this.#rarest();
    return this.#kinds.find(({ upTo }) => drawn < upTo)?.kind ?? PEACE;
  }

  #rarest(): string {
    const least = Math.min(...this.#came.values());
    const rarest = [...this.#came].flatMap(([kind, times]) => (times === least ? [kind] : []));
    return this.#chance.of(rarest) ?? PEACE;
  }
}

/** What was kept of an earlier history. */
export class KeptPlan implements Plan {
  readonly #actions: readonly Action[];
  #index = 0;

  constructor(actions: readonly Action[]) {
    this.#actions = actions;
  }

  next(): Action | null {
    return this.#actions[this.#index++] ?? null;
  }
}
