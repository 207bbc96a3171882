import { createConnection } from "node:net";
import { GUESTS } from "./haproxy-text.ts";

/** Its whole map has some hundred characters for each of 4,096 ports. */
const ANSWER_CHARS_MAX = 1 << 20;
/** haproxy answers at once or not at all. */
const ANSWER_MS_MAX = 2_000;

/** One command to a socket of haproxy's, and everything it answers. Rejects when nobody answers. */
export function ask(socket: string, command: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const connection = createConnection(socket);
    let answer = "";
    connection.setEncoding("utf8").setTimeout(ANSWER_MS_MAX, () => connection.destroy(new Error("no answer in time")));
    connection.on("data", (chunk: string) => {
      answer += chunk;
      if (answer.length > ANSWER_CHARS_MAX)
        connection.destroy(new Error(`its answer has more than ${ANSWER_CHARS_MAX} characters`));
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

export interface GuestCounts {
  /** `2xx` and so on. */
  readonly byStatus: Readonly<Record<string, number>>;
  readonly refusedConnections: number;
}

/** haproxy's answer to `show stat`: comma-separated, columns named in the first line. null: no guest is answered. */
export function parseShowStat(text: string): GuestCounts | null {
  const [head = "", ...rows] = text.split("\n");
  const columns = head.replace(/^# /, "").split(",");
  const name = columns.indexOf("pxname");
  const cells = rows.map((row) => row.split(",")).find((row) => row[name] === GUESTS);
  if (cells === undefined) return null;
  const number = (column: string) => Number(cells[columns.indexOf(column)] ?? 0);
  return {
    byStatus: Object.fromEntries(["2xx", "3xx", "4xx", "5xx"].map((one) => [one, number(`hrsp_${one}`)])),
    refusedConnections: number("dcon"),
  };
}
