import { useCallback, useMemo, useRef } from "preact/hooks";
import type { CooldownDefinition } from "../../ipam/space/cooldown.ts";
import { addressCells, addressMapCells, MAP_ADDRESSES_MAX, pictureOf } from "../pictures/address-map.ts";
import { type Cidr, formatAddress, parseAddress } from "../pictures/addresses.ts";
import { countText } from "../pictures/bar.ts";
import { type Interval, intervalRows } from "../pictures/intervals.ts";
import { type AddressState, STATE_SWATCHES } from "../pictures/states.ts";
import { countByTile, tileFirst, tileIndex, tilesOf } from "../pictures/tiles.ts";
import { has, stateOf } from "./counts.ts";
import { isIn, type Run, within } from "./free-runs.ts";
import type { Entry } from "./ledger.ts";
import { now } from "./parts.tsx";
import { CellMap } from "./pictures.tsx";
import { go, linkTo } from "./place.ts";
import { eachSliced } from "./sliced.ts";
import { type Column, Table } from "./table.tsx";
import { holderText } from "./words.ts";

interface SpaceProps {
  readonly network: string;
  readonly subnet: Cidr;
  readonly gateways: readonly string[];
  readonly definition: CooldownDefinition;
  /** Who has an address of it, by the number of the address. */
  readonly held: ReadonlyMap<bigint, Entry>;
  /** What the definition leaves free, in order; null: not known yet. */
  readonly base: readonly Run[] | null;
}

const TILE_PREFIX = 24;

/** As people picture it: a cell for each address, a tile for each /24, or what is held of more than could be drawn. */
export function AddressSpace(props: SpaceProps) {
  const picture = pictureOf(props.subnet);
  // Without the definition's free space nobody can tell what is free.
  if (props.base === null && picture !== "tiles") return <p class="progress">Not known yet.</p>;
  if (picture === "addresses") return <Addresses {...props} />;
  if (picture === "tiles") return <TilesOfSubnet {...props} />;
  return <Intervals {...props} />;
}

function Addresses({ network, subnet, gateways, definition, held, base }: SpaceProps) {
  const nowMs = now.value;
  const size = Number(subnet.last - subnet.first + 1n);
  const cells = useMemo(() => {
    const stateAt = (value: bigint): AddressState => {
      const entry = held.get(value);
      const state = entry === undefined ? "free" : stateOf(entry, definition, nowMs);
      if (state !== "free") return state;
      if (gateways.includes(formatAddress({ family: subnet.family, value }))) return "gateway";
      return base === null || isIn(base, { family: subnet.family, value }) ? "free" : "excluded";
    };
    return addressCells({ first: subnet.first, size, stateOf: stateAt });
  }, [held, base, nowMs]);
  const mapCells = useMemo(() => addressMapCells(cells), [cells]);
  const labelOf = useCallback(
    (index: number) => {
      const cell = cells[index];
      if (cell === undefined) return "";
      const entry = held.get(cell.value);
      const holder = entry === undefined || cell.state === "free" ? "" : `, ${holderText(entry.row[3])}`;
      const plain = formatAddress({ family: subnet.family, value: cell.value });
      return `${plain}: ${STATE_SWATCHES[cell.state].label}${holder}`;
    },
    [cells, held],
  );
  const open = useCallback(
    (index: number) => {
      const value = subnet.first + BigInt(index);
      go(linkTo.address(network, formatAddress({ family: subnet.family, value })));
    },
    [network, subnet],
  );
  const rowLabelOf = useCallback(
    (index: number) => lastPart(formatAddress({ family: subnet.family, value: subnet.first + BigInt(index) })),
    [subnet],
  );
  const changed = useChanged(held.values(), ({ value }) => Number(value - subnet.first));
  return (
    <CellMap
      cells={mapCells}
      label={`Addresses of ${textOf(subnet)}: arrow keys move, Enter opens`}
      labelOf={labelOf}
      rowLabelOf={rowLabelOf}
      changed={changed}
      onOpen={open}
    />
  );
}

function TilesOfSubnet({ network, subnet, held }: SpaceProps) {
  const tiles = useMemo(
    () => tilesOf(subnet.first, subnet.prefixLength, countByTile(subnet.first, held.keys())),
    [held],
  );
  const tileText = (index: number) =>
    `${formatAddress({ family: subnet.family, value: tileFirst(subnet.first, index) })}/${TILE_PREFIX}`;
  const labelOf = useCallback((index: number) => `${tileText(index)}: ${tiles.used[index]} of 256 held`, [tiles]);
  const open = useCallback((index: number) => go(linkTo.part(network, tileText(index))), [network, subnet]);
  const rowLabelOf = useCallback(
    (index: number) => formatAddress({ family: 4, value: tileFirst(subnet.first, index) }).replace(/\.0$/, ""),
    [subnet],
  );
  const changed = useChanged(held.values(), ({ value }) => tileIndex(subnet.first, value));
  return (
    <CellMap
      cells={tiles}
      label={`${textOf(subnet)}, a tile for each /24: arrow keys move, Enter opens`}
      labelOf={labelOf}
      rowLabelOf={rowLabelOf}
      changed={changed}
      onOpen={open}
    />
  );
}

