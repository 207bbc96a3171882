import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** Bytes that belong to no text: what is kept of any object, however small. */
const OVERHEAD_BYTES = 8_192;

export interface Reading {
  /** Bytes, and how many of them are kept of each text. */
  readonly textBytes: number;
  readonly keptBytes: number;
}

/**
 * What a reader keeps of each of 20 different texts, measured after a collection. What it throws is kept, too: an error that
 * somebody remembers is all that is left of a text.
 */
export function keptOf(
  textOf: (salt: number) => string,
  read: (text: string) => unknown,
  sends = 20,
): Reading {
  const kept: unknown[] = [];
  let textBytes = 0;
  const send = (salt: number) => {
    // As it arrives: bytes, of which a new string is made.
    const bytes = Buffer.from(textOf(salt));
    textBytes += bytes.length;
    try {
      return read(bytes.toString());
    } catch (error) {
      // Of an error the stack is not kept by anybody, and it holds what was on it.
      const { message, refusal } = error as Error & { readonly refusal?: unknown };
      return [message, refusal];
    }
  };
  // What is made once, whoever reads it first.
  send(1_000_000);
  textBytes = 0;
  const before = used();
  for (let salt = 0; salt < sends; salt += 1) kept.push(send(salt));
  const keptBytes = (used() - before) / sends;
  if (kept.length !== sends) throw new Error("nothing was kept");
  return { textBytes: textBytes / sends, keptBytes: Math.max(0, keptBytes - OVERHEAD_BYTES) };
}

/** Of the heap and of what it holds outside of itself. */
function used(): number {
  collect();
  // What the first one has finalised.
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** Processor time of the fastest of several readings, µs: what others do on the machine takes none of it. */
function leastCpuUs(read: () => unknown, tries = 3): number {
  let least = Number.POSITIVE_INFINITY;
  for (let tried = 0; tried < tries; tried += 1) {
    const from = process.cpuUsage();
    try {
      read();
    } catch {}
    const { user, system } = process.cpuUsage(from);
    least = Math.min(least, user + system);
  }
  return least;
}

/** Time that noise can be, µs: what is shorter has not been measured. */
const NOISE_US = 2_000;

/** How many times as long the whole takes as the half; 2: it grows with the text. Measured again when it seems more. */
export function growthOf(half: () => unknown, whole: () => unknown): number {
  let growth = Number.POSITIVE_INFINITY;
  for (let tried = 0; tried < 4 && growth > 2.3; tried += 1) {
    const halfUs = leastCpuUs(half);
    const wholeUs = leastCpuUs(whole);
    growth = Math.min(growth, wholeUs <= NOISE_US ? 1 : wholeUs / Math.max(halfUs, 1));
  }
  return growth;
}
