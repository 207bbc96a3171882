import { FRONTEND_PREFIX } from "./haproxy-text.ts";

export interface FrontendCounts {
  readonly network: string;
  /** `2xx` and so on. */
  readonly byStatus: Readonly<Record<string, number>>;
  readonly refusedConnections: number;
}

/** From haproxy's answer to `show stat`: comma-separated, the first line names the columns. */
export function parseShowStat(text: string): readonly FrontendCounts[] {
  const [head = "", ...rows] = text.split("\n");
  const columns = head.replace(/^# /, "").split(",");
  const network = columns.indexOf("pxname");
  return rows
    .map((row) => row.split(","))
    .filter((cells) => cells[network]?.startsWith(FRONTEND_PREFIX))
    .map((cells) => {
      const number = (column: string) => Number(cells[columns.indexOf(column)] ?? 0);
      return {
        network: (cells[network] as string).slice(FRONTEND_PREFIX.length),
        byStatus: Object.fromEntries(["2xx", "3xx", "4xx", "5xx"].map((one) => [one, number(`hrsp_${one}`)])),
        refusedConnections: number("dcon"),
      };
    });
}
