import type { Fate, Link } from "../../../kube/fake/client/link.ts";
import type { ServerRequest } from "../../../kube/fake/requests.ts";
import type { Clock } from "../../../platform/time.ts";
import type { ClusterParts } from "./parts.ts";

type Verb = "send" | "list" | "watch";

/** Which way of a link is broken. */
export type Broken = "both" | "requests" | "answers";

/** What can become of a message, and how often of a thousand. */
interface Trouble {
  readonly name: string;
  readonly perMille: number;
  readonly verbs: readonly Verb[];
  fate(number: number): Fate;
}

const ALL: readonly Verb[] = ["send", "list", "watch"];
const ANSWERED: readonly Verb[] = ["send", "list"];
const SEND: readonly Verb[] = ["send"];

const TROUBLES: readonly Trouble[] = [
  { name: "lost-before", perMille: 8, verbs: ALL, fate: () => ({ lost: "before" }) },
  { name: "lost-after", perMille: 10, verbs: ANSWERED, fate: () => ({ lost: "after" }) },
  { name: "hangs", perMille: 2, verbs: ALL, fate: () => ({ hangs: true }) },
  { name: "unheard", perMille: 3, verbs: ANSWERED, fate: () => ({ unheard: true }) },
  { name: "twice", perMille: 6, verbs: SEND, fate: () => ({ twice: true }) },
  { name: "late-request", perMille: 6, verbs: ALL, fate: (number) => ({ requestMs: 500 + number * 14_000 }) },
  {
    name: "late-answer",
    perMille: 6,
    verbs: ANSWERED,
    fate: (number) => ({ answerMs: 500 + number * 14_000 }),
  },
  { name: "401", perMille: 1, verbs: ALL, fate: () => ({ status: 401 }) },
  {
    name: "429",
    perMille: 4,
    verbs: ALL,
    fate: (number) => ({ status: 429, retryAfterSeconds: Math.floor(number * 4) }),
  },
  { name: "500", perMille: 2, verbs: ALL, fate: () => ({ status: 500 }) },
  { name: "503", perMille: 2, verbs: ALL, fate: () => ({ status: 503 }) },
  { name: "504", perMille: 2, verbs: ANSWERED, fate: () => ({ status: 504 }) },
  { name: "410", perMille: 3, verbs: ["list", "watch"], fate: () => ({ status: 410 }) },
  {
    name: "list-cut",
    perMille: 10,
    verbs: ["list"],
    fate: (number) => ({ cutAfter: Math.floor(number * 20) }),
  },
];
const TROUBLE_PER_MILLE = TROUBLES.reduce((sum, { perMille }) => sum + perMille, 0);
/** Each way of a message takes so long where nothing is wrong, ms: from, to. */
const WAY_MS = [1, 12] as const;
/** An event of a watch is late with this probability, by up to so much, ms. */
const LATE_EVENT = { probability: 0.004, msMax: 6_000 } as const;

interface SimLinkOptions {
  readonly parts: ClusterParts;
  readonly name: string;
  /** What the API server does to whoever has reached it. */
  readonly reached: (request: ServerRequest, verb: Verb) => Fate | undefined;
}

/** The way between one process and the API server: how long it takes, and what goes wrong on it. */
export class SimLink implements Link {
  readonly name: string;
  readonly clock: Clock;
  readonly #parts: ClusterParts;
  readonly #reached: SimLinkOptions["reached"];
  #messages = 0;
  #events = 0;
  #isCut = false;
  #broken: Broken | null = null;
  #brokenUntilMs = 0;

  constructor({ parts, name, reached }: SimLinkOptions) {
    this.name = name;
    this.#parts = parts;
    this.clock = parts.clock;
    this.#reached = reached;
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
  }

  readonly fate = (request: ServerRequest, verb: Verb): Fate => {
    this.#messages += 1;
    if (this.#isCut) return { hangs: true };
    const key = `link ${this.name} ${verb} ${this.#messages}`;
    const number = this.#parts.faults.number(key);
    const [from, to] = WAY_MS;
    const requestMs = from + number * (to - from);
    const usual = { requestMs, answerMs: from + to - requestMs };
    if (!this.#parts.faults.decide(key, TROUBLE_PER_MILLE / 1_000)) return usual;
    const trouble = this.#troubleOf(key, verb);
    if (trouble === null) return usual;
    this.#parts.counts.add(`api.${trouble.name}`);
    this.#parts.story.tell(this.name, `${request.method} ${request.path}: ${trouble.name}`);
    return { ...usual, ...trouble.fate(this.#parts.faults.number(`${key} much`)) };
  };

  readonly reached = (request: ServerRequest, verb: Verb): Fate | undefined => {
    // A killed process may have sent it already: that it still arrives is as likely as that it does not.
    if (this.#isCut) {
      const isLost = this.#parts.faults.number(`link ${this.name} last ${this.#messages}`) < 0.5;
      return isLost ? { hangs: true } : { unheard: true };
    }
    const broken = this.#brokenNow();
    if (broken === "both" || broken === "requests") return { hangs: true };
    if (broken === "answers") return verb === "watch" ? { hangs: true } : { unheard: true };
    return this.#reached(request, verb);
  };

  readonly eventMs = (): number => {
    this.#events += 1;
    const { faults, counts } = this.#parts;
    const key = `link ${this.name} event ${this.#events}`;
    const broken = this.#brokenNow();
    const heldMs = broken === null ? 0 : Math.max(0, this.#brokenUntilMs - this.clock.monotonicMs());
    const number = faults.number(key);
    if (!faults.decide(key, LATE_EVENT.probability)) return heldMs + 1 + number * 4;
    counts.add("api.event-late");
    return heldMs + number * LATE_EVENT.msMax;
  };

  #brokenNow(): Broken | null {
    if (this.#broken !== null && this.clock.monotonicMs() >= this.#brokenUntilMs) this.#broken = null;
    return this.#broken;
  }

  #troubleOf(key: string, verb: Verb): Trouble | null {
    let left = this.#parts.faults.number(`${key} what`) * TROUBLE_PER_MILLE;
    for (const trouble of TROUBLES) {
      left -= trouble.perMille;
      if (left < 0) return trouble.verbs.includes(verb) ? trouble : null;
    }
    return null;
  }
}
