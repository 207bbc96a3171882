/** What nobody catches: it would end the product's process. */
export class Mishaps {
  readonly #tell: (thrown: unknown) => void;

  constructor(tell: (thrown: unknown) => void) {
    this.#tell = tell;
    process.on("unhandledRejection", this.#tell);
    process.on("uncaughtException", this.#tell);
  }

  stop(): void {
    process.off("unhandledRejection", this.#tell);
    process.off("uncaughtException", this.#tell);
  }
}
