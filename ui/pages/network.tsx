import { useMemo } from "preact/hooks";
import type { FreeAddresses, NetworkWithClaims } from "../../admin/admin-api.ts";
import { cooldownSeconds } from "../../ipam/space/rest.ts";
import { pictureOf } from "../pictures/address-map.ts";
import { type Cidr, formatAddress, parseCidr } from "../pictures/addresses.ts";
import { HEAT_SWATCHES } from "../pictures/tiles.ts";
import { AddressSpace, heldIn, isSmall, textOf } from "./address-space.tsx";
import { useAnswer } from "./ask.ts";
import { countRanges, fullness, has, type RangeCounts, stateOf } from "./counts.ts";
import { OF_NETWORK, sortEntries } from "./entries.tsx";
import { type Run, runsIn, within, without } from "./free-runs.ts";
import type { Entry, Ledger } from "./ledger.ts";
import { ownerText } from "./networks.tsx";
import { Command, Facts, Failed, Legend, now, Title } from "./parts.tsx";
import { Bar } from "./pictures.tsx";
import { linkTo } from "./place.ts";
import { type Column, Table } from "./table.tsx";
import { numberText, percentText } from "./words.ts";

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
  const version = ledger.version.value;
  const nowMs = now.value;
  const entries = ledger.of(name);
  const ranges = useMemo(() => countRanges(network, entries, nowMs), [network, version, nowMs]);
  // The definition's own free space: what is held is subtracted here, at every change.
  const part = at === null ? "" : `&subnet=${encodeURIComponent(textOf(at))}`;
  const definition = JSON.stringify(network.ranges.map(({ subnets, gateways }) => [subnets, gateways]));
  const path = `/v1/networks/${encodeURIComponent(name)}/free?count=0&counted=false${part}`;
  const free = useAnswer<FreeAddresses>(path, definition).value;
  const base = useMemo(() => (free.kind === "answered" ? runsIn(free.body.ranges) : null), [free]);
  const rows = useMemo(() => {
    const living = [...entries.values()].filter((one) => stateOf(one, network, nowMs) !== "free");
    return sortEntries(at === null ? living : living.filter((one) => has(at, one)));
  }, [version, nowMs]);
  const subnets = at === null ? ranges.flatMap((range) => range.subnets) : [at];
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
      {subnets.some((subnet) => isSmall(subnet)) && <Legend />}
      {subnets.map((subnet) => (
        <Subnet
          key={textOf(subnet)}
          network={network}
          range={ranges.find((one) =>
            one.subnets.some((its) => has(its, { ...subnet, value: subnet.first })),
          )}
          subnet={subnet}
          isPart={at !== null}
          entries={entries}
          version={version}
          base={base}
        />
      ))}
      <h2>Allocations</h2>
      <Table
        caption={`Allocations of network ${name}`}
        columns={OF_NETWORK}
        rows={rows}
        keyOf={({ plain }) => plain}
        changedMs={(entry) => entry.changedMs}
        empty="Nobody has an address here yet: the first ADD on this network gets one."
      />
    </>
  );
}

function About({ network }: { network: NetworkWithClaims }) {
  const { allowPersistentIPs, retainSeconds, sharedWith = [], metadata, routes = [] } = network;
  const gateways = network.ranges.flatMap((range) => range.gateways);
  const facts: (readonly [string, string])[] = [
    ["Definition", network.source === "runtime" ? "the runtime's configuration" : network.source],
    ["Owner", ownerText({ network })],
    ...(network.definedIn === undefined
      ? []
      : [["May be used by", usersText(network.definedIn, sharedWith)] as const]),
    ["Gateways", gateways.join(", ") || "none"],
    ["Routes", routes.map(({ dst, gw }) => `${dst}${gw === "" ? "" : ` by ${gw}`}`).join(", ") || "none"],
    ["VMs keep addresses", allowPersistentIPs ? "yes" : "no (allowPersistentIPs)"],
    ["Cool-down", `${cooldownSeconds(network)} s`],
    ...(retainSeconds === 0 ? [] : [["Reserved after a claim", `${retainSeconds} s`] as const]),
    ["Metadata service", metadata === undefined ? "off" : `on, tokens ${metadata.tokens}`],
    ...(network.imported === false ? [["Import", "not finished: no address is given yet"] as const] : []),
    ...(network.outside === "0" ? [] : [["Outside its subnets", `${network.outside} addresses`] as const]),
  ];
  return <Facts facts={facts} />;
}

function usersText(definedIn: string, sharedWith: readonly string[]): string {
  if (sharedWith.includes("*") || definedIn === "") return "every namespace";
  return [definedIn, ...sharedWith].map((one) => `namespace ${one}`).join(", ");
}

function HeatLegend() {
  return (
    <p class="legend">
      {HEAT_SWATCHES.map(({ label, letter }, level) => (
        <span class="mark" key={label}>
          <span class={`swatch heat-${level}`} aria-hidden="true">
            {letter}
          </span>
          {label}
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
  readonly entries: ReadonlyMap<string, Entry>;
  readonly version: number;
  readonly base: readonly Run[] | null;
}

/** Its picture, and its free ranges beside it. Intervals show both. */
function Subnet({ network, range, subnet, isPart, entries, version, base }: SubnetProps) {
  const picture = pictureOf(subnet);
  return (
    <section class="subnet">
      {!isPart && (
        <h2>
          {textOf(subnet)}
          {range !== undefined && <span class="hint">{percentText(fullness(range))} full</span>}
        </h2>
      )}
      {!isPart && range !== undefined && range.subnets[0] === subnet && <Bar counts={range.counts} />}
      <div class={picture === "intervals" ? "intervals" : picture === "tiles" ? "space wide" : "space"}>
        <AddressSpace
          network={network.name}
          subnet={subnet}
          gateways={range?.range.gateways ?? []}
          definition={network}
          entries={entries}
          version={version}
          base={base}
        />
        {picture !== "intervals" && (
          <FreeRanges
            network={network.name}
            subnet={subnet}
            entries={entries}
            version={version}
            base={base}
          />
        )}
      </div>
    </section>
  );
}

interface FreeProps {
  readonly network: string;
  readonly subnet: Cidr;
  readonly entries: ReadonlyMap<string, Entry>;
  readonly version: number;
  readonly base: readonly Run[] | null;
}

function FreeRanges({ network, subnet, entries, version, base }: FreeProps) {
  const rows = useMemo(() => {
    const taken = [...heldIn(entries, subnet).keys()].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
    return without(within(base ?? [], subnet), taken);
  }, [base, version]);
  if (base === null) return <p class="progress">Asking …</p>;
  return (
    <div class="beside">
      <h3>Free</h3>
      <Table
        caption={`Free ranges of ${textOf(subnet)}`}
        columns={FREE}
        rows={rows}
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

const size = ({ first, last }: Run) => last - first + 1n;

const FREE: readonly Column<Run>[] = [
  {
    head: "Addresses",
    cell: (run) => runText(run),
    text: runText,
    order: ({ first }) => first,
  },
  {
    head: "Number",
    isNumber: true,
    cell: (run) => numberText(size(run)),
    text: (run) => String(size(run)),
    order: size,
  },
];

function runText({ family, first, last }: Run): string {
  const from = formatAddress({ family, value: first });
  return first === last ? from : `${from} to ${formatAddress({ family, value: last })}`;
}
