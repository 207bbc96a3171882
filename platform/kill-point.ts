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

/** HOLDFAST_KILL_POINT: `<name>:<n>` kills the process at the n-th pass; `<name>:<n>:SIGSTOP` only stops it. */
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
