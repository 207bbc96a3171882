import type { FreeAddresses, PastPeriod } from "../../admin/admin-api.ts";
import { parseAddress, parseCidr } from "../pictures/addresses.ts";
import { useAnswer } from "./ask.ts";
import { has, stateOf } from "./counts.ts";
import { isIn, runsIn } from "./free-runs.ts";
import type { Entry, Ledger } from "./ledger.ts";
import { Ago, Command, Facts, Mark, now, Title } from "./parts.tsx";
import { Past, pastPath } from "./past.tsx";
import { linkTo } from "./place.ts";
import { holderText, sentenceOf, timeText, useText, vmOf } from "./words.ts";

interface AddressProps {
  readonly ledger: Ledger;
  readonly network: string;
  readonly address: string;
}

export function AddressPage({ ledger, network, address }: AddressProps) {
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
      <Past answer={past.value} label={`Who had ${address}`} isNode={ledger.hello.value?.kind === "node"} />
    </>
  );
}

function factsOf(entry: Entry, state: ReturnType<typeof stateOf>) {
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
    ...uses.map(
      (use) =>
        [
          "Used by",
          <span key={use[0] + use[1]}>
            {useText(use)}, interface {use[1]}
            {use[2] !== "" && (
              <>
                {" on "}
                <a href={linkTo.node(use[2])}>{use[2]}</a>
              </>
            )}
            , container {use[0].slice(0, 12)}, <Ago time={use[5]} />
            {use[6] !== "" && `, MAC ${use[6]}`}
          </span>,
        ] as const,
    ),
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
  if (parsed === null) return <p class="sentence">{address} is no address.</p>;
  if (!isOurs) return <p class="sentence">{`${address} is in no subnet of network ${network}.`}</p>;
  if (view?.ranges.some(({ gateways }) => gateways.includes(address)))
    return (
      <p class="sentence">{`${address} is a gateway of network ${network}: it is never given to anybody.`}</p>
    );
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
