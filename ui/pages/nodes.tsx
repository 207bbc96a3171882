import { useMemo } from "preact/hooks";
import type { Diagnosis, NodeStatus } from "../../admin/admin-api.ts";
import { useAnswer } from "./ask.ts";
import { OF_NODE, sortEntries } from "./entries.tsx";
import type { Entry, Ledger } from "./ledger.ts";
import { Command, Facts, now, Title } from "./parts.tsx";
import { linkTo } from "./place.ts";
import { eachSliced, useSliced } from "./sliced.ts";
import { type Column, Table } from "./table.tsx";
import { durationText, timeText } from "./words.ts";

interface NodeLine {
  readonly name: string;
  readonly entries: readonly Entry[];
  readonly containers: number;
}

function useNodes(ledger: Ledger): readonly NodeLine[] | null {
  const own = ledger.hello.value?.node ?? "";
  return useSliced(() => nodesOf(ledger, own), [ledger.version.value, own]);
}

function* nodesOf(ledger: Ledger, own: string): Generator<void, NodeLine[]> {
  const found = new Map<string, Entry[]>(own === "" ? [] : [[own, []]]);
  yield* eachSliced(ledger.all(), (entry) => {
    for (const name of new Set(entry.row[7].map(([, , node]) => node))) {
      const entries = found.get(name);
      if (entries === undefined) found.set(name, [entry]);
      else entries.push(entry);
    }
  });
  return [...found]
    .map(([name, entries]) => ({ name, entries, containers: containersOn(name, entries) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function containersOn(name: string, entries: readonly Entry[]): number {
  const here = entries.flatMap(({ row }) => row[7].filter(([, , node]) => node === name).map(([id]) => id));
  return new Set(here).size;
}

export function NodesPage({ ledger }: { ledger: Ledger }) {
  return (
    <>
      <Title>Nodes</Title>
      <Table
        caption="Nodes with addresses in use"
        columns={COLUMNS}
        rows={useNodes(ledger) ?? []}
        keyOf={({ name }) => name}
        empty={ledger.synced.value ? "No address is in use on any node." : "Reading …"}
      />
    </>
  );
}

const COLUMNS: readonly Column<NodeLine>[] = [
  { head: "Node", cell: ({ name }) => <a href={linkTo.node(name)}>{name}</a>, text: ({ name }) => name },
  {
    head: "Containers",
    isNumber: true,
    cell: ({ containers }) => containers.toLocaleString("en"),
    text: ({ containers }) => String(containers),
    order: ({ containers }) => containers,
  },
  {
    head: "Addresses in use",
    isNumber: true,
    cell: ({ entries }) => entries.length.toLocaleString("en"),
    text: ({ entries }) => String(entries.length),
    order: ({ entries }) => entries.length,
  },
];

export function NodePage({ ledger, name }: { ledger: Ledger; name: string }) {
  const line = useNodes(ledger)?.find((one) => one.name === name);
  const rows = useMemo(() => sortEntries(line?.entries ?? []), [line]);
  const isOwn = ledger.hello.value?.node === name;
  return (
    <>
      <Title above={<a href="/nodes">Nodes</a>}>{name}</Title>
      {isOwn ? <Own /> : <Other ledger={ledger} name={name} />}
      <h2>What runs there</h2>
      <Table
        caption={`Addresses in use on ${name}`}
        columns={OF_NODE}
        rows={rows}
        keyOf={({ row }) => row[0] + row[1]}
        changedMs={(entry) => entry.changedMs}
        empty={ledger.synced.value ? `No allocation names a node ${name}.` : "Reading …"}
      />
    </>
  );
}

function Own() {
  const answer = useAnswer<NodeStatus>("/v1/status").value;
  if (answer.kind !== "answered") return <p class="progress">Asking …</p>;
  const { version, mode, since, notReady, outstanding, journal } = answer.body;
  return (
    <Facts
      facts={[
        ["Gives addresses", notReady ?? "yes"],
        ["Daemon", `${version}, ${mode}`],
        ["Running for", durationText(now.value - Date.parse(since))],
        ["Outstanding releases", String(outstanding)],
        ["History since", journal === null ? "nothing has happened yet" : timeText(journal)],
      ]}
    />
  );
}

/** Of another node this source knows what the cluster's objects say. */
function Other({ ledger, name }: { ledger: Ledger; name: string }) {
  const isCluster = ledger.hello.value?.kind === "cluster";
  const answer = useAnswer<{ items: readonly Diagnosis[] }>(isCluster ? "/v1/doctor" : null).value;
  const parts = answer.kind === "answered" ? answer.body.items.filter(({ part }) => /daemon|node/i.test(part)) : [];
  return (
    <>
      <Facts facts={parts.map(({ part, found }) => [`${part} (all nodes)`, found] as const)} />
      <p class="hint">
        Its daemon's own state, with outstanding releases and its journal: <Command>holdfast ui</Command> on {name}.
      </p>
    </>
  );
}
