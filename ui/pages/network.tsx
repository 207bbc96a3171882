import { useMemo } from "preact/hooks";
import type { FreeAddresses, NetworkWithClaims } from "../../admin/admin-api.ts";
import { cooldownSeconds } from "../../ipam/space/cooldown.ts";
import { pictureOf } from "../pictures/address-map.ts";
import { type Cidr, formatAddress, parseCidr } from "../pictures/addresses.ts";
import { barLabel, countText } from "../pictures/bar.ts";
import { cssColour } from "../pictures/states.ts";
import { HEAT_SWATCHES } from "../pictures/tiles.ts";
import { AddressSpace, heldIn, isSmall, sortedKeys, textOf } from "./address-space.tsx";
import { useAnswer } from "./ask.ts";
import { fullness, has, NEARLY_FULL, type RangeCounts, stateOf, useCounts } from "./counts.ts";
import { OF_NETWORK, sortEntries } from "./entries.tsx";
import { type Run, runsIn, within, without } from "./free-runs.ts";
import type { Entry, Ledger } from "./ledger.ts";
import { ownerText } from "./networks.tsx";
import { Command, Facts, Failed, Legend, now, Title } from "./parts.tsx";
import { Bar } from "./pictures.tsx";
import { linkTo } from "./place.ts";
import { filterSliced, useSliced } from "./sliced.ts";
import { type Column, Table } from "./table.tsx";
import { durationText, percentText } from "./words.ts";

const NOBODY: ReadonlyMap<bigint, Entry> = new Map();
/** More free ranges than these are not read in order: the long ones are what people look for. */
const RUNS_IN_ORDER_MAX = 20;

interface NetworkProps {
  readonly ledger: Ledger;
  readonly name: string;
  /** A part of it; null: all of it. */
  readonly at: string | null;
}

export function NetworkPage({ ledger, name, at }: NetworkProps) {
  const network = ledger.networks.value?.find((one) => one.name === name);
  if (network === undefined)
    return (
      <>
        <Title above={<a href="/">Networks</a>}>{name}</Title>
        <p class="empty">There is no network of this name.</p>
      </>
    );
  return <Network ledger={ledger} network={network} at={at === null ? null : parseCidr(at)} />;
}

interface FoundProps {
  readonly ledger: Ledger;
  readonly network: NetworkWithClaims;
  readonly at: Cidr | null;
}

function Network({ ledger, network, at }: FoundProps) {
  const { name } = network;
  const networks = useMemo(() => [network], [network]);
  const ranges = useCounts(ledger, networks).get(name)?.ranges ?? [];
  // The definition's own free space: what is held is subtracted here, at every change.
  const part = at === null ? "" : `&subnet=${encodeURIComponent(textOf(at))}`;
  const definition = JSON.stringify(network.ranges.map(({ subnets, gateways }) => [subnets, gateways]));
  const path = `/v1/networks/${encodeURIComponent(name)}/free?count=0&counted=false${part}`;
  const free = useAnswer<FreeAddresses>(path, definition).value;
  const base = useMemo(() => (free.kind === "answered" ? runsIn(free.body.ranges) : null), [free]);
  const subnets = useMemo(
    () => (at === null ? network.ranges.flatMap((range) => range.subnets.map(parseCidr)) : [at]),
    [definition, at],
  ).filter((subnet) => subnet !== null);
  const hasTiles = subnets.some((subnet) => !isSmall(subnet) && subnet.family === 4);
  return (
    <>
      <Title
        above={
          <>
            <a href="/">Networks</a>
            {at !== null && (
              <>
                {" › "}
                <a href={linkTo.network(name)}>{name}</a>
              </>
            )}
          </>
        }
      >
        {at === null ? name : textOf(at)}
      </Title>
      {at === null && <About network={network} />}
      {free.kind === "failed" && <Failed problem={free.problem} />}
      {hasTiles && <HeatLegend />}
      {(at === null || subnets.some((subnet) => isSmall(subnet))) && <Legend />}
      {subnets.map((subnet) => (
        <Subnet
          key={textOf(subnet)}
          network={network}
          ledger={ledger}
          range={ranges.find((one) => one.subnets.some((its) => has(its, { ...subnet, value: subnet.first })))}
          subnet={subnet}
          isPart={at !== null}
          base={base}
        />
      ))}
      <h2>Allocations</h2>
      <Allocations ledger={ledger} network={network} at={at} />
    </>
  );
}

