import type { PastPeriod } from "../../admin/admin-api.ts";
import type { TimePeriod } from "../pictures/time-line.ts";
import type { Answer } from "./ask.ts";
import { Command, Failed, Mark, now, Time } from "./parts.tsx";
import { TimeLine } from "./pictures.tsx";
import { linkTo } from "./place.ts";
import { type Column, Table } from "./table.tsx";
import { durationText, holderText, useText } from "./words.ts";

const PERIODS_SHOWN = 200;

type Periods = { readonly items: readonly PastPeriod[] };

export function pastPath(network: string, address: string): string {
  const query = new URLSearchParams({ address, network, limit: String(PERIODS_SHOWN) });
  return `/v1/history?${query}`;
}

/** What several addresses of one holder went through, the newest first. */
export function mergedPast(answers: Answer<readonly Periods[]>): Answer<Periods> {
  if (answers.kind !== "answered") return answers;
  const items = answers.body.flatMap((one) => one.items);
  const startMs = ({ from, until }: PastPeriod) => Date.parse(from ?? until ?? "");
  return { kind: "answered", body: { items: items.sort((a, b) => startMs(b) - startMs(a)) } };
}

interface PastProps {
  readonly answer: Answer<Periods>;
  readonly label: string;
  /** Only a daemon remembers; a cluster's objects show the present. */
  readonly isNode: boolean;
  /** The time line shows what used the address only, not what held it. */
  readonly usesOnly?: boolean;
  /** What follows the past: a cool-down, or a reservation. */
  readonly present?: TimePeriod | null;
}

export function Past({ answer, label, isNode, usesOnly = false, present = null }: PastProps) {
  if (answer.kind === "asking") return <p class="progress">Asking …</p>;
  if (answer.kind === "failed") return <Failed problem={answer.problem} />;
  const { items } = answer.body;
  const shown = items.filter(({ containerID }) => containerID !== null || !usesOnly);
  return (
    <>
      {shown.length > 0 && (
        <TimeLine periods={present === null ? timePeriods(shown) : [...timePeriods(shown), present]} label={label} />
      )}
      {!isNode && (
        <p class="hint">
          The cluster's objects show the present. Each node remembers the past of what it ran:{" "}
          <Command>holdfast ui</Command> there.
        </p>
      )}
      {items.length === PERIODS_SHOWN && (
        <p class="hint">
          The newest {PERIODS_SHOWN} periods are shown. All of them:{" "}
          <Command>holdfast history ADDRESS --limit 5000</Command>
        </p>
      )}
      <Table
        caption={label}
        columns={COLUMNS}
        rows={items}
        keyOf={(one) => `${one.network} ${one.address} ${one.from} ${one.containerID} ${one.interface} ${one.until}`}
        empty={isNode ? "Nobody had it, as far as is remembered here." : "Nothing of it is recorded now."}
      />
    </>
  );
}

/** An interface that has two addresses is one bar. */
function timePeriods(items: readonly PastPeriod[]): TimePeriod[] {
  const periods = new Map(items.map((one) => [JSON.stringify(periodOf(one)), periodOf(one)]));
  return [...periods.values()];
}

/** A lane for each node: pods follow each other in it, and a migration is in two. */
function periodOf(period: PastPeriod): TimePeriod {
  const { from, until, endedBy, containerID, node } = period;
  const isUse = containerID !== null;
  return {
    from: from === null ? null : Date.parse(from),
    until: until === null ? null : Date.parse(until),
    lane: isUse ? `in use on ${node === "" ? "this node" : node}` : `held by ${holderOf(period)}`,
    label: isUse ? userText(period) : holderOf(period),
    endedBy,
    state: isUse ? "in-use" : "idle",
  };
}

/** A claim holds an address from its first use to its end; containers use it meanwhile. */
function whatText(containerID: string | null): string {
  return containerID === null ? "held" : "in use";
}

function userText({ containerID, interface: ifname, node, pod }: PastPeriod): string {
  return useText([containerID ?? "", ifname ?? "", node, pod?.namespace ?? "", pod?.name ?? "", "", ""]);
}

function holderOf({ owner: { kind, namespace, name, uid, interface: ifname } }: PastPeriod): string {
  return holderText([kind, namespace, name, uid, ifname]);
}

const COLUMNS: readonly Column<PastPeriod>[] = [
  {
    head: "Address",
    cell: ({ network, address }) => <a href={linkTo.address(network, plain(address))}>{plain(address)}</a>,
    text: ({ address }) => plain(address),
  },
  {
    head: "Period",
    cell: ({ containerID }) => <Mark state={containerID === null ? "idle" : "in-use"} label={whatText(containerID)} />,
    text: ({ containerID }) => whatText(containerID),
  },
  { head: "Holder", cell: holderOf, text: holderOf },
  {
    head: "Used by",
    cell: (one) => (one.containerID === null ? "–" : userText(one)),
    text: (one) => (one.containerID === null ? "" : userText(one)),
  },
  {
    head: "Node",
    cell: ({ node, containerID }) =>
      node === "" || containerID === null ? "–" : <a href={linkTo.node(node)}>{node}</a>,
    text: ({ node }) => node,
  },
  { head: "From", cell: ({ from }) => <Time time={from} />, text: ({ from }) => from ?? "" },
  {
    head: "Until",
    cell: ({ until }) => (until === null ? "still" : <Time time={until} />),
    text: ({ until }) => until ?? "still",
  },
  { head: "For", cell: lengthText, text: lengthText, order: lengthMs },
  { head: "Ended by", cell: (one) => endText(one), text: endText },
];

function lengthMs({ from, until }: PastPeriod): number {
  return from === null ? 0 : (until === null ? now.value : Date.parse(until)) - Date.parse(from);
}

function lengthText(period: PastPeriod): string {
  return period.from === null ? "" : durationText(lengthMs(period));
}

/** The runtime's word means little to others. */
function endText({ endedBy }: PastPeriod): string {
  return endedBy === "DEL" ? "container removed (DEL)" : (endedBy ?? "");
}

function plain(address: string): string {
  return address.split("/")[0] ?? "";
}
