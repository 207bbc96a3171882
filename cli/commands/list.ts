import { type Command, Option } from "commander";
import type { Clock } from "../../platform/time.ts";
import { allocationColumns } from "../allocation-columns.ts";
import { addressArgument, withNamespaces } from "../arguments.ts";
import { clientOf } from "../choose-client.ts";
import type { Query } from "../client.ts";
import { refuseUnknownFilters } from "../known-names.ts";
import { printList, withList } from "../output.ts";
import { pagesOf } from "../pages.ts";

const FILTERS = [...["network", "address", "subnet", "state", "namespace", "pod", "claim", "cluster", "vm", "node"]];

/** As people write them; the API takes any case. */
const STATES = ["bound", "retained", "cooling"];

export function addList(program: Command, clock: Clock): void {
  withNamespaces(withList(program.command("list")), "whose holder is in this namespace")
    .description("every allocation, or those of a pod, VM, node, cluster …")
    .option("--network <name>", "of this network")
    .option("--address <address>", "this address, in whatever network", addressArgument)
    .option("--subnet <cidr>", "in this subnet or part of one, such as 10.0.0.0/24")
    .addOption(new Option("--state <state>", "in this state").choices(STATES))
    .option("--pod <name>", "held or used by this pod: [namespace/]name")
    .option("--claim <name>", "held by this IPAMClaim, or IPAddressClaim of a machine: [namespace/]name")
    .option("--cluster <name>", "held by machines of this cluster of Cluster API: [namespace/]name")
    .option("--vm <name>", "held for this virtual machine: [namespace/]name")
    .option("--node <name>", "in use on this node")
    .action(async (options: Query, command: Command) => {
      const filter = Object.fromEntries(FILTERS.map((name) => [name, options[name]]));
      const client = clientOf(command);
      const items = pagesOf(clock, client, "/v1/allocations", filter);
      const filtered = FILTERS.some((name) => options[name] !== undefined);
      const found = { any: false };
      await printList(command, {
        items: noting(found, items),
        columns: allocationColumns(clock.wallMs()),
        name: ({ address }) => address,
        empty: filtered ? "no allocation matches these filters" : "no allocations",
      });
      if (filtered && !found.any) await refuseUnknownFilters(clock, client, filter);
    });
}

/** The same pages; `found` says whether any had an item. */
async function* noting<Item>(
  found: { any: boolean },
  pages: AsyncIterable<readonly Item[]>,
): AsyncGenerator<readonly Item[]> {
  for await (const items of pages) {
    if (items.length > 0) found.any = true;
    yield items;
  }
}
