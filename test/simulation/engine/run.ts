import { sleep, type Timer } from "../../../platform/time.ts";
import { settled, VirtualTime } from "../../harness/virtual-time.ts";
import { KeptCounts } from "../story/counts.ts";
import { KeptStory } from "../story/story.ts";
import type { Action, PeaceWork, World } from "../world.ts";
import { Chance, hashOf } from "./chance.ts";
import { KeyedFaults } from "./faults.ts";
import { Mishaps } from "./mishaps.ts";
import type { Parts } from "./parts.ts";
import { GeneratedPlan, KeptPlan, PEACE, type Plan } from "./plan.ts";
import { Violation, violationOf } from "./violation.ts";

/** Longer than the longest grace of what is simulated, so that whatever waits for one has had it. */
const PEACE_MS = 100_000;
/** Longer than nodes take to give back by themselves what containers have left, ms. */
const WITHOUT_CONTROLLERS_MS = 160_000;
/** How long a history goes on after the last action that was kept, unless it says so. */
const TAIL_MS = 30_000;
const LINES_KEPT = 400;

export interface RunOptions {
  readonly seed: number;
  readonly nodes: number;
  /** At most so many; then peace, and the end. */
  readonly steps: number;
  /** null: generated. */
  readonly actions?: readonly Action[] | null;
  /** null: as the seed says. */
  readonly faults?: readonly string[] | null;
  /** After the last of `actions`. */
  readonly tailMs?: number;
  readonly onLine?: (line: string) => void;
  /** Asked now and then; true ends the run as if it had come to its end. */
  readonly isEnough?: (steps: number) => boolean;
}

/** What has become of it. */
export interface Outcome {
  readonly violation: Violation | null;
  readonly steps: number;
  readonly virtualMs: number;
  /** Of the whole history. */
  readonly digest: string;
  readonly counts: KeptCounts;
  /** Those that were done, and how long ago the last of them was. */
  readonly actions: readonly Action[];
  readonly tailMs: number;
  /** Keys of what went wrong. */
  readonly faults: readonly string[];
  readonly lastLines: readonly string[];
}

/** One history, from the beginning. */
export async function run(parts: Parts, options: RunOptions): Promise<Outcome> {
  const one = new Run(parts, options);
  try {
    await one.begin();
    return await one.outcome();
  } finally {
    one.clear();
  }
}

/** How often it asks whether it is enough, steps. */
const ENOUGH_EVERY = 256;

class Run {
  readonly #parts: Parts;
  readonly #options: RunOptions;
  readonly #time: VirtualTime;
  readonly #story: KeptStory;
  readonly #counts = new KeptCounts();
  readonly #faults: KeyedFaults;
  readonly #world: { -readonly [Key in keyof World]: World[Key] };
  #plan: Plan;
  #next: Timer | null = null;
  #tailMs: number;
  readonly #mishaps = new Mishaps((thrown) => this.#fail(thrown, "nobody handles it"));
  readonly #atPeace: PeaceWork[] = [];
  readonly #atEnd: (() => void)[] = [];
  readonly #done: Action[] = [];
  #lastActionMs = 0;
  #steps = 0;
  #isOver = false;
  #isPeaceful = false;
  #violation: Violation | null = null;

  constructor(parts: Parts, options: RunOptions) {
    const { seed } = options;
    this.#parts = parts;
    this.#options = options;
    this.#time = new VirtualTime(seed);
    const nowMs = () => this.#time.nowMs;
    const { onLine } = options;
    this.#story = new KeptStory({ nowMs, keep: LINES_KEPT, onLine, isDetailed: onLine !== undefined });
    this.#faults = new KeyedFaults(seed, { only: options.faults ? new Set(options.faults) : null });
    this.#plan = options.actions ? new KeptPlan(options.actions) : new GeneratedPlan(seed, parts.kinds);
    this.#tailMs = options.tailMs ?? TAIL_MS;
    this.#world = this.#emptyWorld();
  }

  /** The parts, and what is there in the beginning. */
  async begin(): Promise<void> {
    const { seed, nodes } = this.#options;
    const { makeCluster, makeOracle, makeMachines, makeControllers, setUp } = this.#parts;
    const world = this.#world;
    world.faults.isOn = false;
    world.cluster = await makeCluster(world);
    world.oracle = await makeOracle(world);
    world.machines = await makeMachines(world, nodes);
    world.controllers = await makeControllers(world);
    await this.#during(setUp(world, new Chance(`${seed} setup`)), "setting up");
    for (const controller of world.controllers) if (!controller.isRunning) controller.start();
    world.faults.isOn = true;
  }

