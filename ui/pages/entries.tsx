import type { UseRow } from "../wire.ts";
import { stateOf } from "./counts.ts";
import type { Entry } from "./ledger.ts";
import { Ago, Mark, now } from "./parts.tsx";
import { linkTo } from "./place.ts";
import type { Column } from "./table.tsx";
import { holderText, useText, vmOf } from "./words.ts";

/** The columns of lists of allocations. A cool-down that is over is no state any more: such rows are left out. */
const network: Column<Entry> = {
  head: "Network",
  cell: ({ row }) => <a href={linkTo.network(row[0])}>{row[0]}</a>,
  text: ({ row }) => row[0],
};
const address: Column<Entry> = {
  head: "Address",
  cell: ({ row, plain }) => <a href={linkTo.address(row[0], plain)}>{plain}</a>,
  text: ({ plain }) => plain,
  order: ({ value }) => value,
};
const state: Column<Entry> = {
  head: "State",
  cell: (entry) => <Mark state={shownState(entry)} />,
  text: shownState,
};
const holder: Column<Entry> = {
  head: "Holder",
  cell: (entry) => holderText(entry.row[3]),
  text: (entry) => holderText(entry.row[3]),
};
const vm: Column<Entry> = {
  head: "VM",
  cell: (entry) => {
    const name = vmOf(entry);
    return name === null ? "–" : <a href={linkTo.vm(name)}>{name}</a>;
  },
  text: (entry) => vmOf(entry) ?? "",
};
const users: Column<Entry> = {
  head: "Used by",
  cell: ({ row }) => row[7].map(useText).join(", ") || "nobody",
  text: ({ row }) => row[7].map(useText).join(" "),
};
const nodes: Column<Entry> = {
  head: "Node",
  cell: ({ row }) => <NodeLinks uses={row[7]} />,
  text: ({ row }) => nodesOf(row[7]).join(" "),
};
const since: Column<Entry> = {
  head: "Since",
  cell: ({ row }) => <Ago time={row[5]} />,
  text: ({ row }) => row[5],
};

export const OF_NETWORK = [address, state, holder, vm, users, nodes, since];
export const OF_ALL = [network, address, state, holder, vm, users, nodes, since];
export const OF_VM = [network, address, state, users, nodes, since];
export const OF_NODE = [network, address, holder, vm, users, since];

function shownState(entry: Entry) {
  // How long a cool-down lasts is the network's: whoever lists one address sees that it is or was in one.
  const found = stateOf(entry, { cooldownSeconds: Number.POSITIVE_INFINITY }, now.value);
  return found === "free" ? "cooling" : found;
}

export function NodeLinks({ uses }: { uses: readonly UseRow[] }) {
  if (uses.length === 0) return <>–</>;
  return (
    <>
      {nodesOf(uses).map((name, index) => (
        <span key={name}>
          {index > 0 && ", "}
          <a href={linkTo.node(name)}>{name}</a>
        </span>
      ))}
    </>
  );
}

export function nodesOf(uses: readonly UseRow[]): string[] {
  return [...new Set(uses.map(([, , node]) => node).filter((name) => name !== ""))];
}

/** By network, then by address. */
export function sortEntries(entries: readonly Entry[]): Entry[] {
  return entries.toSorted((a, b) => {
    if (a.row[0] !== b.row[0]) return a.row[0] < b.row[0] ? -1 : 1;
    if (a.family !== b.family) return a.family - b.family;
    return a.value < b.value ? -1 : a.value > b.value ? 1 : 0;
  });
}
