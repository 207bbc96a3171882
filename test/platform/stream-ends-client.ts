/** Reads, watches and asks of the server in argv, and calls each off at many moments. Ends with "alive". */
import { HttpKubeApi } from "../../kube/http/http-kube-api.ts";
import { systemClock } from "../../platform/time.ts";

const [server = "", ca = "", rounds = "1"] = process.argv.slice(2);
const PATH = "/api/v1/pods";
/** Turns of the event loop before a request is called off; null: by what it brings, or never. */
const TURNS = [null, 0, 1, 2, 3, 5, 8, 12, 20];

/** What nobody else has called off is called off then, ms. */
const LATE_MS = 250;

const api = new HttpKubeApi(
  {
    server: new URL(server),
    tls: ca === "" ? {} : { ca },
    credentialsFrom: "the test",
    authHeaders: () => ({ headers: {}, generation: 1 }),
    renew: async () => false,
  },
  systemClock,
);

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await new Promise<void>((resolve) => setImmediate(resolve));
}

async function calledOff(after: number | null, work: (ends: AbortController) => Promise<unknown>): Promise<void> {
  const ends = new AbortController();
  const working = work(ends).catch(() => {});
  // A list that fails is tried again: that is not what this is about.
  const late = setTimeout(() => ends.abort(), LATE_MS);
  if (after !== null) {
    await turns(after);
    ends.abort();
  }
  await working;
  clearTimeout(late);
}

for (let round = 0; round < Number(rounds); round += 1) {
  for (const after of TURNS) {
    for (const moment of [
      "bookmark",
      "bookmark,reset",
      "bookmark,late-end",
      "headers",
      "part",
      "whole",
      "whole,reset",
    ]) {
      const query = { moment };
      await Promise.all([
        calledOff(after, ({ signal }) =>
          api.list({
            path: PATH,
            query,
            each: () => {},
            restarted: () => {},
            streamed: { gone: () => {} },
            signal,
          }),
        ),
        calledOff(after, (ends) =>
          api.watch({
            path: PATH,
            query,
            resourceVersion: "1",
            signal: ends.signal,
            event: () => ends.abort(),
          }),
        ),
        calledOff(after, ({ signal }) => api.list({ path: PATH, query, each: () => {}, restarted: () => {}, signal })),
      ]);
    }
  }
}
api.close();
await turns(50);
process.stdout.write("alive\n");
