import type { Command } from "commander";
import type { OwnerChain, OwnerLink, PastPeriod } from "../../admin/admin-api.ts";
import type { AllocationView } from "../../allocations/records.ts";
import type { IdentityAnswer, IdentityInterface, IdentityPod } from "../../identity/wire.ts";
import { isMachine } from "../../ipam/owner.ts";
import type { PlaceKind } from "../../ipam/place-of-address.ts";
import { COOLDOWN_SECONDS_DEFAULT } from "../../ipam/space/cooldown.ts";
import { type Clock, isoTime, parseTime } from "../../platform/time.ts";
import { allocationColumns } from "../allocation-columns.ts";
import { addressArgument } from "../arguments.ts";
import { clientOf } from "../choose-client.ts";
import type { Client, Query } from "../client.ts";
import { CommandError, EXIT } from "../failure.ts";
import type { Column } from "../formats/table.ts";
import { distinct, shortContainerId, shortHolder } from "../holder.ts";
import { formatAge } from "../human.ts";
import { refuseUnknownNetwork } from "../known-names.ts";
import { formatOf, isDocument, isTable, printDocument, printList, withList } from "../output.ts";
import { allAllocations } from "../pages.ts";
import { note, print, printable, printError } from "../terminal.ts";

const SUBJECTS = ["pod", "vm", "container"] as const;

type Options = { readonly network?: string } & { readonly [Subject in (typeof SUBJECTS)[number]]?: string };

/** Exit 1 when it is free or cools down. */
export function addWho(program: Command, clock: Clock): void {
  withList(program.command("who"))
    .description("who holds an address now, and where it is used")
    .usage("[options] <address> | --pod <name> | --vm <name> | --container <id>")
    .argument("[address]", "in any spelling, bare or with its prefix length", addressArgument)
    .option("--network <name>", "only in this network; default: every network that has it")
    .option("--pod <name>", "the addresses and the VM of a pod: namespace/name, or a name in any namespace")
    .option("--vm <name>", "the addresses and the pods of a VM")
    .option("--container <id>", "the addresses of a container, by its whole ID")
    .action(async (address: string | undefined, options: Options, command: Command) => {
      const subjects = SUBJECTS.filter((subject) => options[subject] !== undefined);
      if (address === undefined && subjects.length === 0) command.error("error: missing required argument 'address'");
      if (
        subjects.length + (address === undefined ? 0 : 1) > 1 ||
        (subjects.length > 0 && options.network !== undefined)
      )
        command.error(
          "error: expected one address (with --network, if need be), or one of --pod, --vm and --container",
        );
      const [subject] = subjects;
      if (subject === undefined)
        await whoHolds(clock, { address: address as string, network: options.network }, command);
      else await whoIs({ [subject]: options[subject] }, command);
    });
}

async function whoIs(query: Query, command: Command): Promise<void> {
  const answer = await clientOf(command).get("/v1/identity", query);
  const items = rowsOf([answer]);
  const columns = identityColumns(items);
  await printList(command, { items, columns, empty: "", document: answer });
  if (answer.identity.state === "released-recently") process.exitCode = EXIT.refused;
}

async function whoHolds(
  clock: Clock,
  { address, network }: { readonly address: string; readonly network: string | undefined },
  command: Command,
): Promise<void> {
  const client = clientOf(command);
  const items = await allAllocations(clock, client, { address, network });
  const format = formatOf(command);
  const identities = format === "table" ? [] : await identitiesOf(client, address, items);
  const owners = await ownersOf(client, { address, network }, items);
  const document = {
    items,
    ...(identities.length === 0 ? {} : { identities }),
    ...(owners.length === 0 ? {} : { owners }),
  };
  if (items.some(({ state }) => state !== "Cooling")) {
    await printList(command, { items, columns: allocationColumns(clock.wallMs()), empty: "", document });
    if (isTable(format)) for (const one of owners) print(`${chainText(one)}\n`);
    if (format !== "wide" || identities.length === 0) return;
    print("\n");
    const rows = rowsOf(identities);
    return printList(command, { items: rows, columns: identityColumns(rows), empty: "" });
  }
  process.exitCode = EXIT.refused;
  if (isDocument(format)) await printDocument(command, document);
  const [cooling] = items;
  const where = cooling?.network ?? network;
  if (network !== undefined) await refuseUnknownNetwork(client, network);
  const rest = cooling ? `: ${await cooldownText(client, cooling, clock.wallMs())}` : "";
  const what = cooling ? "" : await whatItIs(client, address, network);
  printError(`nobody holds ${address}${where === undefined ? "" : ` on network ${where}`}${rest}${what}`, "");
  const last = await lastPeriod(client, { address, network: where });
  note(last ? lastHolderText(last, clock.wallMs()) : "last holder: none in the history");
}