function Intervals({ network, subnet, gateways, held, base }: SpaceProps) {
  const rows = useMemo(() => {
    return intervalRows(subnet, sortedKeys(held)).flatMap((row) => spaces(row, subnet, base, gateways));
  }, [held, base]);
  const columns = useMemo(() => spaceColumns(network, subnet), [network, subnet]);
  return (
    <Table
      caption={`What is held of ${textOf(subnet)}`}
      columns={columns}
      rows={rows}
      keyOf={({ first }) => String(first)}
      empty=""
    />
  );
}

/** A part of a subnet, and what it is: how many of it are held, free, or never given. */
interface Space {
  readonly first: bigint;
  readonly last: bigint;
  readonly what: string;
}

/** Not everything that nobody holds can be given. */
function spaces(row: Interval, subnet: Cidr, base: readonly Run[] | null, gateways: readonly string[]): Space[] {
  const { kind, first, last, size, held } = row;
  if (kind === "held") return [{ first, last, what: size === BigInt(held) ? "held" : `${held} held` }];
  if (base === null) return [{ first, last, what: "free" }];
  const free = within(base, { ...subnet, first, last });
  const found: Space[] = [];
  let next = first;
  const known = gateways.map(parseAddress).flatMap((one) => (one?.family === subnet.family ? [one.value] : []));
  const never = (until: bigint) => {
    for (const gateway of known.filter((one) => one >= next && one <= until).sort()) {
      if (gateway > next) found.push({ first: next, last: gateway - 1n, what: "excluded" });
      found.push({ first: gateway, last: gateway, what: "gateway" });
      next = gateway + 1n;
    }
    if (until >= next) found.push({ first: next, last: until, what: "excluded" });
  };
  for (const run of free) {
    never(run.first - 1n);
    found.push({ first: run.first, last: run.last, what: "free" });
    next = run.last + 1n;
  }
  never(last);
  return found;
}

function spaceColumns(network: string, subnet: Cidr): Column<Space>[] {
  const text = (value: bigint) => formatAddress({ family: subnet.family, value });
  return [
    {
      head: "From",
      cell: ({ first }) => <a href={linkTo.address(network, text(first))}>{text(first)}</a>,
      text: ({ first }) => text(first),
      order: ({ first }) => first,
    },
    { head: "To", cell: ({ last }) => text(last), text: ({ last }) => text(last), order: ({ last }) => last },
    { head: "State", cell: ({ what }) => what, text: ({ what }) => what },
    {
      head: "Addresses",
      isNumber: true,
      cell: ({ first, last }) => countText(last - first + 1n),
      text: ({ first, last }) => String(last - first + 1n),
      order: ({ first, last }) => last - first,
    },
  ];
}

export function isSmall({ first, last }: Cidr): boolean {
  return last - first < BigInt(MAP_ADDRESSES_MAX);
}

export function* heldIn(entries: ReadonlyMap<string, Entry>, subnet: Cidr): Generator<void, Map<bigint, Entry>> {
  const held = new Map<bigint, Entry>();
  yield* eachSliced(entries.values(), (entry) => {
    if (has(subnet, entry)) held.set(entry.value, entry);
  });
  return held;
}

export function sortedKeys(held: ReadonlyMap<bigint, Entry>): bigint[] {
  return [...held.keys()].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
}

export function textOf({ family, first, prefixLength }: Cidr): string {
  return `${formatAddress({ family, value: first })}/${prefixLength}`;
}

/** `.48`: the rest is the same in all rows, mostly. */
function lastPart(address: string): string {
  return address.slice(Math.max(address.lastIndexOf("."), address.lastIndexOf(":")));
}

/** The cells of entries that have changed since the last picture: they flash once. */
function useChanged(entries: Iterable<Entry>, indexOf: (entry: Entry) => number): ReadonlySet<number> {
  const seenMs = useRef(performance.now());
  const changed = new Set<number>();
  let newestMs = seenMs.current;
  for (const entry of entries) {
    if (entry.changedMs <= seenMs.current) continue;
    changed.add(indexOf(entry));
    newestMs = Math.max(newestMs, entry.changedMs);
  }
  seenMs.current = newestMs;
  return changed;
}
