import type { Command } from "commander";
import type { NetworkView } from "../../store/records.ts";
import { clientOf } from "../client.ts";
import { rangeColumns, rangeLines } from "../network-ranges.ts";
import { formatOf, printList, withOutput } from "../output.ts";
import { print } from "../terminal.ts";

/** `holdfast networks`: every network, a line for each of its ranges; `networks own` moves one to another namespace. */
export function addNetworks(program: Command): void {
  const networks = withOutput(program.command("networks"));
  networks
    .usage("[options]")
    .description("every network, its ranges and how full they are")
    .action(async (_options: unknown, command: Command) => {
      const { items } = await clientOf(command).get<{ items: NetworkView[] }>("/v1/networks");
      await printList(formatOf(command), {
        items: items.flatMap(rangeLines),
        columns: rangeColumns(items),
        empty:
          "no networks: apply a NetworkAttachmentDefinition (holdfast apply -f), or attach a first container",
        document: { items },
      });
    });
  networks
    .command("own")
    .description("in a cluster: gives a network to another namespace, whose definition counts from then on")
    .argument("<network>", "name of the network, as `holdfast networks` shows it")
    .requiredOption("-n, --namespace <namespace>", "the namespace that it belongs to from now on")
    .action(async (name: string, { namespace }: { namespace: string }, command: Command) => {
      const client = clientOf(command);
      if (client.kind === "node")
        command.error(
          "error: a network belongs to a namespace in a cluster only\nhint: name the cluster, as an administrator: --kubeconfig FILE",
        );
      const path = `/v1/networks/${encodeURIComponent(name)}`;
      const { from, to } = await client.post<{ from: string | null; to: string }>(path, { namespace });
      const former = from === null ? "" : `, formerly of ${from === "" ? "the administrators" : from}`;
      print(
        from === to
          ? `network ${name} belongs to ${to} already\n`
          : `network ${name} belongs to ${to}${former}\n`,
      );
    });
}
