import { useMemo } from "preact/hooks";
import { formatAddress, parseAddress, parseCidr } from "../pictures/addresses.ts";
import { CONTAINER_CHARS } from "../wire.ts";
import { has } from "./counts.ts";
import { OF_ALL, sortEntries } from "./entries.tsx";
import type { Entry, Ledger } from "./ledger.ts";
import { Title } from "./parts.tsx";
import { linkTo } from "./place.ts";
import { filterSliced, ROWS_OF_SLICE, useSliced } from "./sliced.ts";
import { Table } from "./table.tsx";
import { holderText, vmOf } from "./words.ts";

/** One field for everything: part of an address, MAC, VM, pod, claim, node, container ID, network. */
export function SearchPage({ ledger, text }: { ledger: Ledger; text: string }) {
  const version = ledger.version.value;
  const networks = ledger.networks.value ?? [];
  // As pages write it: `node n1`, `VM shop/vm7`.
  const wanted = text
    .trim()
    .toLowerCase()
    .replace(/^(vm|node|pod|network|address|container) /, "");
  const address = parseAddress(wanted);
  const found = address === null ? wanted : formatAddress(address);
  const matches = (entry: Entry) => found !== "" && isFound(entry, found);
  const hits = useSliced(() => filterSliced(ledger.all(), matches), [version, found]);
  const rows = useMemo(() => sortFew(hits ?? []), [hits]);
  const places =
    address === null
      ? []
      : networks.filter(({ ranges }) =>
          ranges.some(({ subnets }) =>
            subnets.some((one) => {
              const subnet = parseCidr(one);
              return subnet !== null && has(subnet, address);
            }),
          ),
        );
  const few = rows.slice(0, ROWS_OF_SLICE);
  const vms = [...new Set(few.map(vmOf))].filter((name) => name?.toLowerCase().includes(wanted) === true) as string[];
  const nodes = [...new Set(few.flatMap(({ row }) => row[7].map(([, , node]) => node)))].filter((name) =>
    name.toLowerCase().includes(wanted),
  );
  const links: (readonly [what: string, name: string, href: string])[] =
    wanted === ""
      ? []
      : [
          ...places.map(({ name }) => ["address", `${found} on ${name}`, linkTo.address(name, found)] as const),
          ...networks
            .filter(({ name, ranges }) =>
              [name.toLowerCase(), ...ranges.flatMap(({ subnets }) => subnets)].some((one) => one.includes(wanted)),
            )
            .map(({ name }) => ["network", name, linkTo.network(name)] as const),
          ...vms.map((name) => ["VM", name, linkTo.vm(name)] as const),
          ...nodes.map((name) => ["node", name, linkTo.node(name)] as const),
        ];
  // What was typed comes before what it is a part of.
  const isExact = (name: string) => [wanted, `/${wanted}`].some((text) => `/${name.toLowerCase()}`.endsWith(text));
  const exactFirst = links.toSorted(([, a], [, b]) => Number(isExact(b)) - Number(isExact(a)));
  const more = links.length - LINKS_MAX;
  return (
    <>
      <Title>Search</Title>
      {links.length > 0 && (
        <ul class="links">
          {exactFirst.slice(0, LINKS_MAX).map(([what, name, href]) => (
            <li key={href}>
              <span class="hint">{what}</span> <a href={href}>{name}</a>
            </li>
          ))}
          {more > 0 && <li class="hint">and {more.toLocaleString("en")} more</li>}
        </ul>
      )}
      <Table
        caption={wanted === "" ? "Search results" : `Allocations with “${wanted}”`}
        columns={OF_ALL}
        rows={rows}
        keyOf={({ row }) => row[0] + row[1]}
        empty={
          wanted === ""
            ? "Type an address or a part of one, a MAC, or the name of a VM, pod, claim, node, container or network."
            : `No allocation has “${wanted}”.`
        }
      />
    </>
  );
}

/** Many are in this order anyway, mostly, and are not worth the time. */
function sortFew(entries: readonly Entry[]): readonly Entry[] {
  return entries.length > ROWS_OF_SLICE ? entries : sortEntries(entries);
}

/** More say that the text is too short. */
const LINKS_MAX = 20;

function isFound(entry: Entry, wanted: string): boolean {
  const [network, address, , owner, vm, , , uses] = entry.row;
  if (address.includes(wanted) || network.toLowerCase().includes(wanted)) return true;
  if (vm.toLowerCase().includes(wanted) || holderText(owner).toLowerCase().includes(wanted)) return true;
  if (vm !== "" && `${owner[1]}/${vm}`.toLowerCase().includes(wanted)) return true;
  return uses.some(
    ([container, , node, namespace, pod, , mac]) =>
      isContainer(container.toLowerCase(), wanted) ||
      node.toLowerCase().includes(wanted) ||
      `${namespace}/${pod}`.toLowerCase().includes(wanted) ||
      (isMacText(wanted) && macText(mac).includes(macText(wanted))),
  );
}

/** A part of a MAC: two groups at least, or six digits. Others would be found in every MAC. */
function isMacText(text: string): boolean {
  return /^([0-9a-f]{2}[:-]){1,5}[0-9a-f]{0,2}$|^([0-9a-f]{4}\.){1,2}[0-9a-f]{0,4}$|^[0-9a-f]{6,12}$/.test(text);
}

/** Only the beginning of an ID is known here; people copy all of it. */
function isContainer(known: string, wanted: string): boolean {
  return known.startsWith(wanted) || (known.length === CONTAINER_CHARS && wanted.startsWith(known));
}

/** However it is written. */
function macText(text: string): string {
  return text.toLowerCase().replaceAll(/[^0-9a-f]/g, "");
}
