/**
 * Names the instants at which a crash is tested. With `HOLDFAST_KILL_POINT=<name>:<n>` the process kills itself
 * with SIGKILL when it passes the named point for the n-th time; without it this costs one comparison.
 */
const [armedName, armedCount] = (process.env.HOLDFAST_KILL_POINT ?? "").split(":");
let remaining = Number(armedCount ?? "1");

export type KillPoint = "in-transaction" | "before-commit" | "after-commit" | "before-answer";

export function killPoint(name: KillPoint): void {
  if (name !== armedName) return;
  remaining -= 1;
  if (remaining <= 0) process.kill(process.pid, "SIGKILL");
}