/**
 * `it was released 12s ago and is in its cool-down for another 48s`. The record of a release outlives the cool-down, so
 * that is computed. A daemon without Kubernetes begins every cool-down again when it starts.
 */
async function cooldownText(client: Client, { network, since }: AllocationView, nowMs: number): Promise<string> {
  const status = client.kind === "node" ? await client.get("/v1/status") : null;
  const { items } = await client.get("/v1/networks");
  const seconds = items.find(({ name }) => name === network)?.cooldownSeconds ?? COOLDOWN_SECONDS_DEFAULT;
  const startMs = status?.mode === "standalone" ? parseTime(status.since) : 0;
  // A release in the future is of a machine whose clock is ahead of this one.
  const beginMs = Math.min(nowMs, Math.max(parseTime(since), startMs));
  const endMs = beginMs + seconds * 1_000;
  const released = `it was released ${formatAge(since, nowMs)} ago`;
  if (nowMs >= endMs) return `${released}, and its cool-down of ${seconds} s is over`;
  return `${released} and is in its cool-down for another ${formatAge(isoTime(nowMs), endMs)}`;
}

const PLACES: Readonly<Record<PlaceKind, string>> = {
  gateway: "the gateway of {network}, which is never given",
  "network-address": "the network address of {subnet} of {network}, which is never given",
  broadcast: "the broadcast address of {subnet} of {network}, which is never given",
  anycast: "the subnet-router anycast address of {subnet} of {network}, which is never given",
  excluded: "excluded in {network}, so that it is never given",
  reserved: "reserved in {network}: given only when it is asked for",
  "outside-range": "in {subnet} of {network}, outside the range that is given",
  free: "free in {network}",
};
const NETWORKS_SHOWN_MAX = 5;

/** `: it is the gateway of network blue, which is never given`; in no network: the networks that there are. */
async function whatItIs(client: Client, address: string, network: string | undefined): Promise<string> {
  const { items } = await client.get("/v1/places", { address });
  const places = items.filter((one) => network === undefined || one.network === network);
  if (places.length > 0) {
    const texts = places.map((one) =>
      PLACES[one.kind].replace("{network}", `network ${one.network}`).replace("{subnet}", one.subnet),
    );
    return `: it is ${texts.join("; ")}`;
  }
  if (network !== undefined) return ": it is in none of its subnets";
  const { items: networks } = await client.get("/v1/networks");
  if (networks.length === 0) return ": there are no networks";
  const known = networks
    .slice(0, NETWORKS_SHOWN_MAX)
    .map(({ name, ranges }) => `${name} (${ranges.flatMap(({ subnets }) => subnets).join(", ") || "no ranges"})`);
  const more = networks.length > NETWORKS_SHOWN_MAX ? ` and ${networks.length - NETWORKS_SHOWN_MAX} more` : "";
  return `: it is in no network; there are ${known.join(", ")}${more}`;
}

async function identitiesOf(
  client: Client,
  address: string,
  items: readonly AllocationView[],
): Promise<IdentityAnswer[]> {
  const identities: IdentityAnswer[] = [];
  for (const { network } of items) {
    try {
      identities.push(await client.get("/v1/identity", { address, network }));
    } catch (error) {
      // Released since the allocations were read.
      if (!(error instanceof CommandError && error.code === "NOT_FOUND")) throw error;
    }
  }
  return identities;
}

/** Of machines among the holders, which only a cluster knows. */
async function ownersOf(
  client: Client,
  query: Query,
  items: readonly AllocationView[],
): Promise<readonly OwnerChain[]> {
  const isAsked = client.kind === "cluster" && items.some(({ owner }) => isMachine(owner.kind));
  return isAsked ? (await client.get("/v1/owners", query)).items : [];
}

