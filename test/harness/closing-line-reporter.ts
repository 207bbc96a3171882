import type { Reporter, TestCase, TestModule, Vitest } from "vitest/node";
import { unusedRights } from "./rights/unused.ts";

/** Failed tests that are named at the end, and characters of what each says. */
const NAMED_MAX = 20;
const CHARS_MAX = 600;

/**
 * Closes a run with what has failed, and one plain line that any CI can read: of a long run, often only the end is
 * kept. Rights that the whole run did not use count as failures.
 */
export default class ClosingLineReporter implements Reporter {
  #vitest: Vitest | null = null;

  onInit(vitest: Vitest): void {
    this.#vitest = vitest;
  }

  async onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): Promise<void> {
    const problems = this.#vitest === null ? [] : await unusedRights(this.#vitest, modules);
    if (problems.length > 0) process.exitCode = 1;
    let passed = 0;
    let failed = errors.length + problems.length;
    let skipped = 0;
    const named = errors.map((error) => String((error as { readonly message?: unknown }).message));
    for (const module of modules) {
      failed += module.errors().length;
      for (const { message } of module.errors()) named.push(`${module.relativeModuleId}: ${message}`);
      for (const suite of module.children.allSuites()) failed += suite.errors().length;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === "passed") passed += 1;
        else if (state === "failed") {
          failed += 1;
          named.push(nameOf(test));
        } else skipped += 1;
      }
    }
    named.push(...problems);
    // After the summary of the default reporter.
    process.on("exit", () => {
      for (const line of named.slice(0, NAMED_MAX)) process.stdout.write(`FAILED ${line}\n`);
      process.stdout.write(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}\n`);
    });
  }
}

/** Where it is, and what it found instead of what. */
function nameOf(test: TestCase): string {
  const said = (test.result().errors ?? []).map(({ message, actual }) =>
    [message, actual].filter((text) => typeof text === "string").join("; "),
  );
  const text = said.join("; ").replaceAll(/\s+/g, " ");
  return `${test.module.relativeModuleId} > ${test.fullName}: ${text.slice(0, CHARS_MAX)}`;
}
