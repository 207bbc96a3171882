import type { NetworkView, RangeView } from "../allocations/records.ts";
import type { Column } from "./formats/table.ts";
import { formatAge, formatCount } from "./human.ts";

/** One line of `networks`: a range set of a network, or (null) what is held outside all of them. */
export interface RangeLine {
  readonly network: NetworkView;
  readonly range: RangeView | null;
}

export function rangeLines(network: NetworkView): RangeLine[] {
  const lines: RangeLine[] = network.ranges.map((range) => ({ network, range }));
  return network.outside === "0" && lines.length > 0 ? lines : [...lines, { network, range: null }];
}

export function sourceText({ source }: NetworkView): string {
  if (source === "none") return "nobody any more";
  return source === "runtime" ? "runtime configuration" : source;
}

export function ownerText({ definedIn }: NetworkView): string {
  if (definedIn === undefined) return "-";
  return definedIn === "" ? "(administrators)" : definedIn;
}

export function rangeColumns(networks: readonly NetworkView[], nowMs: number): Column<RangeLine>[] {
  const inCluster = networks.some(({ definedIn }) => definedIn !== undefined);
  const owners: Column<RangeLine>[] = [
    { header: "OWNER", only: "wide", cell: ({ network }) => ownerText(network) },
    { header: "SHARED WITH", only: "wide", cell: ({ network }) => network.sharedWith?.join(",") || "-" },
  ];
  const isRetaining = networks.some(
    ({ retainSeconds, ranges }) => retainSeconds > 0 || ranges.some(({ retained }) => retained !== "0"),
  );
  const retention: Column<RangeLine> = {
    header: "RETENTION",
    only: "wide",
    cell: ({ network }) => `${network.retainSeconds} s`,
  };
  // Nodes choose addresses by what was published.
  const published: Column<RangeLine> = {
    header: "PUBLISHED",
    cell: ({ network: { observed } }) => (observed ? `${formatAge(observed, nowMs)} ago` : "never"),
    exact: ({ network }) => network.observed ?? "",
  };
  const counted = (header: string, pick: (range: RangeView) => string): Column<RangeLine> => ({
    header,
    cell: ({ range }) => (range ? formatCount(pick(range)) : ""),
    exact: ({ range }) => (range ? pick(range) : ""),
  });
  return [
    { header: "NETWORK", cell: ({ network }) => network.name },
    { header: "SUBNET", cell: ({ range }) => range?.subnets.join(",") ?? "(outside)" },
    { header: "GATEWAY", only: "wide", cell: ({ range }) => range?.gateways.join(",") ?? "" },
    counted("SIZE", ({ size }) => size),
    {
      header: "ALLOCATED",
      cell: ({ network, range }) => formatCount(range?.allocated ?? network.outside),
      exact: ({ network, range }) => range?.allocated ?? network.outside,
    },
    ...(isRetaining ? [counted("RETAINED", ({ retained }) => retained)] : []),
    counted("COOLING", ({ cooling }) => cooling),
    { ...counted("FREE", ({ free }) => free), colour: ({ range }) => (range?.free === "0" ? "red" : null) },
    counted("EXCLUDED", ({ excluded }) => excluded),
    { header: "ATTACHMENTS", only: "wide", cell: ({ network }) => String(network.attachments) },
    // Once for each network, in the first of its lines.
    {
      header: "FORMER",
      only: "wide",
      cell: ({ network, range }) => (range === (network.ranges[0] ?? null) ? String(network.former ?? "-") : ""),
    },
    {
      header: "PERSISTENT",
      only: "wide",
      cell: ({ network }) => (network.allowPersistentIPs ? "yes" : "no"),
    },
    { header: "COOLDOWN", only: "wide", cell: ({ network }) => `${network.cooldownSeconds} s` },
    ...(isRetaining ? [retention] : []),
    ...(inCluster ? owners : []),
    ...(networks.some(({ observed }) => observed !== undefined) ? [published] : []),
    { header: "SOURCE", cell: ({ network }) => network.source },
  ];
}
