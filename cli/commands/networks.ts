import type { Command } from "commander";
import { CLUSTER_ONLY } from "../../admin/elsewhere.ts";
import type { Clock } from "../../platform/time.ts";
import { clientOf } from "../choose-client.ts";
import { rangeColumns, rangeLines } from "../network-ranges.ts";
import { formatOf, printList, withList } from "../output.ts";
import { print } from "../terminal.ts";

interface NewOwner {
  readonly namespace?: string;
  readonly administrators?: boolean;
}

export function addNetworks(program: Command, clock: Clock): void {
  const networks = withList(program.command("networks"));
  networks
    .usage("[options]")
    .description("every network, its ranges and how full they are")
    .action(async (_options: unknown, command: Command) => {
      const format = formatOf(command);
      const { items } = await clientOf(command).get(
        "/v1/networks",
        format === "wide" || format === "csv" ? { former: "true" } : {},
      );
      await printList(command, {
        items: items.flatMap(rangeLines),
        columns: rangeColumns(items, clock.wallMs()),
        empty: "no networks: apply a NetworkAttachmentDefinition (holdfast apply -f), or attach a first container",
        document: { items },
        name: ({ network }) => network.name,
      });
    });
  networks
    .command("own")
    .description(
      "in a cluster: gives a network to another namespace, whose definition counts from then on, or to the administrators, whose configuration on the nodes does",
    )
    .argument("<network>", "name of the network, as `holdfast networks` shows it")
    .option("-n, --namespace <namespace>", "the namespace that it belongs to from now on")
    .option("--administrators", "it is the nodes' own: no namespace's definition counts")
    .action(async (name: string, { namespace, administrators = false }: NewOwner, command: Command) => {
      if ((namespace !== undefined) === administrators)
        command.error("error: the new owner is either --namespace NAMESPACE or --administrators");
      const client = clientOf(command);
      if (client.kind === "node")
        command.error(`error: a network belongs to a namespace in a cluster only\nhint: ${CLUSTER_ONLY}`);
      const { from, to, object } = await client.post(
        `/v1/networks/${encodeURIComponent(name)}`,
        administrators ? { administrators } : { namespace },
      );
      const former = from === null ? "" : `, formerly of ${named(from)}`;
      print(`network ${name} belongs to ${named(to)}${from === to ? " already" : former}\n`);
      print(`it stays so when nothing uses it any more; kubectl delete ipnetwork ${object} ends that then\n`);
    });
}

function named(owner: string): string {
  return owner === "" ? "the administrators" : owner;
}
