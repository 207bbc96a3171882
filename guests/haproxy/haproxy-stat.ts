import { GUESTS } from "./haproxy-text.ts";

export interface GuestCounts {
  /** `2xx` and so on. */
  readonly byStatus: Readonly<Record<string, number>>;
  readonly refusedConnections: number;
}

/** From haproxy's answer to `show stat`: comma-separated, the first line names the columns. null: no guest is answered. */
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
