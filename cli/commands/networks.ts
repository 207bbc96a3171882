import type { Command } from "commander";
import type { NetworkView } from "../../store/records.ts";
import { clientOf } from "../client.ts";
import { rangeColumns, rangeLines } from "../network-ranges.ts";
import { formatOf, printList, withOutput } from "../output.ts";

/** `holdfast networks`: every network, a line for each of its ranges. */
export function addNetworks(program: Command): void {
  withOutput(program.command("networks"))
    .description("every network, its ranges and how full they are")
    .action(async (_options: unknown, command: Command) => {
      const { items } = await clientOf(command).get<{ items: NetworkView[] }>("/v1/networks");
      await printList(formatOf(command), {
        items: items.flatMap(rangeLines),
        columns: rangeColumns(),
        empty:
          "no networks: apply a NetworkAttachmentDefinition (holdfast apply -f), or attach a first container",
        document: { items },
      });
    });
}
