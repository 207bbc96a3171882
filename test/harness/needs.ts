/**
 * What tests need of the machine: what is missing skips them, and they say why; in CI (`CI=true`) nothing may be
 * skipped.
 */
import { spawnSync } from "node:child_process";
import type { TestContext } from "vitest";

/** Returns the reason for which tests are skipped; null: there is none. Throws it in CI. */
export function skippedFor(reason: string | null): string | null {
  if (reason === null) return null;
  if (process.env.CI) throw new Error(`nothing may be skipped in CI: ${reason}`);
  console.log(`skipped: ${reason}`);
  return reason;
}

/** For a test that mounts, or makes network namespaces. */
export function requireRoot(context: TestContext): void {
  if (process.getuid?.() === 0 && spawnSync("unshare", ["-m", "true"]).status === 0) return;
  skipFor(context, "needs root, to mount and to make network namespaces");
}

/** For a test that needs a tool: the command has to succeed. */
export function requireTool(context: TestContext, command: string, ...args: string[]): void {
  if (spawnSync(command, args).status === 0) return;
  skipFor(context, `needs a working "${[command, ...args].join(" ")}"`);
}

function skipFor(context: TestContext, reason: string): void {
  skippedFor(`${context.task.name}: ${reason}`);
  context.skip(reason);
}
