import { useMemo } from "preact/hooks";
import type { PastPeriod } from "../../admin/admin-api.ts";
import type { Page } from "../../allocations/records.ts";
import type { ClaimManifest } from "../../store/manifests.ts";
import type { UseRow } from "../wire.ts";
import { useAnswer, useAnswers } from "./ask.ts";
import { NodeLinks, nodesOf, OF_VM, sortEntries } from "./entries.tsx";
import type { Entry, Ledger } from "./ledger.ts";
import { Facts, Title } from "./parts.tsx";
import { mergedPast, Past, pastPath } from "./past.tsx";
import { linkTo } from "./place.ts";
import { eachSliced, useSliced } from "./sliced.ts";
import { type Column, Table } from "./table.tsx";
import { vmOf } from "./words.ts";

interface Vm {
  readonly name: string;
  readonly entries: readonly Entry[];
}

/** What its attachments say: two nodes are a live migration. */
function stateText({ entries }: Vm): string {
  const nodes = nodesOf(usesOf(entries));
  const isUsed = entries.some(({ row }) => row[7].length > 0);
  const isTwice = entries.some(({ row }) => new Set(row[7].map(([id]) => id)).size > 1);
  if (!isUsed) return "stopped";
  return isTwice ? `migrating${nodes.length > 1 ? ` (${nodes.join(" and ")})` : ""}` : "running";
}

function usesOf(entries: readonly Entry[]): UseRow[] {
  return entries.flatMap(({ row }) => row[7]);
}

function addressesOf({ entries }: Vm): string {
  return entries.map(({ plain }) => plain).join(" ");
}

function useVms(ledger: Ledger): readonly Vm[] | null {
  return useSliced(() => vmsOf(ledger), [ledger.version.value]);
}

function* vmsOf(ledger: Ledger): Generator<void, Vm[]> {
  const found = new Map<string, Entry[]>();
  yield* eachSliced(ledger.all(), (entry) => {
    const name = vmOf(entry);
    if (name === null || entry.row[2] === "Cooling") return;
    const entries = found.get(name);
    if (entries === undefined) found.set(name, [entry]);
    else entries.push(entry);
  });
  return [...found].map(([name, entries]) => ({ name, entries }));
}

export function VmsPage({ ledger }: { ledger: Ledger }) {
  const vms = useVms(ledger);
  return (
    <>
      <Title>Virtual machines</Title>
      <Table
        caption="Virtual machines with addresses"
        columns={COLUMNS}
        rows={vms ?? []}
        keyOf={({ name }) => name}
        empty={
          ledger.synced.value && vms !== null
            ? "No VM holds an address. A VM keeps its addresses on networks with allowPersistentIPs, by its IPAMClaim."
            : "Reading …"
        }
      />
    </>
  );
}

const COLUMNS: readonly Column<Vm>[] = [
  { head: "VM", cell: ({ name }) => <a href={linkTo.vm(name)}>{name}</a>, text: ({ name }) => name },
  { head: "State", cell: stateText, text: stateText },
  {
    head: "Addresses",
    cell: ({ entries }) =>
      entries.map(({ row, plain }, index) => (
        <span key={row[0] + plain}>
          {index > 0 && ", "}
          <a href={linkTo.address(row[0], plain)}>{plain}</a>
        </span>
      )),
    text: addressesOf,
    order: ({ entries }) => entries[0]?.value ?? 0n,
  },
  {
    head: "Node",
    cell: ({ entries }) => <NodeLinks uses={usesOf(entries)} />,
    text: ({ entries }) => nodesOf(usesOf(entries)).join(" "),
  },
];

export function VmPage({ ledger, name }: { ledger: Ledger; name: string }) {
  const vms = useVms(ledger);
  const vm = vms?.find((one) => one.name === name);
  const [namespace = ""] = name.split("/");
  const entries = useMemo(() => sortEntries(vm?.entries ?? []), [vm]);
  const claims = useAnswer<Page<ClaimManifest>>(`/v1/claims?namespace=${encodeURIComponent(namespace)}`, vm).value;
  const paths = entries.map(({ row, plain }) => pastPath(row[0], plain));
  const past = mergedPast(
    useAnswers<{ items: readonly PastPeriod[] }>(paths, JSON.stringify(entries.map(({ row }) => row))).value,
  );
  const names = new Set(entries.map(({ row }) => row[3][2]));
  const asked = claims.kind === "answered" ? claims.body.items.filter(({ metadata }) => names.has(metadata.name)) : [];
  if (vm === undefined)
    return (
      <>
        <Title above={<a href="/vms">VMs</a>}>{name}</Title>
        <p class="empty">
          {ledger.synced.value && vms !== null ? "No VM of this name holds an address." : "Reading …"}
        </p>
      </>
    );
  return (
    <>
      <Title above={<a href="/vms">VMs</a>}>{name}</Title>
      <Facts
        facts={[
          ["State", stateText(vm)],
          ["Requested addresses", asked.flatMap((one) => askedOf(one)).join(", ") || "none"],
        ]}
      />
      <Table
        caption={`Addresses of ${name}`}
        columns={OF_VM}
        rows={entries}
        keyOf={({ row }) => row[0] + row[1]}
        changedMs={(entry) => entry.changedMs}
        empty=""
      />
      <h2>Where it ran</h2>
      <Past answer={past} usesOnly label={`Where ${name} ran`} isNode={ledger.hello.value?.kind === "node"} />
    </>
  );
}

function askedOf(claim: ClaimManifest): readonly string[] {
  return (claim as { readonly asked?: readonly string[] }).asked ?? [];
}
