import type { Command } from "commander";
import type { ClusterHistoryView as HistoryView } from "../../claims/cluster-view/history.ts";
import { allocationColumns } from "../allocation-columns.ts";
import { allAllocations } from "../allocations.ts";
import { addressArgument } from "../arguments.ts";
import { type Client, clientOf, type Query } from "../client.ts";
import { EXIT } from "../failure.ts";
import { shortHolder } from "../holder.ts";
import { formatAge } from "../human.ts";
import { formatOf, printDocument, printList, withOutput } from "../output.ts";
import { note, printable, printError } from "../terminal.ts";

/** `holdfast who ADDRESS`: who holds an address now, in every network that has it. Exit 1 when nobody does. */
export function addWho(program: Command): void {
  withOutput(program.command("who"))
    .description("who holds an address now, and where it is used")
    .argument("<address>", "in any spelling, bare or with its prefix length", addressArgument)
    .option("--network <name>", "only in this network; default: every network that has it")
    .action(async (address: string, { network }: { network?: string }, command: Command) => {
      const client = clientOf(command);
      const items = await allAllocations(client, { address, network });
      const format = formatOf(command);
      if (items.some(({ state }) => state === "Bound")) {
        const columns = allocationColumns(Date.now());
        return printList(format, { items, columns, empty: "" });
      }
      process.exitCode = EXIT.refused;
      if (format === "json" || format === "yaml") await printDocument(format, { items });
      const [cooling] = items;
      const where = cooling?.network ?? network;
      const rest = cooling ? `: it was released ${formatAge(cooling.since, Date.now())} ago and rests` : "";
      printError(`nobody holds ${address}${where === undefined ? "" : ` on network ${where}`}${rest}`, "");
      const last = await lastPeriod(client, { address, network: where });
      note(last ? lastHolderText(last) : "last holder: none in the history");
    });
}

/** Of the latest periods the one that ended last: a claim holds on after its last use. */
async function lastPeriod(client: Client, query: Query): Promise<HistoryView | undefined> {
  const { items } = await client.get<{ items: HistoryView[] }>("/v1/history", { ...query, limit: "100" });
  return items.toSorted(
    (a, b) =>
      endOf(b).localeCompare(endOf(a)) || Number(a.containerID !== null) - Number(b.containerID !== null),
  )[0];
}

function endOf({ until }: HistoryView): string {
  return until ?? "9999";
}

function lastHolderText({ network, owner, until, endedBy }: HistoryView): string {
  const end = until === null ? "" : `, until ${formatAge(until, Date.now())} ago (${endedBy ?? "unknown"})`;
  return printable(`last holder: ${shortHolder(owner)} on network ${network}${end}`);
}
