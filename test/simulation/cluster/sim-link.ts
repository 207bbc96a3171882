import type { Clock } from "../../../platform/time.ts";
import type { Fate, Link } from "../../harness/kube-fake/client/link.ts";
import type { KubeObject } from "../../harness/kube-fake/objects.ts";
import type { AttemptOutcome } from "../../harness/kube-fake/port.ts";
import type { ServerRequest } from "../../harness/kube-fake/requests.ts";
import type { FollowedKind } from "../world.ts";
import type { Bill } from "./bill.ts";
import type { ClusterParts } from "./parts.ts";
import { TROUBLE_PROBABILITY, troubleOf, type Verb } from "./troubles.ts";

/** Which way of a link is broken. */
export type Broken = "both" | "requests" | "answers";

const PODS_PATH = "/api/v1/pods";
/** Each way of a message takes so long where nothing is wrong, ms: from, to. */
const WAY_MS = [1, 12] as const;
/** An event of a watch takes so long after the one before it, ms. */
const EVENT_MS_MAX = 4;
const TOO_MANY = 429;
/** Of a link that is bad for a while. */
const LOSSY = 0.4;
/** It is late with this probability, by up to so much, ms. */
const LATE_EVENT = { probability: 0.004, msMax: 6_000 } as const;
/** A watch breaks off at an event with this probability. */
const EVENT_CUTS = 0.002;

interface SimLinkOptions {
  readonly parts: ClusterParts;
  readonly name: string;
  /** What the API server does to whoever has reached it. */
  readonly reached: () => Fate | undefined;
  /** How much longer everything takes now, ms. */
  readonly slowMs: () => number;
  /** Who counts what it asks; null: nobody. */
  readonly bill: Bill | null;
}

/** The way between one process and the API server: how long it takes, and what goes wrong on it. */
export class SimLink implements Link {
  readonly name: string;
  readonly clock: Clock;
  /** Every message of it arrives until then, ms of the world. */
  calmUntilMs = 0;
  /** When it asked for all of a kind last, ms of the world; absent: never. */
  readonly listedMs: Partial<Record<FollowedKind, number>> = {};
  /** A good part of its messages has some trouble until then, ms of the world. */
  lossyUntilMs = 0;
  /** Called for each request that its process sends. */
  sent: (request: ServerRequest) => void = () => {};
  /** The connections of its watches end. */
  cutWatches = () => {};
  /** They stay open, and nothing comes from them any more. */
  silenceWatches = () => {};
  readonly #parts: ClusterParts;
  readonly #options: SimLinkOptions;
  #messages = 0;
  #events = 0;
  #isCut = false;
  #broken: Broken | null = null;
  #brokenUntilMs = 0;

  constructor(options: SimLinkOptions) {
    this.#options = options;
    this.#parts = options.parts;
    this.name = options.name;
    this.clock = options.parts.clock;
  }

  /** Nothing passes any more: its process is gone. */
  cut(): void {
    this.#isCut = true;
  }

  get isCut(): boolean {
    return this.#isCut;
  }

  /** Nothing passes that way for so long, ms. */
  break(which: Broken, ms: number): void {
    this.#broken = which;
    this.#brokenUntilMs = this.clock.monotonicMs() + ms;
  }

  mend(): void {
    this.#broken = null;
    this.lossyUntilMs = 0;
  }

  readonly fate = (request: ServerRequest, verb: Verb): Fate => {
    const { method, path } = request;
    this.#messages += 1;
    this.sent(request);
    this.#options.bill?.sent(this.name, request, verb);
    if (verb === "list" && path === PODS_PATH) this.listedMs.pods = this.clock.monotonicMs();
    if (verb === "list" && path.endsWith("/clusters")) this.listedMs.clusters = this.clock.monotonicMs();
    if (this.#isCut) return { hangs: true };
    const { faults, counts, story } = this.#parts;
    const key = `link ${this.name} ${verb} ${this.#messages}`;
    const [from, to] = WAY_MS;
    const share = faults.number(key);
    const slowMs = this.#options.slowMs();
    const requestMs = from + share * (to - from + slowMs);
    const usual = { requestMs, answerMs: from + (1 - share) * (to - from + slowMs) };
    if (!this.#hasTrouble(key)) return usual;
    const trouble = troubleOf(faults.number(`${key} what`), verb);
    if (trouble === null) return usual;
    counts.add(`api.${trouble.name}`);
    story.tell(this.name, `${method} ${path}: ${trouble.name}`);
    return { ...usual, ...trouble.fate(faults.number(`${key} much`)) };
  };

  readonly heard = (request: ServerRequest, verb: Verb, outcome: AttemptOutcome): void => {
    const { method, path } = request;
    const what = outcome.kind === "answered" ? outcome.status : outcome.problem;
    this.#parts.story.detail(this.name, () => `${verb === "send" ? method : verb} ${path}: ${what}`);
    if (outcome.kind === "answered" && outcome.status === TOO_MANY)
      this.#options.bill?.refused(this.name, request, verb, outcome.retryAfterMs);
  };

  readonly answered = (request: ServerRequest, verb: Verb, status: number, body: KubeObject): void =>
    this.#options.bill?.answered(this.name, request, verb, { status, body });

  readonly told = (request: ServerRequest, object: KubeObject): void =>
    this.#options.bill?.told(this.name, request, object);

  readonly reached = (_request: ServerRequest, verb: Verb): Fate | undefined => {
    if (this.#isCut) return verb === "watch" ? { hangs: true } : this.#ofTheDead();
    const broken = this.#brokenNow();
    if (broken === "both" || broken === "requests") return { hangs: true };
    if (broken === "answers") return verb === "watch" ? { hangs: true } : { unheard: true };
    return this.#options.reached();
  };

  readonly eventMs = (): number => {
    this.#events += 1;
    const { faults, counts } = this.#parts;
    const key = `link ${this.name} event ${this.#events}`;
    const share = faults.number(key);
    // What is sent over a broken link comes when it is mended.
    const heldMs = this.#brokenNow() === null ? 0 : this.#brokenUntilMs - this.clock.monotonicMs();
    if (this.#isCalm) return heldMs + share * EVENT_MS_MAX;
    if (faults.decide(`${key} cut`, EVENT_CUTS)) {
      counts.add("api.watch-cut");
      this.cutWatches();
    }
    if (!faults.decide(key, LATE_EVENT.probability)) return heldMs + share * EVENT_MS_MAX;
    counts.add("api.event-late");
    return heldMs + share * LATE_EVENT.msMax;
  };

  get #isCalm(): boolean {
    return this.clock.monotonicMs() < this.calmUntilMs;
  }

  #hasTrouble(key: string): boolean {
    const isLossy = this.clock.monotonicMs() < this.lossyUntilMs;
    return !this.#isCalm && this.#parts.faults.decide(key, isLossy ? LOSSY : TROUBLE_PROBABILITY);
  }

  /** A process that was killed may have sent it already. */
  #ofTheDead(): Fate {
    const share = this.#parts.faults.number(`link ${this.name} last ${this.#messages}`);
    return share < 0.5 ? { hangs: true } : { unheard: true };
  }

  #brokenNow(): Broken | null {
    if (this.#broken !== null && this.clock.monotonicMs() >= this.#brokenUntilMs) this.#broken = null;
    return this.#broken;
  }
}
