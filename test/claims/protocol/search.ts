import { setImmediate } from "node:timers/promises";
import { addStep } from "./add.ts";
import { aroundSteps } from "./around.ts";
import { controllerSteps } from "./controller.ts";
import { firstState, NOWHERE, type State, type Step, vmAt, vmOf } from "./model.ts";
import { whatAddMisses, whatRestMisses } from "./outlook.ts";
import { check } from "./properties.ts";
import type { Rules } from "./rules.ts";
import { keyOf } from "./state-key.ts";
import { sweepSteps } from "./sweep.ts";
import type { Violated, Violation } from "./violation.ts";

/** More than the largest world has. */
const STATES_MAX = 500_000;

export interface Searched {
  readonly states: number;
  /** Steps of the longest of all shortest ways. */
  readonly depth: number;
  readonly violation: Violation | null;
}

/** Walks all states of a world breadth first; ends at the first violation, to which no way is shorter. */
export async function search(rules: Rules, key = keyOf): Promise<Searched> {
  const tree = new Tree(firstState(rules), key);
  for (let depth = 0; tree.level.length > 0; depth += 1) {
    // Whoever runs the tests hears of this process meanwhile.
    await setImmediate();
    const found = tree.grow(rules);
    if (found !== null) return { states: tree.size, depth: depth + 1, violation: found };
    if (tree.level.length === 0) return { states: tree.size, depth, violation: null };
  }
  throw new Error("a search begins with a state");
}

interface Node {
  readonly state: State;
  readonly id: number;
}

/** States by the shortest way to them. Texts of steps are not kept: a trace is walked again. */
class Tree {
  readonly #keyOf: (state: State) => string;
  readonly #seen: Set<string>;
  readonly #first: State;
  /** By number of the state: the one before it, and which of its steps led here. */
  readonly #parents = [-1];
  readonly #choices = [-1];
  level: Node[];

  constructor(first: State, key: (state: State) => string) {
    this.#keyOf = key;
    this.#first = first;
    this.#seen = new Set([key(first)]);
    this.level = [{ state: first, id: 0 }];
  }

  get size(): number {
    return this.#seen.size;
  }

  /** The next level; a violation that is met on the way ends it. */
  grow(rules: Rules): Violation | null {
    const next: Node[] = [];
    for (const { state, id } of this.level) {
      const missed = outlookOf(state, rules);
      if (missed !== null) return { ...missed.violated, trace: [...this.#walk(rules, id), missed.way] };
      for (const [choice, { text, to }] of stepsOf(state, rules).entries()) {
        const checked = check(state, to, rules);
        if (checked.violated !== null) return { ...checked.violated, trace: [...this.#walk(rules, id), text] };
        const key = this.#keyOf(checked.state);
        if (this.#seen.has(key)) continue;
        this.#seen.add(key);
        this.#choices.push(choice);
        next.push({ state: checked.state, id: this.#parents.push(id) - 1 });
      }
      if (this.size > STATES_MAX) throw new Error(`a world has more than ${STATES_MAX} states`);
    }
    this.level = next;
    return null;
  }

  #walk(rules: Rules, to: number): string[] {
    const choices: number[] = [];
    for (let id = to; id > 0; id = this.#parents[id] as number) choices.unshift(this.#choices[id] as number);
    let state = this.#first;
    return choices.map((choice) => {
      const step = stepsOf(state, rules)[choice] as Step;
      state = check(state, step.to, rules).state;
      return step.text;
    });
  }
}

/** All that may happen next. */
function stepsOf(state: State, rules: Rules): Step[] {
  const steps = aroundSteps(state, rules);
  for (const [pod, { phase, network }] of state.pods.entries())
    if (phase === "pending" && network !== NOWHERE) steps.push(addStep(state, rules, pod));
  if (rules.world.hasController) steps.push(...controllerSteps(state, rules), ...sweepSteps(state, rules));
  return steps;
}

interface Missed {
  readonly violated: Violated;
  /** What happens from here. */
  readonly way: string;
}

/** What would be wrong if from here one ADD ran alone, or only the controller. */
function outlookOf(state: State, rules: Rules): Missed | null {
  const { world } = rules;
  if (world.isPeaceful)
    for (const [pod, { phase, network, add }] of state.pods.entries()) {
      if (phase !== "pending" || add.next !== "read" || vmAt(state, vmOf(pod)).network !== network) continue;
      const violated = whatAddMisses(state, rules, pod);
      if (violated !== null) return { violated, way: `ADD ${pod} runs alone` };
    }
  const isQuiet = state.pods.every(({ phase }) => phase !== "pending" && phase !== "ending");
  if (!world.hasController || !isQuiet) return null;
  if (!world.isWithoutVm && !state.claims.every(({ isOwned }) => isOwned)) return null;
  const violated = whatRestMisses(state, rules);
  return violated === null ? null : { violated, way: "nothing else happens" };
}