const LINK_STATES: Readonly<Record<OwnerLink["state"], string>> = {
  there: "",
  gone: " (gone)",
  "not-read": " (not read)",
  "to-come": " (to come)",
};

/** `IPAddressClaim metal/m0-blue, owned by Metal3Data nodes-0, owned by Metal3Machine m0; cluster metal/prod`. */
function chainText({ owners, cluster }: OwnerChain): string {
  const texts = owners.map(
    ({ kind, namespace, name, state }, index) =>
      `${kind} ${index === 0 ? `${namespace}/` : ""}${name}${LINK_STATES[state]}`,
  );
  return printable(`${texts.join(", owned by ")}${cluster === null ? "" : `; cluster ${cluster}`}`);
}

/** Of the latest periods, the one that ended last: a claim still holds after its last use. */
async function lastPeriod(client: Client, query: Query): Promise<PastPeriod | undefined> {
  const { items } = await client.get("/v1/history", { ...query, limit: "100" });
  return items.toSorted(
    (a, b) => endOf(b).localeCompare(endOf(a)) || Number(a.containerID !== null) - Number(b.containerID !== null),
  )[0];
}

function endOf({ until }: PastPeriod): string {
  return until ?? "9999";
}

function lastHolderText({ network, owner, until, endedBy }: PastPeriod, nowMs: number): string {
  const end = until === null ? "" : `, until ${formatAge(until, nowMs)} ago (${endedBy ?? "unknown"})`;
  return printable(`last holder: ${shortHolder(owner)} on network ${network}${end}`);
}

interface IdentityRow {
  readonly answer: IdentityAnswer;
  readonly interface: IdentityInterface;
}

function rowsOf(answers: readonly IdentityAnswer[]): IdentityRow[] {
  return answers.flatMap((answer) => answer.identity.interfaces.map((one) => ({ answer, interface: one })));
}

/** One line per interface. */
function identityColumns(rows: readonly IdentityRow[]): Column<IdentityRow>[] {
  const isAsked = rows.some((row) => row.interface.asked !== undefined);
  const asked: Column<IdentityRow> = {
    header: "ASKED FOR",
    cell: (row) => row.interface.asked?.join(",") ?? "",
  };
  const vm = ({ answer }: IdentityRow) => answer.identity.vm;
  const pods = ({ answer }: IdentityRow) => answer.identity.pods;
  return [
    { header: "NETWORK", cell: (row) => row.interface.network },
    { header: "INTERFACE", cell: (row) => row.interface.interface ?? "" },
    { header: "ADDRESSES", cell: (row) => row.interface.addresses.map(({ address }) => address).join(",") },
    ...(isAsked ? [asked] : []),
    { header: "CLAIM", cell: (row) => row.interface.claim ?? "" },
    { header: "VM", cell: (row) => nameOf(vm(row)) },
    { header: "USED BY", only: "table", cell: (row) => distinct(pods(row).map(userOf)) },
    { header: "POD", only: "wide", cell: (row) => distinct(pods(row).flatMap((one) => nameOf(one) || [])) },
    { header: "CONTAINER", only: "wide", cell: (row) => distinct(pods(row).map((one) => one.containerID)) },
    { header: "NODE", cell: (row) => distinct(pods(row).map(({ node }) => node)) },
    { header: "MAC", only: "wide", cell: (row) => row.interface.mac ?? "" },
    { header: "VM UID", only: "wide", cell: (row) => vm(row)?.uid ?? "" },
    { header: "VMI UID", only: "wide", cell: (row) => vm(row)?.vmiUid ?? "" },
    { header: "FIRMWARE UUID", only: "wide", cell: (row) => vm(row)?.firmwareUuid ?? "" },
    { header: "STATE", cell: ({ answer }) => answer.identity.state },
  ];
}

function userOf(pod: IdentityPod): string {
  const name = nameOf(pod);
  return name === "" ? `container ${shortContainerId(pod.containerID)}` : `pod ${name}`;
}

function nameOf(object: { readonly namespace: string | null; readonly name: string | null } | null): string {
  return object?.name ? `${object.namespace}/${object.name}` : "";
}
