import { request } from "node:http";
import { join } from "node:path";
import { ROUTES } from "../admin/routes.ts";
import { ConnectionLoad } from "../test/harness/connection-load.ts";
import { atMost, type Line, type Measurement, number } from "./line.ts";
import { median } from "./statistics.ts";
import { Workbench } from "./workbench.ts";

const CONNECTIONS = 2_000;
const FILLED = 20_000;
const READERS = 20;
const ROUNDS = 10;
const ADDS = 300;

/** What an ADD costs while others hold connections, and while readers ask, by turns with nobody there. */
export const listeners: Measurement = () =>
  Workbench.with(
    async (bench) => {
      const lines: Line[] = [];
      lines.push(
        await beside(bench, `${number(CONNECTIONS)} idle connections to the plugin's socket`, () => connections(bench)),
      );
      await bench.load(FILLED);
      lines.push(
        await beside(bench, `${number(CONNECTIONS)} of them, ${number(FILLED)} allocations`, () => connections(bench)),
      );
      for (const path of readable())
        lines.push(
          await beside(bench, `${READERS} readers of ${path}, ${number(FILLED)} allocations`, async () =>
            readers(bench, path),
          ),
        );
      return lines;
    },
    { args: ["--read-group", String(process.getgid?.())] },
  );

async function beside(bench: Workbench, what: string, begin: () => Promise<() => Promise<void>>): Promise<Line> {
  const alone: number[] = [];
  const together: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    alone.push((await bench.load(ADDS, 1)).p99Ms);
    const end = await begin();
    together.push((await bench.load(ADDS, 1)).p99Ms);
    await end();
  }
  return atMost(median(together) / median(alone), 2, "×", {
    what: `p99 of an ADD beside ${what}`,
    against: `nobody there; ${ROUNDS} × ${ADDS} ADDs by turns, median of the p99s`,
    beside: `${number(median(together))} ms, alone ${number(median(alone))} ms`,
  });
}

async function connections(bench: Workbench): Promise<() => Promise<void>> {
  const load = await ConnectionLoad.start({
    where: { path: bench.daemon.socket },
    kind: "idle",
    count: CONNECTIONS,
  });
  return () => load.stop();
}

/** Routes that need nothing but their path, and the scrape. */
function readable(): string[] {
  const paths = ROUTES.filter(({ method, path }) => method === "GET" && !path.includes(":"));
  return [...paths.map(({ path }) => path), "/metrics"];
}

/** Each asks again when it has its answer. */
function readers(bench: Workbench, path: string): () => Promise<void> {
  const socketPath = join(bench.directory, "readonly.sock");
  const over = new AbortController();
  const ask = async () => {
    while (!over.signal.aborted) {
      const sent = request({ socketPath, path, signal: over.signal });
      sent.on("error", () => {}).end();
      // Also when it is aborted. What waits for the signal itself would grow with each question.
      await new Promise((resolve) => sent.once("close", resolve));
    }
  };
  const asking = Array.from({ length: READERS }, ask);
  return async () => {
    over.abort();
    await Promise.all(asking);
  };
}
