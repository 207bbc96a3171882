import { expect } from "vitest";
import { ApiAway, ListRefused, type WatchEnd } from "../../kube/kube-api.ts";
import type { ServerUnderTest } from "./server-under-test.ts";
import type {
  Conversation,
  EndStep,
  HearStep,
  Json,
  Lazy,
  ListStep,
  Said,
  SendStep,
  Step,
  WatchStep,
} from "./steps.ts";

const DEADLINE_MS = 20_000;
/** Tries of a step that waits for controllers. */
const TRIES_MAX = 200;

type Event = readonly [type: string, object: Json];

interface Watching {
  readonly events: Event[];
  last: Event | null;
  opened: boolean;
  end: WatchEnd | null;
  readonly stop: AbortController;
  readonly done: Promise<void>;
}

/**
 * Has a conversation on a server, checks every answer, and returns all of them. `id` is a name that nobody else uses
 * there.
 */
export async function converse({ steps }: Conversation, server: ServerUnderTest, id: string): Promise<Json[]> {
  const run = new Run(server, id);
  try {
    for (const [index, step] of steps.entries()) await run.step(step, `step ${index + 1}`);
    await run.nothingUnheard();
    return run.transcript;
  } finally {
    await run.stop();
  }
}

class Run {
  readonly transcript: Json[] = [];
  readonly #server: ServerUnderTest;
  readonly #id: string;
  readonly #said: Record<string, Json> = {};
  readonly #watches = new Map<string, Watching>();

  constructor(server: ServerUnderTest, id: string) {
    this.#server = server;
    this.#id = id;
  }

  async step(step: Step, where: string): Promise<void> {
    switch (step.kind) {
      case "send":
        return this.#send(step, `${where}: ${step.method} ${this.#of(step.path)}`);
      case "list":
        return this.#list(step, where);
      case "watch":
        return this.#watch(step);
      case "hear":
        return this.#hear(step, where);
      case "end":
        return this.#end(step, where);
      case "operate":
        return this.#server.operate(step.act);
      case "fault":
        return this.#server.fault(step.fault);
    }
  }

  async nothingUnheard(): Promise<void> {
    for (const [name, { events }] of this.#watches) expect(events, `left over of watch ${name}`).toEqual([]);
  }

  async stop(): Promise<void> {
    for (const { stop, done } of this.#watches.values()) {
      stop.abort();
      await this.#server.run(done);
    }
  }

  async #send(step: SendStep, where: string): Promise<void> {
    for (let left = step.intime ? TRIES_MAX : 1; ; left -= 1) {
      const answer = await this.#answer(step);
      const isIt = () => {
        expect(answer.status, `${where}: ${JSON.stringify(answer.body)}`).toBe(step.status);
        const wanted = this.#of(step.answer);
        if (step.status === "away") expect(answer.body, where).toContain(wanted);
        else expectParts(answer.body, wanted, where);
      };
      if (left > 1 && !holds(isIt)) {
        await this.#server.letControllersWork();
        continue;
      }
      isIt();
      this.transcript.push([step.method, answer]);
      if (step.as !== undefined) this.#said[step.as] = answer.body;
      return;
    }
  }

