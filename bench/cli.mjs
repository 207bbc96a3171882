// How long a person waits for the command line, beside a Node that does nothing.
import { spawnSync } from "node:child_process";
import { HOLDFAST, median } from "./playground.mjs";
import { times } from "./report.mjs";

const RUNS = 40;

export function measureCli(playground, report) {
  const commands = { node: ["-e", "0"], help: [HOLDFAST, "--help"], query: [HOLDFAST, "networks"] };
  const taken = Object.fromEntries(Object.keys(commands).map((name) => [name, []]));
  const env = { ...process.env, HOLDFAST_SOCKET: playground.socket };
  for (let run = 0; run < RUNS; run += 1) {
    for (const [name, args] of Object.entries(commands)) {
      const start = performance.now();
      const { status } = spawnSync(process.execPath, args, { env, stdio: "ignore" });
      if (status !== 0) throw new Error(`${name} exited ${status}`);
      taken[name].push(performance.now() - start);
    }
  }
  const bare = median(taken.node);
  for (const [name, title, bound] of [
    ["help", "holdfast --help", 1.3],
    ["query", "holdfast networks, over the socket", 1.5],
  ]) {
    const ratio = median(taken[name]) / bare;
    const beside = `${median(taken[name]).toFixed(0)} ms to ${bare.toFixed(0)} ms, median of ${RUNS}`;
    report.row(title, `≤ ${bound} × node -e 0`, `${times(ratio)}: ${beside}`, ratio <= bound);
  }
}
