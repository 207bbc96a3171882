import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readLog } from "../../store/journal/files/write-ahead-log.ts";
import { SqliteStore } from "../../store/standalone/standalone-store.ts";
import { VirtualTime } from "../harness/virtual-time.ts";
import { detachWant, said, want } from "../store/subjects.ts";
import { Random, seededRandom } from "./random.ts";

const SEEDS = 500;
/** Where a sync costs nothing: no machine loses its power here. */
const MEMORY = "/dev/shm";
const BOOT = "boot-now";
const NOTES = ["holdfast.answered", "holdfast.answered-copy"];
const FILES = ["holdfast.db", "holdfast.db-wal", "holdfast.pages", ...NOTES];

/** What was answered and not released: container to address. */
type Answered = Map<string, string>;
type Content = ReadonlyMap<string, Buffer>;

/** A standalone node whose files come to harm: a directory, its store, and what its clients were told. */
class Node {
  readonly directory: string;
  readonly answered: Answered = new Map();
  /** Containers that ever had an address. */
  readonly everAnswered = new Set<string>();
  readonly time: VirtualTime;
  readonly #name: string;
  readonly #bootRecord: string;
  #store: SqliteStore | null = null;
  #containers = 0;

  constructor(root: string, name: string, seed: number) {
    this.#name = name;
    this.#bootRecord = join(root, `${name}.state`);
    this.directory = join(root, name);
    mkdirSync(this.directory);
    this.time = new VirtualTime(seed);
  }

