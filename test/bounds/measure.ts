import { readFileSync } from "node:fs";
import { join } from "node:path";
import { GCProfiler, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect } from "vitest";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** Bytes that belong to no text: what is kept of any object, however small. */
const OVERHEAD_BYTES = 8_192;

export interface Reading {
  /** Bytes, and how many of them are kept of each text. */
  readonly textBytes: number;
  readonly keptBytes: number;
  /** Of the memory, while one text is read. */
  readonly meanwhileBytes: number;
}

/**
 * What a reader keeps of each of 20 different texts, measured after a collection. What it throws is kept, too: an error
 * that somebody remembers is all that is left of a text.
 */
export function keptOf(textOf: (salt: number) => string, read: (text: string) => unknown, sends = 20): Reading {
  const kept: unknown[] = [];
  let textBytes = 0;
  const bytesOf = (salt: number) => {
    const bytes = Buffer.from(textOf(salt));
    textBytes += bytes.length;
    return bytes;
  };
  // As it arrives: bytes, of which a new string is made.
  const send = (bytes: Buffer) => {
    try {
      return read(bytes.toString());
    } catch (error) {
      // Of an error the stack is not kept by anybody, and it holds what was on it.
      const { message, refusal } = error as Error & { readonly refusal?: unknown };
      return [message, refusal];
    }
  };
  // What is made once, whoever reads it first, is made now.
  const first = bytesOf(1_000_000);
  const meanwhileBytes = peakOf(() => send(first));
  textBytes = 0;
  // What a reading leaves until the next one, such as the last text itself, is there before and after.
  kept.push(send(bytesOf(2_000_000)));
  textBytes = 0;
  const before = used();
  for (let salt = 0; salt < sends; salt += 1) kept.push(send(bytesOf(salt)));
  const keptBytes = (used() - before) / sends;
  if (kept.length !== sends + 1) throw new Error("nothing was kept");
  return {
    textBytes: textBytes / sends,
    keptBytes: Math.max(0, keptBytes - OVERHEAD_BYTES),
    meanwhileBytes,
  };
}

/**
 * What the heap grows by until a reading has ended, and before each collection meanwhile, whatever of it is garbage by
 * then.
 */
function peakOf(read: () => unknown): number {
  collect();
  collect();
  const before = process.memoryUsage().heapUsed;
  const profiler = new GCProfiler();
  profiler.start();
  read();
  const after = process.memoryUsage().heapUsed;
  const collections = profiler.stop()?.statistics ?? [];
  const peak = Math.max(after, ...collections.map((one) => one.beforeGC.heapStatistics.usedHeapSize));
  return peak - before - OVERHEAD_BYTES;
}

/** The table of docs/bounds.md: how many times its text a reader takes meanwhile. */
const MEANWHILE = new Map(
  [
    ...readFileSync(join(import.meta.dirname, "../../docs/bounds.md"), "utf8").matchAll(/^\| ([^|]+?) +\| +(\d+) \|/gm),
  ].map(([, reader, times]) => [reader as string, Number(times)]),
);

/** When the collector runs is not the reader's doing. */
const MEANWHILE_MARGIN = 2;
/** Garbage among the young objects, which it may leave for as long as there are no more. */
const YOUNG_BYTES = 64 << 20;

/** Expects what a reader takes meanwhile to be as in the table. */
export function expectMeanwhile(reader: string, { textBytes, meanwhileBytes }: Reading, shape = ""): void {
  const times = MEANWHILE.get(reader);
  const measured = meanwhileBytes / textBytes;
  if (process.env.HOLDFAST_TEST_MEANWHILE === "print")
    console.info(`${reader}: ${measured.toFixed(1)} times its text meanwhile, of ${shape}`);
  if (times === undefined) throw new Error(`docs/bounds.md does not say what "${reader}" takes meanwhile`);
  expect(meanwhileBytes, `${reader}: ${shape}: ${measured} times`).toBeLessThanOrEqual(
    MEANWHILE_MARGIN * times * textBytes + YOUNG_BYTES,
  );
}

/** Of the heap and of what it holds outside of itself. */
function used(): number {
  collect();
  // What the first one has finalised.
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** Processor time of one reading, µs: what others do on the machine takes none of it. */
function cpuUs(read: () => unknown): number {
  collect();
  const from = process.cpuUsage();
  try {
    read();
  } catch {}
  const { user, system } = process.cpuUsage(from);
  return user + system;
}

/**
 * What the collector alone can take of a reading, µs: what is shorter has not been measured, and what grows with its
 * square is far longer.
 */
const NOISE_US = 10_000;
/** What grows with the text is found to do so by then; what grows with its square never is. */
const TRIES_MAX = 30;
/** The same for whole measurements: of some the collector takes part all the time. */
const ATTEMPTS_MAX = 4;

/** Time for the whole of a text <= so many times that for half of it. */
const GROWTH_MAX = 2.5;

/**
 * How many times as long a text takes as its half; 2: the time is in proportion. From the whole and its quarter, since
 * tables that double their size at some length make one doubling look like three. What JSON.parse alone grows by more
 * than that, as what it makes outgrows the processor's caches and the young generation, is not the reader's. Each
 * counts with its fastest reading, and all are read by turns until that is clear.
 */
export function growthOf(textOf: (share: number) => string, read: (text: string) => unknown): number {
  const texts = [textOf(1 / 4), textOf(1)] as const;
  const readUs = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY] as [number, number];
  const parseUs = [...readUs] as [number, number];
  const perDoubling = ([quarter, whole]: readonly [number, number]) => Math.sqrt(whole / Math.max(quarter, 1));
  const growth = () => (readUs[1] <= NOISE_US ? 1 : (2 * perDoubling(readUs)) / Math.max(2, perDoubling(parseUs)));
  for (let tried = 0; tried < TRIES_MAX && (tried < 3 || growth() > GROWTH_MAX); tried += 1)
    for (const which of [0, 1] as const) {
      readUs[which] = Math.min(
        readUs[which],
        cpuUs(() => read(texts[which])),
      );
      parseUs[which] = Math.min(
        parseUs[which],
        cpuUs(() => JSON.parse(texts[which])),
      );
    }
  return growth();
}

/** Expects the time to be in proportion. */
export function expectProportion(textOf: (share: number) => string, read: (text: string) => unknown, what = ""): void {
  let growth = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < ATTEMPTS_MAX && growth > GROWTH_MAX; attempt += 1) growth = growthOf(textOf, read);
  expect(growth, what).toBeLessThanOrEqual(GROWTH_MAX);
}

/** What stays in the memory of what is begun, as long as what it returns lives. */
export async function keptBy(begin: () => Promise<unknown>): Promise<number> {
  const before = used();
  const kept = await begin();
  const bytes = used() - before;
  if (kept === undefined) throw new Error("nothing was kept");
  return bytes;
}
