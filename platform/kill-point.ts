/**
 * Names the instants at which a crash is tested. With `HOLDFAST_KILL_POINT=<name>:<n>` the process kills itself
 * with SIGKILL when it passes the named point for the n-th time, and with `<name>:<n>:SIGSTOP` it stops there until
 * somebody lets it go on; without it this costs one comparison.
 */
const [armedName, armedCount, armedSignal] = (process.env.HOLDFAST_KILL_POINT ?? "").split(":");
let remaining = Number(armedCount ?? "1");

export type KillPoint =
  | "in-transaction"
  | "before-commit"
  | "after-commit"
  | "after-intent"
  | "after-reserve"
  | "before-publish"
  | "after-publish"
  | "before-answer";

export function killPoint(name: KillPoint): void {
  if (name !== armedName) return;
  remaining -= 1;
  if (remaining > 0) return;
  if (armedSignal !== "SIGSTOP") process.kill(process.pid, "SIGKILL");
  else if (remaining === 0) process.kill(process.pid, "SIGSTOP");
}
