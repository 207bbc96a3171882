/** Shorter waits need no explanation, ms. */
const QUIET_MS = 1_000;

/** One line on a terminal's stderr that tells what is going on, gone when it is over. Elsewhere nothing is shown. */
export async function withProgress<T>(text: () => string, work: Promise<T>): Promise<T> {
  if (!process.stderr.isTTY) return work;
  let shown = false;
  const timer = setInterval(() => {
    shown = true;
    process.stderr.write(`\r\u001b[K${text()}`);
  }, QUIET_MS);
  try {
    return await work;
  } finally {
    clearInterval(timer);
    if (shown) process.stderr.write("\r\u001b[K");
  }
}