  /** The store is open, but may say that it cannot serve. */
  async open(bootId = BOOT): Promise<SqliteStore> {
    const context = {
      clock: this.time.clock(),
      node: this.#name,
      bootId,
      bootRecord: this.#bootRecord,
      namespaceGone: () => false,
    };
    this.#store = new SqliteStore(this.directory, context, { info: () => {}, error: () => {} });
    await this.time.run(this.#store.open());
    return this.#store;
  }

  get store(): SqliteStore {
    return this.#store as SqliteStore;
  }

  /** ADDs and DELs, each as its client sees it; what is refused has no effect. */
  async work(random: Random): Promise<void> {
    for (let left = 1 + random.below(12); left > 0; left -= 1) {
      const [oldest] = this.answered.keys();
      if (oldest !== undefined && random.chance(0.2)) {
        const gone = await this.time.run(this.store.detach(detachWant(oldest))).then(
          () => true,
          () => false,
        );
        if (gone) this.answered.delete(oldest);
        continue;
      }
      const container = `c-${this.#containers++}`;
      const answer = await this.time
        .run(this.store.attach(want(container, { ipam: { subnets: "10.0.0.0/16" } })))
        .then(said, () => "refused");
      if (!answer.includes("/")) continue;
      this.answered.set(container, answer);
      this.everAnswered.add(container);
    }
    if (random.chance(0.5)) await this.time.pass(random.pick([900, 2_000, 7_000, 20_000]));
  }

  content(): Content {
    return new Map(
      FILES.filter((name) => existsSync(join(this.directory, name))).map((name) => [
        name,
        readFileSync(join(this.directory, name)),
      ]),
    );
  }

  /** As after SIGKILL: the files are those of this instant, in place. */
  kill(): void {
    const instant = this.content();
    const remembered = existsSync(this.#bootRecord) ? readFileSync(this.#bootRecord) : null;
    this.store.close();
    this.put(instant, FILES);
    if (remembered !== null) writeFileSync(this.#bootRecord, remembered);
  }

  /** The machine was started again: nothing outside of the directory remembers it. */
  reboot(): void {
    rmSync(this.#bootRecord, { force: true });
  }

  put(content: Content, names: readonly string[]): void {
    for (const name of names) {
      const bytes = content.get(name);
      if (bytes === undefined) rmSync(join(this.directory, name), { force: true });
      else writeFileSync(join(this.directory, name), bytes);
    }
  }

  /**
   * Whether the store has all that was answered; after a reboot no container of before runs, and the history has it.
   */
  async hasAll({ isRebooted }: { readonly isRebooted: boolean }): Promise<boolean> {
    if (!isRebooted) return isSameMap(this.#held(), this.answered);
    const history = await this.store.history({ limit: 5_000 });
    const known = new Set(history.map((one) => one.containerID));
    return [...this.everAnswered].every((id) => known.has(id));
  }

  #held(): Answered {
    return new Map(
      this.store
        .attachmentsAfter(0, 10_000)
        .map((one) => [one.containerId, one.ips.map(({ address }) => address).join(" ")]),
    );
  }
}

/**
 * Damages a file, or puts older or foreign ones in its place. Returns what was done, or null if nothing changed.
 * `isRebooted`: nothing outside of the directory remembers it, and a whole one of another time is believed.
 */
function harm(
  node: Node,
  random: Random,
  {
    past,
    other,
    isRebooted,
  }: { readonly past: readonly Content[]; readonly other: Content; readonly isRebooted: boolean },
): string | null {
  const before = node.content();
  const there = FILES.filter((name) => before.has(name));
  const name = random.pick(there);
  const path = join(node.directory, name);
  const { size } = statSync(path);
  const at = random.below(Math.max(1, size));
  const directory = () => {
    for (const one of readdirSync(node.directory)) rmSync(join(node.directory, one), { recursive: true });
    return "the directory emptied";
  };
  const sets = [[name], ["holdfast.db", "holdfast.db-wal"], ...(isRebooted ? [] : [FILES])];
  const kinds: Record<string, () => string> = {
    bit: () => {
      if (size > 0) overwrite(path, at, Buffer.from([(readFileSync(path)[at] as number) ^ (1 << random.below(8))]));
      return `one bit of ${name} at ${at}`;
    },
    zeroes: () => {
      const length = Math.min(size - at, random.pick([1, 8, 512, 4_096, 20_000]));
      overwrite(path, at, Buffer.alloc(length));
      return `${length} bytes of ${name} at ${at} zeroed`;
    },
    noise: () => {
      const length = Math.min(size - at, 1 + random.below(5_000));
      overwrite(path, at, Buffer.from(Array.from({ length }, () => random.below(256))));
      return `${length} bytes of ${name} at ${at} changed`;
    },
    cut: () => {
      truncateSync(path, random.chance(0.3) ? 4_096 * Math.floor(at / 4_096) : at);
      return `${name} cut at ${at}`;
    },
    removed: () => {
      rmSync(path);
      return `${name} removed`;
    },
    older: () => {
      const names = random.pick(sets);
      const which = random.below(past.length);
      node.put(past[which] as Content, names);
      return `${names.join(", ")} as of moment ${which} of ${past.length}`;
    },
    foreign: () => {
      const names = random.pick(sets);
      node.put(other, names);
      return `${names.join(", ")} of another node`;
    },
    ...(isRebooted ? {} : { directory }),
  };
  const what = (kinds[random.pick(Object.keys(kinds))] as () => string)();
  const after = node.content();
  const isSame = before.size === after.size && [...before].every(([file, bytes]) => after.get(file)?.equals(bytes));
  return isSame ? null : what;
}

/** One life: moments of work and restarts, then harm at rest or in use, then a start. */
async function once(
  root: string,
  name: string,
  seed: number,
  other: Content,
): Promise<{ verdict: string; story: string }> {
  const random = new Random(seed);
  const node = new Node(root, name, seed);
  const story = [`seed ${seed}`];
  const past: Content[] = [];
  await node.open();
  for (let lives = 1 + random.below(3); lives > 0; lives -= 1) {
    for (let moments = 1 + random.below(3); moments > 0; moments -= 1) {
      await node.work(random);
      past.push(node.content());
    }
    if (lives > 1) await restart(node, random, story, () => past.push(node.content()));
  }
  const backup = join(root, `${name}.backup`);
  await node.store.backup(backup);
  let what: string | null = null;
  let isUnneeded = false;
  const isRebooted = random.chance(0.3);
  const bootId = isRebooted ? "boot-next" : BOOT;
  if (random.chance(0.4)) {
    what = harm(node, random, { past, other, isRebooted });
    story.push(`in use: ${what}`);
    for (let moments = random.below(3); moments > 0; moments -= 1) await node.work(random);
    await restart(node, random, story, () => isRebooted && node.reboot(), bootId);
  } else
    await restart(
      node,
      random,
      story,
      () => {
        if (isRebooted) node.reboot();
        const before = node.content();
        what = harm(node, random, { past, other, isRebooted });
        story.push(`at rest: ${what}`);
        // Of two notes of two databases nobody can tell which of them was here.
        const isContested = isRebooted && what?.endsWith("of another node") === true;
        isUnneeded = isStillThere(before, node.content()) && !isContested;
      },
      bootId,
    );
  const { status } = node.store;
  const isWhole = status.kind === "ready" && (await node.hasAll({ isRebooted }));
  const verdict = what === null || isUnneeded ? "unharmed" : isWhole ? "whole" : "silent";
  story.push(isRebooted ? "rebooted" : "", JSON.stringify(status));
  const isTold = status.kind === "rebuild-required";
  if (isTold) await goOn(node, status.reason, backup);
  node.store.close();
  rmSync(node.directory, { recursive: true });
  rmSync(backup);
  if (isTold && verdict !== "unharmed") return { verdict: "told", story: story.join("; ") };
  if (verdict === "unharmed" && !isWhole)
    return { verdict: "silent: refused or lost without harm", story: story.join("; ") };
  return { verdict, story: story.join("; ") };
}

/** Database and log are as they were, and so is a note of what was answered. */
function isStillThere(before: Content, after: Content): boolean {
  const isSame = (name: string) => after.get(name)?.equals(before.get(name) ?? Buffer.alloc(0)) ?? !before.has(name);
  return isSame("holdfast.db") && isSame("holdfast.db-wal") && NOTES.some(isSame);
}

/** Does what a refused start names: it must end in one that serves. */
async function goOn(node: Node, reason: string, backup: string): Promise<void> {
  const from = /: holdfast rebuild --from (\S+?),/.exec(reason)?.[1];
  expect(from, reason).toBeDefined();
  await node.time.run(node.store.rebuild(from === "BACKUP" ? backup : (from as string), false));
  expect(node.store.status, reason).toEqual({ kind: "ready" });
}

async function restart(node: Node, random: Random, story: string[], between: () => void, bootId = BOOT): Promise<void> {
  const isKilled = random.chance(0.6);
  if (isKilled) node.kill();
  else node.store.close();
  story.push(isKilled ? "killed" : "closed");
  between();
  await node.open(bootId);
}

function isSameMap(left: Answered, right: Answered): boolean {
  return left.size === right.size && [...left].every(([key, value]) => right.get(key) === value);
}

function overwrite(path: string, at: number, bytes: Buffer): void {
  const descriptor = openSync(path, "r+");
  writeSync(descriptor, bytes, 0, bytes.length, at);
  closeSync(descriptor);
}

test(`after any damage a start has everything that was answered, or says that it has not (${SEEDS} times)`, async () => {
  const all = seededRandom("damage");
  const root = newRoot();
  const foreign = new Node(root, "foreign", all.seed);
  await foreign.open();
  await foreign.work(all);
  const other = foreign.content();
  foreign.store.close();
  const counts = { whole: 0, told: 0, unharmed: 0 };
  for (let index = 0; index < SEEDS; index += 1) {
    const { verdict, story } = await once(root, `node-${index}`, (all.seed + index) | 0, other);
    expect(verdict, story).not.toMatch(/^silent/);
    counts[verdict as keyof typeof counts] += 1;
  }
  console.log(`damage: ${JSON.stringify(counts)}`);
  expect(counts.told).toBeGreaterThan(SEEDS / 4);
}, 600_000);

const POWER_SEEDS = 150;

test(`after lost power a start has every answer, whatever of the last second was written (${POWER_SEEDS} times)`, async () => {
  const all = seededRandom("lost power");
  const root = newRoot();
  const counts = { sound: 0, told: 0 };
  for (let index = 0; index < POWER_SEEDS; index += 1) {
    const seed = (all.seed + index) | 0;
    const { isHarmed, status, missing } = await losePower(new Node(root, `node-${index}`, seed), new Random(seed));
    if (isHarmed) expect({ seed, status }).toMatchObject({ status: { kind: "rebuild-required" } });
    else expect({ seed, status, missing }).toEqual({ seed, status: { kind: "ready" }, missing: [] });
    counts[isHarmed ? "told" : "sound"] += 1;
  }
  console.log(`lost power: ${JSON.stringify(counts)}`);
  expect(Math.min(counts.sound, counts.told)).toBeGreaterThan(POWER_SEEDS / 10);
}, 600_000);

/**
 * The note of what was answered may be as old as its last sync, and behind the synced log there may be a part of a
 * commit that was never answered. What is harmed is in the log, before the last two commits.
 */
async function losePower(node: Node, random: Random) {
  await node.open();
  const moments: Content[] = [];
  for (let left = 2 + random.below(5); left > 0; left -= 1) {
    await node.work(random);
    moments.push(node.content());
  }
  const last = moments.at(-1) as Content;
  const answered = new Map(node.answered);
  node.kill();
  const log = join(node.directory, "holdfast.db-wal");
  // Where the log is copied they are synced.
  const notes = moments.filter((moment) => noteOf(moment).copied === noteOf(last).copied);
  const note = random.pick(notes);
  for (const name of NOTES) writeFileSync(join(node.directory, name), note.get(name) as Buffer);
  node.reboot();
  const frames = framesOf(log);
  const { commits, copied } = noteOf(last);
  // A commit of a store has at least a frame, and one of `work` has many.
  const isHarmed = commits > copied && frames > 40 && random.chance(0.5);
  if (isHarmed) flipByte(log, 32 + 4_120 * random.below(frames - 30) + random.below(4_120));
  else if (random.chance(0.5)) writeFileSync(log, Buffer.alloc(random.below(30_000), 0x5a), { flag: "a" });
  await node.open("boot-next");
  const { status } = node.store;
  const known =
    status.kind === "ready"
      ? new Set((await node.store.history({ limit: 5_000 })).map((one) => one.containerID))
      : null;
  const missing = [...answered.keys()].filter((id) => known !== null && !known.has(id));
  node.store.close();
  return { isHarmed, status, missing };
}

interface Noted {
  readonly commits: number;
  readonly copied: number;
}

function noteOf(content: Content): Noted {
  const text = (content.get("holdfast.answered") as Buffer).toString("latin1").trimEnd();
  return JSON.parse(text.slice(0, text.lastIndexOf(" "))) as Noted;
}

function framesOf(log: string): number {
  const descriptor = openSync(log, "r");
  try {
    return readLog(descriptor, 4_096).frames;
  } finally {
    closeSync(descriptor);
  }
}

function flipByte(path: string, at: number): void {
  overwrite(path, at, Buffer.from([(readFileSync(path)[at] as number) ^ 1]));
}

function newRoot(): string {
  const root = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), "holdfast-damage-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  return root;
}