  async #answer(step: SendStep): Promise<{ status: number | "away"; body: Json }> {
    const { method, path, query, body, patch, who = "admin", deadlineMs = DEADLINE_MS } = step;
    const request = this.#server.api(who).send({
      method,
      path: this.#of(path),
      ...(query === undefined ? {} : { query: this.#of(query) }),
      ...(body === undefined ? {} : { body: this.#of(body) }),
      ...(patch === undefined ? {} : { patch }),
      priority: "add",
      deadlineMs: this.#server.nowMs() + deadlineMs,
    });
    try {
      const { status, body: said } = await this.#server.run(request);
      return { status, body: said };
    } catch (error) {
      if (!(error instanceof ApiAway)) throw error;
      return { status: "away", body: error.message };
    }
  }

  async #list(step: ListStep, where: string): Promise<void> {
    const found: Json[] = [];
    const listed = this.#server.api(step.who ?? "admin").list({
      path: this.#of(step.path),
      ...(step.query === undefined ? {} : { query: this.#of(step.query) }),
      ...(step.metadataOnly === undefined ? {} : { metadataOnly: step.metadataOnly }),
      each: (object) => found.push(object),
      restarted: () => found.splice(0),
      deadlineMs: this.#server.nowMs() + DEADLINE_MS,
    });
    const { answer } = step;
    try {
      const said = await this.#server.run(listed);
      const names = found.map(({ metadata }) => metadata.name).sort();
      if (answer === "missing") expect(said, where).toEqual({ kind: "missing" });
      else expect({ ...said, names }, where).toMatchObject({ kind: "listed", names: this.#of(answer) });
      this.transcript.push(["LIST", said.kind, found]);
      if (step.as !== undefined) this.#said[step.as] = said;
    } catch (error) {
      if (!(error instanceof ApiAway) || !(answer instanceof Object && "away" in answer)) throw error;
      expect(error.message, where).toContain(answer.away);
      this.transcript.push(["LIST", error.message, error instanceof ListRefused ? error.status : null]);
    }
  }

  async #watch({ as, path, query, metadataOnly, from }: WatchStep): Promise<void> {
    const stop = new AbortController();
    const watching: Watching = {
      events: [],
      last: null,
      opened: false,
      end: null,
      stop,
      done: Promise.resolve(),
    };
    const done = this.#server
      .api("admin")
      .watch({
        path: this.#of(path),
        ...(query === undefined ? {} : { query: this.#of(query) }),
        ...(metadataOnly === undefined ? {} : { metadataOnly }),
        resourceVersion: this.#of(from),
        event: (type, object) => {
          if (!isRepeated(watching.last, [type, object])) watching.events.push([type, object]);
          watching.last = [type, object];
        },
        opened: () => {
          watching.opened = true;
        },
        signal: stop.signal,
      })
      .then((end) => {
        watching.end = end;
      });
    this.#watches.set(as, Object.assign(watching, { done }));
    await this.#server.until(() => watching.opened || watching.end !== null, `watch ${as}`);
  }

  async #hear({ watch, events }: HearStep, where: string): Promise<void> {
    const { events: heard } = this.#watches.get(watch) as Watching;
    const wanted = this.#of(events);
    await this.#server
      .until(() => heard.length >= wanted.length, `${wanted.length} events of watch ${watch}`)
      .catch((error: Error) => {
        throw new Error(`${where}: ${error.message}; heard ${JSON.stringify(heard)}`);
      });
    const now = heard.splice(0, wanted.length);
    expectParts(now, wanted, where);
    this.transcript.push(["WATCH", now]);
  }

  async #end({ watch, end, wasOpened }: EndStep, where: string): Promise<void> {
    const watching = this.#watches.get(watch) as Watching;
    await this.#server.until(() => watching.end !== null, `the end of watch ${watch}`);
    expect({ end: watching.end, wasOpened: watching.opened }, where).toMatchObject({ end, wasOpened });
    this.transcript.push(["WATCH", watching.end]);
  }

  #of<T>(lazy: Lazy<T>): T {
    const value = typeof lazy === "function" ? (lazy as (said: Said) => T)(this.#said) : lazy;
    return this.#named(value);
  }

  /** The same with this conversation's name in it. Matchers stay what they are. */
  #named<T>(value: T): T {
    if (typeof value === "string") return value.replaceAll("{id}", this.#id) as T;
    if (Array.isArray(value)) return value.map((one) => this.#named(one)) as T;
    if (value === null || typeof value !== "object" || "asymmetricMatch" in value) return value;
    const entries = Object.entries(value).map(([key, one]) => [this.#named(key), this.#named(one)]);
    return Object.fromEntries(entries);
  }
}

/**
 * The same bookmark once more: near the end of a watch, kube-apiserver sends one at each look of its timer, once a
 * second.
 */
function isRepeated(last: Event | null, [type, object]: Event): boolean {
  const isBookmark = type === "BOOKMARK" && last?.[0] === "BOOKMARK";
  return isBookmark && last?.[1].metadata.resourceVersion === object.metadata.resourceVersion;
}

/** What is expected to be there is, and what is expected to be undefined is not. */
function expectParts(actual: Json, wanted: Json, where: string): void {
  expect(actual, where).toMatchObject(withoutAbsent(wanted));
  expect(presentOf(actual, wanted, ""), where).toEqual([]);
}

function withoutAbsent(wanted: Json): Json {
  if (Array.isArray(wanted)) return wanted.map(withoutAbsent);
  if (!isPlain(wanted)) return wanted;
  const entries = Object.entries(wanted).filter(([, one]) => one !== undefined);
  return Object.fromEntries(entries.map(([key, one]) => [key, withoutAbsent(one)]));
}

/** Paths of what is there although it is expected not to be. */
function presentOf(actual: Json, wanted: Json, path: string): string[] {
  if (wanted === undefined) return actual === undefined ? [] : [path];
  if (!isPlain(wanted) && !Array.isArray(wanted)) return [];
  return Object.entries(wanted).flatMap(([key, one]) => presentOf(actual?.[key], one, `${path}.${key}`));
}

function isPlain(value: Json): boolean {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !("asymmetricMatch" in value);
}

function holds(check: () => void): boolean {
  try {
    check();
    return true;
  } catch {
    return false;
  }
}
