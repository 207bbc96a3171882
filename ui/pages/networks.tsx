import { useMemo } from "preact/hooks";
import type { CheckReport, NetworkWithClaims, PastPeriod } from "../../admin/admin-api.ts";
import { barLabel, countText } from "../pictures/bar.ts";
import { fullInMs } from "../pictures/full-in.ts";
import { useAnswer } from "./ask.ts";
import { fullness, NEARLY_FULL, type RangeCounts, useCounts } from "./counts.ts";
import type { Ledger } from "./ledger.ts";
import { Command, Legend, Title } from "./parts.tsx";
import { Bar } from "./pictures.tsx";
import { linkTo } from "./place.ts";
import { type Column, Table } from "./table.tsx";
import { durationText, percentText } from "./words.ts";

/** Of the history, what one question brings. */
const PERIODS_MAX = 5_000;

interface Line {
  readonly network: NetworkWithClaims;
  readonly ranges: readonly RangeCounts[];
  readonly full: number;
  readonly vms: number;
  readonly findings: number | null;
  readonly isNode: boolean;
}

export function NetworksPage({ ledger }: { ledger: Ledger }) {
  const networks = ledger.networks.value ?? [];
  const isNode = ledger.hello.value?.kind === "node";
  // Of a cluster it reads everything: whoever wants that opens the findings.
  const report = useAnswer<CheckReport>(isNode ? "/v1/check" : null).value;
  const counts = useCounts(ledger, networks);
  const lines = useMemo(() => {
    const messages = report.kind === "answered" ? report.body.findings.map(({ message }) => message) : null;
    return networks
      .map((network): Line => {
        const { ranges = [], vms = 0 } = counts.get(network.name) ?? {};
        const full = Math.max(0, ...ranges.map(fullness));
        const findings = messages === null ? null : messages.filter((text) => mentions(text, network.name)).length;
        return { network, ranges, full, vms, findings, isNode };
      })
      .sort((a, b) => b.full - a.full || (a.network.name < b.network.name ? -1 : 1));
  }, [networks, counts, report]);
  return (
    <>
      <Title>Networks</Title>
      <Legend />
      {!ledger.synced.value && (
        <p class="progress" role="status">
          Reading allocations: {ledger.size.toLocaleString("en")} so far
        </p>
      )}
      <Table
        caption="Networks, the fullest first"
        columns={COLUMNS}
        rows={lines}
        keyOf={({ network }) => network.name}
        empty={
          <>
            There is no network yet. On a node, the first ADD of a network with{" "}
            <code>"ipam": {'{"type": "holdfast-ipam", …}'}</code> brings it; or apply a NetworkAttachmentDefinition:{" "}
            <Command>holdfast apply -f network.yaml</Command>
          </>
        }
      />
    </>
  );
}

const COLUMNS: readonly Column<Line>[] = [
  {
    head: "Network",
    cell: ({ network: { name } }) => <a href={linkTo.network(name)}>{name}</a>,
    text: ({ network }) => network.name,
  },
  {
    head: "Addresses",
    cell: ({ ranges }) => (
      <div class="bars">
        {ranges.map(({ counts, range }) => (
          <Bar key={range.subnets.join()} counts={counts} />
        ))}
        {ranges.length === 0 && "…"}
      </div>
    ),
    text: ({ ranges }) => ranges.map(({ counts }) => barLabel(counts)).join("; "),
    order: ({ full }) => full,
  },
  {
    head: "Full",
    isNumber: true,
    cell: (line) => <Full line={line} />,
    text: ({ full }) => percentText(full),
    order: ({ full }) => full,
  },
  {
    head: "Check",
    cell: ({ findings }) =>
      findings === null ? (
        <a href="/findings">look</a>
      ) : findings === 0 ? (
        "ok"
      ) : (
        <a href="/findings">{findings} found</a>
      ),
    text: ({ findings }) => (findings === null ? "" : String(findings)),
  },
  {
    head: "Free",
    isNumber: true,
    cell: ({ ranges }) => countText(fullest(ranges)?.counts.free ?? 0n),
    text: ({ ranges }) => ranges.map(({ counts }) => String(counts.free)).join(" / "),
    order: ({ ranges }) => fullest(ranges)?.counts.free ?? 0n,
  },
  {
    head: "VMs",
    isNumber: true,
    cell: ({ vms }) => vms.toLocaleString("en"),
    text: ({ vms }) => String(vms),
    order: ({ vms }) => vms,
  },
  {
    head: "Subnets",
    cell: ({ network }) => <Subnets network={network} />,
    text: ({ network }) => subnetsOf(network).join(" "),
  },
  { head: "Owner", cell: (line) => ownerText(line), text: ownerText },
];

/** When a network that is nearly full would be full, if it goes on as in the last day. */
function Full({ line: { network, ranges, full, isNode } }: { line: Line }) {
  const isAsked = full >= NEARLY_FULL && full < 1 && isNode;
  const query = `network=${encodeURIComponent(network.name)}&limit=${PERIODS_MAX}`;
  const answer = useAnswer<{ items: readonly PastPeriod[] }>(isAsked ? `/v1/history?${query}` : null).value;
  const range = fullest(ranges);
  if (answer.kind !== "answered" || range === null) return <>{percentText(full)}</>;
  const { counts, subnets } = range;
  const family = subnets[0]?.family;
  const periods = answer.body.items
    .filter(({ address, containerID, owner }) => isOf(address, family) && isHolding(containerID, owner.kind))
    .map(({ from, until }) => ({ fromMs: msOf(from), untilMs: msOf(until) }));
  const held = Number(counts["in-use"] + counts.idle);
  const inMs = fullInMs({ held, free: counts.free, periods, nowMs: Date.now() });
  return (
    <>
      {percentText(full)}
      {inMs !== null && (
        <span class="alarm" title="if it goes on growing as in the last 24 hours">
          {" "}
          full in {durationText(inMs)}
        </span>
      )}
    </>
  );
}

/** Every interface needs an address of each range set: the fullest one is what counts. */
function fullest(ranges: readonly RangeCounts[]): RangeCounts | null {
  return ranges.reduce<RangeCounts | null>((a, b) => (a !== null && fullness(a) >= fullness(b) ? a : b), null);
}

/** A claim's holding is a period without a container; what others hold, they use. */
function isHolding(containerID: string | null, kind: string): boolean {
  return (containerID === null) === (kind === "claim");
}

function isOf(address: string, family: number | undefined): boolean {
  return address.includes(":") === (family === 6);
}

function msOf(time: string | null): number | null {
  return time === null ? null : Date.parse(time);
}

function Subnets({ network }: { network: NetworkWithClaims }) {
  const [first, second, ...more] = subnetsOf(network);
  return (
    <span class="subnets">
      {first}
      {second !== undefined && <span>{second}</span>}
      {more.length > 0 && <span class="hint">and {more.length} more</span>}
    </span>
  );
}

function subnetsOf({ ranges }: NetworkWithClaims): string[] {
  return ranges.flatMap(({ subnets }) => subnets);
}

/** Whose the network is: a namespace, the administrators, or on a single node whoever wrote its definition. */
export function ownerText({ network: { definedIn, source } }: Pick<Line, "network">): string {
  if (definedIn === undefined) return source === "runtime" ? "this node" : (source.split("/")[0] ?? "");
  return definedIn === "" ? "administrators" : definedIn;
}

/** Findings name networks in their text. */
function mentions(message: string, network: string): boolean {
  return ` ${message} `.split(/[\s,:;()]+/).includes(network);
}
