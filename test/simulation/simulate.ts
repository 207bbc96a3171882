import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Charge } from "./world.ts";

/** Tests and measurements run in the directory of the repository. */
const ROOT = process.cwd();

/**
 * Runs are measured in steps; a machine that is busy with other things may take this long for those of one test, ms.
 */
export const PATIENCE_MS = 900_000;

/** What `--result` writes. */
interface Result {
  readonly seed: number;
  readonly violation: { readonly kind: string; readonly message: string } | null;
  readonly steps: number;
  readonly virtualMs: number;
  readonly processorMs: number;
  readonly digest: string;
  readonly missing: readonly string[];
  readonly counts: Readonly<Record<string, number>>;
  /** Of a large world. */
  readonly charges: readonly Charge[];
}

export interface Simulated {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** null: it did not come to an end. */
  readonly result: Result | null;
}

/** The simulation as it is now, bundled; with one fault put into the product, if it is given. */
export class Simulation {
  readonly #directory = mkdtempSync(join(tmpdir(), "holdfast-simulation-"));
  readonly #bundle: string;
  #runs = 0;

  constructor(mutant?: string) {
    this.#bundle = join(this.#directory, "simulate.cjs");
    const flags = mutant === undefined ? [] : ["--mutant", mutant];
    execFileSync("node", ["tools/simulate-bundle.mjs", "--out", this.#bundle, ...flags], { cwd: ROOT });
  }

  /** Flags as in main.ts. What fails is not made shorter unless `--shrink` says so. */
  run(
    flags: Readonly<Record<string, string | number | true>>,
    onStart: (child: ChildProcess) => void = () => {},
  ): Promise<Simulated> {
    this.#runs += 1;
    const result = join(this.#directory, `result-${this.#runs}.json`);
    const all: Readonly<Record<string, string | number | true>> = {
      shrink: 0,
      keep: this.file(`kept-${this.#runs}.json`),
      result,
      ...flags,
    };
    const words = Object.entries(all).flatMap(([name, value]) =>
      value === true ? [`--${name}`] : [`--${name}`, `${value}`],
    );
    const child = spawn("node", ["--enable-source-maps", this.#bundle, ...words], { cwd: ROOT });
    onStart(child);
    let [stdout, stderr] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    return new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code) => resolve({ code, stdout, stderr, result: readResult(result) }));
    });
  }

  /** A path in a directory that `remove` removes. */
  file(name: string): string {
    return join(this.#directory, name);
  }

  remove(): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

function readResult(path: string): Result | null {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Result;
  } catch {
    return null;
  }
}
