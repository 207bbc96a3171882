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

/** Who does what when. */
export interface Plan {
  /** null: there is no more. */
  next(): Action | null;
}

/** Goes on for ever; the seed and the names and weights of the kinds decide. */
export class GeneratedPlan implements Plan {
  readonly #chance: Chance;
  readonly #kinds: readonly { readonly kind: string; readonly upTo: number }[];
  readonly #total: number;
  #count = 0;

  constructor(seed: number, kinds: ActionKinds) {
    this.#chance = new Chance(`${seed} plan`);
    let total = 0;
    this.#kinds = Object.keys(kinds)
      .sort()
      .map((kind) => {
        total += kinds[kind]?.weight ?? 0;
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
    const isPeace = this.#count % ACTIONS_BETWEEN_PEACE === 0;
    const kind = isPeace ? PEACE : (this.#kinds.find(({ upTo }) => drawn < upTo)?.kind ?? PEACE);
    return { kind, afterMs, seed };
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
