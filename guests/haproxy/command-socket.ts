import { createConnection } from "node:net";

/** haproxy answers at once or not at all. */
const ANSWER_MS_MAX = 2_000;

/** One command to a socket of haproxy's, and everything it answers. Rejects when nobody answers. */
export function ask(socket: string, command: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const connection = createConnection(socket);
    let answer = "";
    connection
      .setEncoding("utf8")
      .setTimeout(ANSWER_MS_MAX, () => connection.destroy(new Error("no answer in time")));
    connection.on("data", (chunk: string) => {
      answer += chunk;
    });
    connection.on("error", reject);
    connection.on("end", () => resolve(answer));
    connection.on("close", () => resolve(answer));
    connection.end(`${command}\n`);
  });
}

export interface HaproxyProcesses {
  /** Reloads of the master that came to nothing. */
  readonly failedReloads: number;
  /** Process that accepts connections; null: none. */
  readonly workerPid: number | null;
}

/** From the answer of the master to `show proc`. */
export function parseShowProc(text: string): HaproxyProcesses {
  const lines = text.split("\n");
  const failed = /\[failed: (\d+)\]/.exec(lines.find((line) => / master /.test(line)) ?? "");
  const start = lines.findIndex((line) => line.startsWith("# workers"));
  const rest = lines.slice(start + 1);
  const end = rest.findIndex((line) => line.startsWith("#"));
  const worker =
    start < 0 ? undefined : rest.slice(0, end < 0 ? rest.length : end).find((line) => / worker /.test(line));
  return {
    failedReloads: Number(failed?.[1] ?? 0),
    workerPid: worker === undefined ? null : Number.parseInt(worker, 10),
  };
}
