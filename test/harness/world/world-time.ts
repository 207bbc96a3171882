import type { Clock } from "../../../platform/time.ts";
import { VirtualTime } from "../virtual-time.ts";
import { TestTime } from "../wait.ts";
import { UnderWay } from "./under-way.ts";

/**
 * So many turns of the event loop in which nothing is under way: as long as a connection takes to end on both its
 * sides.
 */
const QUIET_TURNS = 4;
/** After so many turns it looks only now and then, ms, and leaves the processor to what it waits for. */
const TURNS_MAX = 50;
const LOOK_MS = 1;
/** Nothing outside takes so long, ms: a test that waits for it would never end. */
const STUCK_MS = 60_000;

/**
 * Of the chance in a world: how long messages take, which address is tried first. The same in every run unless it is
 * given.
 */
const SEED = Number(process.env.HOLDFAST_TEST_SEED ?? 1);

/** One for all times: they share the process. */
let underWay: UnderWay | null = null;

/**
 * The time of a world whose processes are objects in the test's own. It passes only while a test waits for something in
 * the world, and only from one timer to the next, when nobody can go on without it:
 *
 * - code that runs is done, with its promises, after a turn of the event loop;
 * - what is outside (the plugin binary, a command line, a request on a socket, a file that is read or written) is
 *   counted, see UnderWay, and time stands still until it has come back or its request is with a server in this
 *   process, which can only be waiting for time then;
 * - what is on neither side, the end of a connection for example, needs no answer but a few turns of the loop.
 *
 * So how long the machine takes for anything changes nothing: the same things happen at the same times of the world on
 * a busy machine. A process of its own that waits by itself, as a daemon does, has the machine's time and cannot be in
 * such a world.
 */
export class WorldTime extends TestTime {
  readonly #time = new VirtualTime(SEED);
  override readonly clock = clockOf(this.#time);
  #waiting = 0;
  #passing: Promise<void> | null = null;
  readonly #underWay: UnderWay;

  constructor() {
    super();
    underWay ??= new UnderWay();
    this.#underWay = underWay;
  }

  override async run<T>(work: Promise<T>): Promise<T> {
    this.#waiting += 1;
    this.#passing ??= this.#pass();
    try {
      return await Promise.race([work, this.#passing.then(() => work)]);
    } finally {
      this.#waiting -= 1;
    }
  }

  override get environment(): Readonly<Record<string, string>> {
    const aheadMs = Math.round(this.clock.wallMs() - Date.now());
    const shift = `const now = Date.now; Date.now = () => now() + ${aheadMs}`;
    return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(shift)}` };
  }

  async #pass(): Promise<void> {
    try {
      while (await this.#isQuiet()) if (!this.#time.step()) await look();
    } finally {
      this.#passing = null;
    }
  }

  /** Once nobody can go on without time. false: nobody waits any more. */
  async #isQuiet(): Promise<boolean> {
    let stuckMs = Number.POSITIVE_INFINITY;
    for (let [turns, quiet] = [0, 0]; quiet < QUIET_TURNS; turns += 1) {
      await turn();
      if (this.#waiting === 0) return false;
      quiet = this.#underWay.isAny ? 0 : quiet + 1;
      if (turns === TURNS_MAX) stuckMs = performance.now() + STUCK_MS;
      if (turns <= TURNS_MAX) continue;
      if (performance.now() > stuckMs) throw new Error(`time stands still: ${this.#underWay.describe()}`);
      await look();
    }
    return true;
  }
}

/** Its wall shows whole milliseconds, as that of a machine. */
function clockOf(time: VirtualTime): Clock {
  const clock = time.clock();
  const wallMs = clock.wallMs.bind(clock);
  return Object.assign(clock, { wallMs: () => Math.floor(wallMs()) });
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function look(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, LOOK_MS));
}
