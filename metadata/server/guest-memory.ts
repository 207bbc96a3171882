import { Buffer } from "node:buffer";
import type { IdentityView } from "../../identity/wire.ts";
import type { Clock } from "../../platform/time.ts";
import type { Answer } from "../documents/answer.ts";
import type { TokenOptions } from "../documents/imds-tokens.ts";
import type { Instance } from "../documents/instance.ts";

/** A guest asks for several documents at once. This adds to the delay of a change, and so is a small part of that. */
const USED_AGAIN_MS_MAX = 100;
/** Of all that is remembered together, and of one answer. */
const BYTES_MAX = 2 << 20;
const ANSWER_BYTES_MAX = 8 << 10;
/** What an entry takes beside its bytes, about. */
const ENTRY_BYTES = 1 << 10;

interface RememberedAnswer {
  readonly answer: Answer;
  /** Where its seed is in the body, in base64; null: it has none. */
  readonly seedAt: number | null;
}

/** What was told to guests a moment ago. All of it is forgotten together. */
export class GuestMemory {
  readonly #clock: Pick<Clock, "monotonicMs">;
  #page = new MemoryPage();
  #untilMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
  }

  /** What is remembered now. To be asked for before what is put there is read: it may be forgotten meanwhile. */
  get page(): MemoryPage {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs >= this.#untilMs || this.#page.bytes > BYTES_MAX) {
      this.#page = new MemoryPage();
      this.#untilMs = nowMs + USED_AGAIN_MS_MAX;
    }
    return this.#page;
  }

  forget(): void {
    this.#untilMs = Number.NEGATIVE_INFINITY;
  }
}

/** By the object of the identity, new at each answer of its source: what is composed for one is never another's. */
class MemoryPage {
  bytes = 0;
  readonly #guests = new Map<IdentityView, RememberedGuest>();

  of(identity: IdentityView): RememberedGuest | undefined {
    return this.#guests.get(identity);
  }

  put(identity: IdentityView, instance: Instance): RememberedGuest {
    const guest = new RememberedGuest(instance, this);
    this.#guests.set(identity, guest);
    this.bytes += ENTRY_BYTES + (instance.userData?.length ?? 0);
    return guest;
  }
}

/** A guest, and the answers to its requests that depend on nothing but the target and fresh randomness. */
export class RememberedGuest {
  readonly instance: Instance;
  readonly #page: MemoryPage;
  readonly #answers = new Map<string, RememberedAnswer>();

  constructor(instance: Instance, page: MemoryPage) {
    this.instance = instance;
    this.#page = page;
  }

  /** `compose` is given the source of its seed, of which it uses at most one. */
  answer(target: string, seed: () => Buffer, compose: (seed: () => Buffer) => Answer): Answer {
    const known = this.#answers.get(target);
    if (known !== undefined) return reseeded(known, seed);
    let used: Buffer | null = null;
    const answer = compose(() => {
      used = seed();
      return used;
    });
    this.#put(target, answer, used);
    return answer;
  }

  #put(target: string, answer: Answer, seed: Buffer | null): void {
    const { body } = answer;
    if (body.length > ANSWER_BYTES_MAX) return;
    const seedAt = seed === null ? null : body.indexOf(seed.toString("base64"));
    if (seedAt === -1) return;
    this.#answers.set(target, { answer, seedAt });
    this.#page.bytes += ENTRY_BYTES + target.length + body.length;
  }
}

function reseeded({ answer, seedAt }: RememberedAnswer, seed: () => Buffer): Answer {
  if (seedAt === null) return answer;
  const body = Buffer.from(answer.body);
  body.write(seed().toString("base64"), seedAt, "latin1");
  return { ...answer, body };
}

/** For a guest's own pool of randomness; of Nova's size. */
const SEED_BYTES = 512;
/** Drawn at once: that costs hardly more than one. */
const SEEDS_DRAWN = 32;

/** Random bytes for guests. None is given twice. */
export class Seeds {
  readonly #clock: Pick<Clock, "randomBytes">;
  #drawn: Buffer = Buffer.alloc(0);
  #used = 0;

  constructor(clock: Pick<Clock, "randomBytes">) {
    this.#clock = clock;
  }

  next(): Buffer {
    if (this.#used === this.#drawn.length) {
      this.#drawn = this.#clock.randomBytes(SEEDS_DRAWN * SEED_BYTES);
      this.#used = 0;
    }
    const start = this.#used;
    this.#used += SEED_BYTES;
    return this.#drawn.subarray(start, this.#used);
  }
}

type Rule = TokenOptions["tokens"];

/**
 * By the definitions of networks. One may be deleted, or broken by an edit, a moment before its listener is removed:
 * until then its last valid content counts, so that a network keeps requiring tokens.
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