function Allocations({ ledger, network, at }: FoundProps) {
  const version = ledger.version.value && ledger.versionOf(network.name);
  const nowMs = now.value;
  const isShown = (one: Entry) => stateOf(one, network, nowMs) !== "free" && (at === null || has(at, one));
  const found = useSliced(() => filterSliced(ledger.of(network.name).values(), isShown), [version, nowMs]);
  const rows = useMemo(() => sortEntries(found ?? []), [found]);
  if (found === null) return <p class="progress">Reading …</p>;
  return (
    <Table
      caption={`Allocations of network ${network.name}`}
      columns={OF_NETWORK}
      rows={rows}
      keyOf={({ plain }) => plain}
      changedMs={(entry) => entry.changedMs}
      empty="Nobody has an address here yet: the first ADD on this network gets one."
    />
  );
}

function About({ network }: { network: NetworkWithClaims }) {
  const { allowPersistentIPs, retainSeconds, sharedWith = [], metadata, routes = [] } = network;
  const gateways = network.ranges.flatMap((range) => range.gateways);
  const facts: (readonly [string, string])[] = [
    ["Definition", definitionText(network.source)],
    ...(network.definedIn === undefined ? [] : [["Owner", ownerText({ network })] as const]),
    ["May be used by", usersText(network.definedIn, sharedWith)],
    ["Gateways", gateways.join(", ") || "none"],
    ["Routes", routes.map(({ dst, gw }) => `${dst}${gw === "" ? "" : ` via ${gw}`}`).join(", ") || "none"],
    ["VMs keep addresses", allowPersistentIPs ? "yes" : "no: allowPersistentIPs is not set"],
    ["Cool-down", durationText(cooldownSeconds(network) * 1_000)],
    ...(retainSeconds === 0
      ? []
      : [["Reserved after its claim is deleted", durationText(retainSeconds * 1_000)] as const]),
    ["Metadata service", metadata === undefined ? "off" : `on, tokens ${metadata.tokens}`],
    ...(network.imported === false ? [["Import", "not finished: no address is given yet"] as const] : []),
    ...(network.outside === "0" ? [] : [["Outside its subnets", `${network.outside} addresses`] as const]),
  ];
  return <Facts facts={facts} />;
}

/** An applied definition is named; otherwise the configuration that the container runtime has counts. */
function definitionText(source: string): string {
  if (source === "runtime") return "the container runtime's configuration";
  return source === "none" ? "none" : source.includes(" ") ? source : `NetworkAttachmentDefinition ${source}`;
}

function usersText(definedIn: string | undefined, sharedWith: readonly string[]): string {
  if (definedIn === undefined) return "everybody on this node";
  if (sharedWith.includes("*") || definedIn === "") return "every namespace";
  return [definedIn, ...sharedWith].map((one) => `namespace ${one}`).join(", ");
}

function HeatLegend() {
  return (
    <p class="legend">
      {HEAT_SWATCHES.map((swatch, level) => (
        <span class="mark" key={swatch.label}>
          <span class={`swatch heat-${level}`} style={{ background: cssColour(swatch) }} aria-hidden="true">
            {swatch.letter}
          </span>
          {swatch.label}
        </span>
      ))}
    </p>
  );
}

interface SubnetProps {
  readonly network: NetworkWithClaims;
  readonly range: RangeCounts | undefined;
  readonly subnet: Cidr;
  /** The page shows this part of a network alone. */
  readonly isPart: boolean;
  readonly ledger: Ledger;
  readonly base: readonly Run[] | null;
}