  async outcome(): Promise<Outcome> {
    const { steps } = this.#options;
    this.#schedule();
    await this.#stepUntil(() => this.#isOver || this.#steps >= steps || this.#isEnough());
    const isKept = this.#options.actions != null;
    if (!isKept && !this.#violation) await this.#endInPeace();
    return {
      violation: this.#violation,
      steps: this.#steps,
      virtualMs: this.#time.nowMs,
      digest: `${this.#story.digest}`,
      counts: this.#counts,
      actions: this.#done,
      tailMs: this.#time.nowMs - this.#lastActionMs,
      faults: this.#faults.happened,
      lastLines: this.#story.lines,
    };
  }

  /** Always once, whatever became of it. */
  clear(): void {
    this.#isOver = true;
    this.#mishaps.stop();
    for (const clear of this.#atEnd.reverse()) clear();
  }

  /** Parts are put in one by one: each sees those before it while it is made, and all of them afterwards. */
  #emptyWorld() {
    const base = {
      seed: this.#options.seed,
      time: this.#time,
      clock: this.#time.clock({ seed: hashOf(`${this.#options.seed} clock`) }),
      faults: this.#faults,
      story: this.#story,
      counts: this.#counts,
      onPeace: (work: PeaceWork) => void this.#atPeace.push(work),
      atEnd: (clear: () => void) => void this.#atEnd.push(clear),
    };
    return base as typeof base & World;
  }

  async #stepUntil(isDone: () => boolean): Promise<void> {
    while (this.#violation === null && !isDone()) {
      this.#steps += 1;
      try {
        const isMore = this.#time.step();
        await settled();
        this.#story.digest.addMoment(this.#time.nowMs);
        if (this.#violation === null) this.#world.oracle.afterStep();
        if (!isMore) return;
      } catch (thrown) {
        this.#fail(thrown, "in a step");
      }
    }
  }

  /** The next action, when its time has come. */
  #schedule(): void {
    if (this.#isOver) return;
    const action = this.#plan.next();
    const [afterMs, begin] = action ? [action.afterMs, () => this.#begin(action)] : [this.#tailMs, () => this.#end()];
    const waitMs = this.#lastActionMs + afterMs - this.#time.nowMs;
    if (action === null && waitMs <= 0) this.#end();
    else this.#next = this.#world.clock.timer(waitMs, begin);
  }

  #end(): void {
    this.#isOver = true;
  }

  #begin(action: Action): void {
    if (this.#isOver || this.#violation) return;
    this.#act(action)
      .catch((thrown) => this.#fail(thrown, action.kind))
      .finally(() => action.kind === PEACE && this.#schedule());
    if (action.kind !== PEACE) this.#schedule();
  }

  async #act(action: Action): Promise<void> {
    this.#done.push(action);
    this.#lastActionMs = this.#time.nowMs;
    this.#counts.add(`action.${action.kind}`);
    if (action.kind === PEACE) return this.#peace();
    await this.#parts.kinds[action.kind]?.run(this.#world, new Chance(action.seed));
  }

  /** Peace is the last action. */
  async #endInPeace(): Promise<void> {
    await this.#stepUntil(() => !this.#isPeaceful);
    this.#next?.cancel();
    const afterMs = Math.ceil(this.#time.nowMs - this.#lastActionMs);
    this.#plan = new KeptPlan([{ kind: PEACE, afterMs, seed: 0 }]);
    this.#tailMs = 0;
    this.#schedule();
    await this.#stepUntil(() => this.#isOver);
  }

  /** Lets time pass until the work is done. */
  async #during(work: Promise<void>, what: string): Promise<void> {
    let isDone = false;
    work
      .catch((thrown) => this.#fail(thrown, what))
      .finally(() => {
        isDone = true;
      });
    await settled();
    await this.#stepUntil(() => isDone);
  }

  /** Faults stop, everything is healed, every grace passes, and what then must be true is looked at. */
  async #peace(): Promise<void> {
    const { faults, cluster, machines, controllers, clock, oracle, story } = this.#world;
    this.#isPeaceful = true;
    faults.isOn = false;
    story.tell("the world", "is left in peace");
    cluster.heal();
    for (const { heal } of this.#atPeace) await heal?.();
    for (const machine of machines) machine.heal();
    if (controllers.some(({ isAbsent }) => isAbsent)) {
      await sleep(clock, WITHOUT_CONTROLLERS_MS);
      oracle.withoutControllers();
    }
    for (const controller of controllers) {
      controller.isAbsent = false;
      if (!controller.isRunning) controller.start();
    }
    await sleep(clock, PEACE_MS);
    for (const { ask } of this.#atPeace) await ask?.();
    await oracle.atRest();
    for (const { check } of this.#atPeace) await check?.();
    const [defect] = cluster.defects;
    if (defect !== undefined) throw new Violation("defect", defect);
    story.tell("the world", "goes on");
    faults.isOn = true;
    this.#isPeaceful = false;
    this.#lastActionMs = this.#time.nowMs;
  }

  #fail(thrown: unknown, where: string): void {
    if (this.#isOver && this.#violation) return;
    this.#violation ??= violationOf(thrown, where);
  }

  #isEnough(): boolean {
    return this.#steps % ENOUGH_EVERY === 0 && (this.#options.isEnough?.(this.#steps) ?? false);
  }
}
