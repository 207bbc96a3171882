import { useEffect } from "preact/hooks";
import type { FreeAddresses, PastPeriod } from "../../admin/admin-api.ts";
import { type CooldownDefinition, cooldownEndMs } from "../../ipam/space/cooldown.ts";
import { formatAddress, parseAddress, parseCidr } from "../pictures/addresses.ts";
import type { AddressState } from "../pictures/states.ts";
import type { TimePeriod } from "../pictures/time-line.ts";
import { useAnswer } from "./ask.ts";
import { has, stateOf } from "./counts.ts";
import { isIn, runsIn } from "./free-runs.ts";
import type { Entry, Ledger } from "./ledger.ts";
import { Ago, Command, Facts, Mark, now, Title } from "./parts.tsx";
import { Past, pastPath } from "./past.tsx";
import { go, linkTo } from "./place.ts";
import { holderText, sentenceOf, timeText, vmOf } from "./words.ts";

interface AddressProps {
  readonly ledger: Ledger;
  readonly network: string;
  readonly address: string;
}

export function AddressPage({ address, ...more }: AddressProps) {
  const parsed = parseAddress(address);
  const canonical = parsed === null ? address : formatAddress(parsed);
  // The same address in other words has the same page.
  useEffect(() => {
    if (canonical !== address) go(linkTo.address(more.network, canonical), { replace: true });
  }, [canonical, address]);
  return <OneAddress address={canonical} {...more} />;
}

function OneAddress({ ledger, network, address }: AddressProps) {
  ledger.version.value;
  const view = ledger.networks.value?.find(({ name }) => name === network);
  const known = ledger.of(network).get(address);
  const state = known === undefined ? "free" : stateOf(known, view ?? null, now.value);
  const entry = state === "free" ? undefined : known;
  const past = useAnswer<{ items: readonly PastPeriod[] }>(
    pastPath(network, address),
    JSON.stringify(entry?.row ?? null),
  );
  return (
    <>
      <Title
        above={
          <>
            <a href="/">Networks</a> › <a href={linkTo.network(network)}>{network}</a>
          </>
        }
      >
        {address}
      </Title>
      {entry === undefined ? (
        <NotHeld ledger={ledger} network={network} address={address} />
      ) : (
        <>
          <p class="sentence">{sentenceOf(entry, view ?? null)}</p>
          <Facts facts={factsOf(entry, state)} />
        </>
      )}
      <h2>History</h2>
      <Past
        present={presentOf(entry, state, view ?? null)}
        answer={past.value}
        label={`Who had ${address}`}
        isNode={ledger.hello.value?.kind === "node"}
      />
    </>
  );
}

function presentOf(entry: Entry | undefined, state: AddressState, definition: CooldownDefinition): TimePeriod | null {
  if (entry === undefined || (state !== "cooling" && state !== "reserved")) return null;
  const [, , , , , since, until] = entry.row;
  const from = Date.parse(since);
  const end = until === "" ? cooldownEndMs(definition, from) : Date.parse(until);
  const label = state === "cooling" ? "cools down" : "reserved";
  return { from, until: end, lane: label, label, endedBy: null, state };
}

function factsOf(entry: Entry, state: AddressState) {
  const [, , , owner, , since, until, uses] = entry.row;
  const vm = vmOf(entry);
  return [
    ["State", <Mark key="state" state={state} />],
    [state === "cooling" || state === "reserved" ? "Last holder" : "Holder", holderText(owner)],
    ...(vm === null
      ? []
      : [
          [
            "VM",
            <a key="vm" href={linkTo.vm(vm)}>
              {vm}
            </a>,
          ] as const,
        ]),
    ["Since", <Ago key="since" time={since} />],
    ...(until === "" ? [] : [["Reserved until", timeText(until)] as const]),
    ...uses.flatMap(([container, ifname, node, podNamespace, pod, began, mac]) => [
      ...(pod === "" ? [] : [["Pod", `${podNamespace}/${pod}`] as const]),
      ["Container", `${container.slice(0, 12)}, interface ${ifname}`] as const,
      ...(node === ""
        ? []
        : [
            [
              "Node",
              <a key={node} href={linkTo.node(node)}>
                {node}
              </a>,
            ] as const,
          ]),
      ...(mac === "" ? [] : [["MAC", mac] as const]),
      ["Used since", <Ago key={container} time={began} />] as const,
    ]),
  ] as const;
}

/** Free, never given, or none of the network's. */
function NotHeld({ ledger, network, address }: AddressProps) {
  const view = ledger.networks.value?.find(({ name }) => name === network);
  const parsed = parseAddress(address);
  const subnet = view?.ranges
    .flatMap(({ subnets }) => subnets)
    .map(parseCidr)
    .find((one) => one !== null && parsed !== null && has(one, parsed));
  const isOurs = subnet !== undefined && subnet !== null && parsed !== null;
  const path = `/v1/networks/${encodeURIComponent(network)}/free?count=0&counted=false&subnet=${encodeURIComponent(address)}`;
  const bits = parsed?.family === 6 ? 128 : 32;
  const free = useAnswer<FreeAddresses>(isOurs ? `${path}%2F${bits}` : null).value;
  if (view === undefined) return <p class="sentence">{`There is no network ${network}.`}</p>;
  if (parsed === null) return <p class="sentence">{address} is no address.</p>;
  if (!isOurs) return <p class="sentence">{`${address} is in no subnet of network ${network}.`}</p>;
  if (view?.ranges.some(({ gateways }) => gateways.includes(address)))
    return <p class="sentence">{`${address} is a gateway of network ${network}: it is never given to anybody.`}</p>;
  if (free.kind !== "answered") return <p class="progress">Asking …</p>;
  return isIn(runsIn(free.body.ranges), parsed) ? (
    <>
      <p class="sentence">{`${address} is free on network ${network}.`}</p>
      <p class="hint">
        What is given next: <Command>{`holdfast free ${network}`}</Command>
      </p>
    </>
  ) : (
    <p class="sentence">{`${address} is excluded on network ${network}: its definition never gives it.`}</p>
  );
}
