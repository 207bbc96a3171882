import type { CniAnswer } from "./daemon.ts";
import { until } from "./wait.ts";

/**
 * A plugin binary that waits for a daemon, as the shipped one does, but however long the machine needs for its start.
 */
export const PATIENT = { HOLDFAST_SHIM_ABSENT_MS: "600000", HOLDFAST_SHIM_TIMEOUT_MS: "600000" };
/** The same for a daemon that is not ready. */
export const PATIENT_DAEMON = ["--add-deadline-ms", "50000"];

/** ADDs on a node, some at a time and one after the other, until somebody says that it is enough. */
export class AddLoad {
  readonly answers: CniAnswer[] = [];
  readonly #lanes: Promise<void>;
  #begun = 0;
  #isOver = false;

  /** `add`: the ADD of another container each time. */
  constructor(atOnce: number, add: (number: number) => Promise<CniAnswer>) {
    const lane = async () => {
      while (!this.#isOver) this.answers.push(await add(this.#begun++));
    };
    this.#lanes = Promise.all(Array.from({ length: atOnce }, lane)).then(() => {});
  }

  /** Waits for so many more answers. */
  async more(count: number): Promise<void> {
    const wanted = this.answers.length + count;
    await until(
      () => this.answers.length >= wanted,
      () => `${wanted} answers; ${this.answers.length} of ${this.#begun} ADDs are answered`,
    );
  }

  /** What was refused, as the runtime reads it, once every ADD is answered. */
  async refused(): Promise<string[]> {
    this.#isOver = true;
    await this.#lanes;
    return this.answers.flatMap(({ code, stdout, stderr }) => (code === 0 ? [] : [stdout + stderr]));
  }
}
