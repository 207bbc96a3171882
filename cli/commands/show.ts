import type { Command } from "commander";
import type { NetworkWithClaims } from "../../admin/admin-api.ts";
import type { AllocationView, RangeView } from "../../allocations/records.ts";
import type { Clock } from "../../platform/time.ts";
import { allocationColumns } from "../allocation-columns.ts";
import { clientOf } from "../choose-client.ts";
import { CommandError } from "../failure.ts";
import { count, formatCount } from "../human.ts";
import { refuseUnknownNetwork } from "../known-names.ts";
import { ownerText, sourceText } from "../network-ranges.ts";
import { printList, withList } from "../output.ts";
import { pagesOf } from "../pages.ts";
import { printable } from "../terminal.ts";

export function addShow(program: Command, clock: Clock): void {
  withList(program.command("show"))
    .description("one network: definition, counts and holders")
    .argument("<network>", "name of the network, as `holdfast networks` shows it")
    .action(async (name: string, _options: unknown, command: Command) => {
      const client = clientOf(command);
      const network = await client.get(`/v1/networks/${encodeURIComponent(name)}`).catch(async (error: unknown) => {
        if (error instanceof CommandError && error.code === "NOT_FOUND") await refuseUnknownNetwork(client, name);
        throw error;
      });
      const holders = new Set<string>();
      const pages = counting(holders, pagesOf(clock, client, "/v1/allocations", { network: name }));
      await printList(command, {
        items: pages,
        columns: allocationColumns(clock.wallMs()).filter(({ header }) => header !== "NETWORK"),
        name: ({ address }) => address,
        empty: "no allocations",
        above: () => factsOf(network, holders.size),
        around: { network },
        key: "allocations",
      });
    });
}

/** The same pages, whose holders are counted as they pass. */
async function* counting(
  holders: Set<string>,
  pages: AsyncIterable<readonly AllocationView[]>,
): AsyncGenerator<readonly AllocationView[]> {
  for await (const items of pages) {
    for (const { state, owner } of items) if (state === "Bound") holders.add(`${owner.uid} ${owner.interface}`);
    yield items;
  }
}

function factsOf(network: NetworkWithClaims, holders: number): string {
  const facts: [string, string][] = [
    ["Network", network.name],
    ["Defined by", sourceText(network)],
  ];
  if (network.definedIn !== undefined) {
    const shared = network.sharedWith?.length ? `, shared with ${network.sharedWith.join(", ")}` : "";
    facts.push(["Owner", `${ownerText(network)}${shared}`]);
  }
  if (network.source !== "none") {
    facts.push(["Persistent IPs", network.allowPersistentIPs ? "allowed" : "not allowed"]);
    facts.push(["Cool-down", `${network.cooldownSeconds} s`]);
    if (network.retainSeconds > 0) facts.push(["Retention", `${network.retainSeconds} s`]);
    if (network.imported !== undefined)
      facts.push(["Imported", network.imported ? "yes" : "not yet: no address is given"]);
  }
  if (network.metadata !== undefined) facts.push(["Metadata", `on, tokens ${network.metadata.tokens}`]);
  facts.push(["Attachments", String(network.attachments)]);
  for (const range of network.ranges) facts.push(["Range", rangeText(range)]);
  if (network.outside !== "0") {
    facts.push([
      "Outside",
      `${count(BigInt(network.outside), "allocation")} in none of the ranges: kept, but not given again`,
    ]);
  }
  facts.push(["Holders", String(holders)]);
  const widest = Math.max(...facts.map(([label]) => label.length));
  return `${facts.map(([label, text]) => `${`${label}:`.padEnd(widest + 2)} ${printable(text)}\n`).join("")}\n`;
}

function rangeText(range: RangeView): string {
  const { subnets, gateways, size, allocated, retained, cooling, free, excluded } = range;
  const gateway = gateways.length === 0 ? "" : `, gateway ${gateways.join(", ")}`;
  const [all, held, cooled, left, out] = [size, allocated, cooling, free, excluded].map(formatCount);
  const kept = retained === "0" ? "" : ` + ${formatCount(retained)} retained`;
  return `${subnets.join(", ")}${gateway}: ${held} allocated${kept} + ${cooled} cooling + ${left} free + ${out} excluded = ${all}`;
}
