export type KillPoint =
  | "in-transaction"
  | "before-commit"
  | "after-commit"
  | "after-intent"
  | "after-reserve"
  | "before-publish"
  | "after-network"
  | "after-list"
  | "after-publish"
  | "before-answer";

/** Passes a kill point. undefined, as always outside of tests: there are none. */
export type PassKillPoint = ((point: KillPoint) => void) | undefined;

/**
 * Parses `HOLDFAST_KILL_POINT`: with `<name>:<n>` the process kills itself with SIGKILL when it passes the named point
 * for the n-th time, and with `<name>:<n>:SIGSTOP` it stops there until it is continued.
 */
export function armKillPoint(setting: string | undefined): PassKillPoint {
  if (setting === undefined) return undefined;
  const [name, count = "1", signal] = setting.split(":");
  let remaining = Number(count);
  return (point) => {
    if (point !== name) return;
    remaining -= 1;
    if (remaining > 0) return;
    if (signal !== "SIGSTOP") process.kill(process.pid, "SIGKILL");
    else if (remaining === 0) process.kill(process.pid, "SIGSTOP");
  };
}
