import { readdirSync, readFileSync } from "node:fs";
import { pause } from "../harness/wait.ts";

const METRICS_MS_MAX = 2_000;

/** A process that is looked at again and again. */
export interface Recorded {
  readonly name: string;
  /** null while it is dead. */
  readonly pid: number | null;
  metrics(): Promise<string>;
}

/** One look at a process. */
export interface Sample {
  /** Since the start of the recording. */
  readonly atMs: number;
  readonly rssBytes: number;
  readonly descriptors: number;
  /** What the heap has in use, garbage included, and what is outside of it; null: it did not answer in time. */
  readonly heapBytes: number | null;
  readonly externalBytes: number | null;
  /** Of the event loop since the look before; null: it did not answer in time. */
  readonly loopP99Ms: number | null;
  readonly loopMaxMs: number | null;
}

/** What processes take, at intervals. */
export class Recorder {
  readonly samples = new Map<string, Sample[]>();
  readonly #processes: readonly Recorded[];
  readonly #startMs = performance.now();

  constructor(processes: readonly Recorded[]) {
    this.#processes = processes;
    for (const { name } of processes) this.samples.set(name, []);
  }

  async look(): Promise<void> {
    await Promise.all(
      this.#processes.map(async (one) => {
        const sample = await this.#sampleOf(one).catch(() => null);
        if (sample !== null) this.samples.get(one.name)?.push(sample);
      }),
    );
  }

  async #sampleOf(one: Recorded): Promise<Sample | null> {
    const { pid } = one;
    if (pid === null) return null;
    const rssKb = Number(/^VmRSS:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
    const descriptors = readdirSync(`/proc/${pid}/fd`).length;
    const text = await Promise.race([one.metrics().catch(() => ""), pause(METRICS_MS_MAX).then(() => "")]);
    return {
      atMs: Math.round(performance.now() - this.#startMs),
      rssBytes: rssKb * 1024,
      descriptors,
      heapBytes: valueIn(text, "nodejs_heap_size_used_bytes"),
      externalBytes: valueIn(text, "nodejs_external_memory_bytes"),
      loopP99Ms: lagIn(text, "p99"),
      loopMaxMs: lagIn(text, "max"),
    };
  }
}

/** Of Node's own measurement, which begins anew at each look. */
function lagIn(metrics: string, what: "p99" | "max"): number | null {
  const seconds = valueIn(metrics, `nodejs_eventloop_lag_${what}_seconds`);
  return seconds === null ? null : Math.round(seconds * 100_000) / 100;
}

function valueIn(metrics: string, name: string): number | null {
  const value = new RegExp(`^${name} (\\S+)`, "m").exec(metrics)?.[1];
  return value === undefined ? null : Number(value);
}