/** Its picture, and its free ranges beside it. Intervals show both. */
function Subnet({ network, range, subnet, isPart, ledger, base }: SubnetProps) {
  const version = ledger.version.value && ledger.versionOf(network.name);
  const held = useSliced(() => heldIn(ledger.of(network.name), subnet), [version, subnet]) ?? NOBODY;
  const picture = pictureOf(subnet);
  return (
    <section class="subnet">
      {!isPart && range !== undefined && textOf(range.subnets[0] as Cidr) === textOf(subnet) && (
        <Filling range={range} />
      )}
      {!isPart && (range === undefined || range.subnets.length > 1) && <h3>{textOf(subnet)}</h3>}
      {isPart && <h2>{held.size.toLocaleString("en")} held</h2>}
      <div class={picture === "intervals" ? "intervals" : "space"}>
        <AddressSpace
          network={network.name}
          subnet={subnet}
          gateways={range?.range.gateways ?? []}
          definition={network}
          held={held}
          base={base}
        />
        {picture !== "intervals" && <FreeRanges network={network.name} subnet={subnet} held={held} base={base} />}
      </div>
    </section>
  );
}

function Filling({ range }: { range: RangeCounts }) {
  const { counts, subnets } = range;
  const full = fullness(range);
  const idle = countText(counts.idle);
  return (
    <>
      <h2>
        {subnets.map(textOf).join(", ")}
        <span class="hint">{percentText(full)} full</span>
      </h2>
      <Bar counts={counts} />
      <p class="hint">{barLabel(counts)}</p>
      {full >= NEARLY_FULL && counts.idle > 0n && (
        <p>
          {idle} {counts.idle === 1n ? "address is" : "addresses are"} idle: claims hold them, and no container uses
          them. They return when their claims are deleted.
        </p>
      )}
    </>
  );
}

interface FreeProps {
  readonly network: string;
  readonly subnet: Cidr;
  readonly held: ReadonlyMap<bigint, Entry>;
  readonly base: readonly Run[] | null;
}

function FreeRanges({ network, subnet, held, base }: FreeProps) {
  const rows = useSliced(() => freeRuns(base ?? [], subnet, held), [base, held]) ?? [];
  const columns = useMemo(() => freeColumns(network), [network]);
  if (base === null) return <p class="progress">Asking …</p>;
  const isMany = rows.length > RUNS_IN_ORDER_MAX;
  const shown = isMany
    ? rows.toSorted((a, b) => (size(a) === size(b) ? (a.first < b.first ? -1 : 1) : size(a) < size(b) ? 1 : -1))
    : rows;
  return (
    <div class="beside">
      <h3>Free{isMany && <span class="hint">the longest ranges first</span>}</h3>
      <Table
        caption={`Free ranges of ${textOf(subnet)}`}
        columns={columns}
        rows={shown}
        keyOf={({ first }) => String(first)}
        empty={
          <>
            No address is free. Add a range, or see which claims nobody uses:{" "}
            <Command>{`holdfast show ${network}`}</Command>
          </>
        }
      />
    </div>
  );
}

// biome-ignore lint/correctness/useYield: one task, but one of its own
function* freeRuns(base: readonly Run[], subnet: Cidr, held: ReadonlyMap<bigint, Entry>): Generator<void, Run[]> {
  return without(within(base, subnet), sortedKeys(held));
}

const size = ({ first, last }: Run) => last - first + 1n;

function freeColumns(network: string): Column<Run>[] {
  const link = (run: Run, value: bigint) => {
    const text = formatAddress({ family: run.family, value });
    return <a href={linkTo.address(network, text)}>{text}</a>;
  };
  return [
    {
      head: "Addresses",
      cell: (run) =>
        run.first === run.last ? (
          link(run, run.first)
        ) : (
          <>
            {link(run, run.first)} to {link(run, run.last)}
          </>
        ),
      text: runText,
      order: ({ first }) => first,
    },
    {
      head: "Number",
      isNumber: true,
      cell: (run) => countText(size(run)),
      text: (run) => String(size(run)),
      order: size,
    },
  ];
}

function runText({ family, first, last }: Run): string {
  const from = formatAddress({ family, value: first });
  return first === last ? from : `${from} to ${formatAddress({ family, value: last })}`;
}
