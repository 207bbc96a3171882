/** The first pause between two polls, ms, and the longest: whoever waits long must not take the processor from what it waits for. */
const POLL_MS_MIN = 20;
const POLL_MS_MAX = 150;
const POLL_GROWTH = 1.3;

/** Polls until true. The limit only ends a hung test: it is far above what anything takes. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what: string | (() => string),
  limitMs = 60_000,
): Promise<void> {
  const end = performance.now() + limitMs;
  for (
    let pauseMs = POLL_MS_MIN;
    !(await condition());
    pauseMs = Math.min(pauseMs * POLL_GROWTH, POLL_MS_MAX)
  ) {
    if (performance.now() > end)
      throw new Error(`gave up waiting for ${typeof what === "string" ? what : what()}`);
    await pause(pauseMs);
  }
}

/** Lets time pass in which something must not happen, or may. What has to happen is waited for with `until`. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** What a process says may come behind its answer. */
export function untilSaid(log: () => string, text: string): Promise<void> {
  return until(
    () => log().includes(text),
    () => `"${text}" in\n${log()}`,
  );
}
