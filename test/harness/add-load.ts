import type { CniAnswer } from "./daemon.ts";
import { until } from "./wait.ts";

/** What a container runtime has, which waits for a daemon as long as the shipped plugin binary does. */
export const PATIENT = { HOLDFAST_SHIM_ABSENT_MS: "" };

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
