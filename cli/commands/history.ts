import type { Command } from "commander";
import type { PastPeriod } from "../../admin/admin-api.ts";
import { ITEMS_DEFAULT, ITEMS_MAX } from "../../admin/limits.ts";
import type { Clock } from "../../platform/time.ts";
import { addressArgument, type NamespaceChoice, wholeArgument, withNamespaces } from "../arguments.ts";
import { clientOf } from "../choose-client.ts";
import type { Column } from "../formats/table.ts";
import { fullHolder, podName, shortHolder, usersOf } from "../holder.ts";
import { formatAge } from "../human.ts";
import { refuseUnknownNetwork } from "../known-names.ts";
import { formatOf, isTable, printList, withList } from "../output.ts";
import { note } from "../terminal.ts";

const PRESENT_ONLY =
  "shown: what the cluster's objects show, present holders and addresses in their cool-down; the past is with each node: holdfast history there";

interface Options extends NamespaceChoice {
  readonly network?: string;
  readonly limit: number;
}

/** `holdfast history [ADDRESS]`: who had it from when to when, where, and how that ended. The newest first. */
export function addHistory(program: Command, clock: Clock): void {
  withNamespaces(withList(program.command("history")), "whose holder is in this namespace")
    .description("who held an address before, from when to when")
    .argument("[address]", "in any spelling; without one, the latest of all addresses", addressArgument)
    .option("--network <name>", "only in this network")
    .option(
      "--limit <number>",
      "show at most this many periods, newest first",
      wholeArgument(1, ITEMS_MAX),
      ITEMS_DEFAULT,
    )
    .action(async (address: string | undefined, options: Options, command: Command) => {
      const { network, namespace, limit } = options;
      const client = clientOf(command);
      const { items } = await client.get("/v1/history", {
        address,
        network,
        namespace,
        limit: String(limit),
      });
      const format = formatOf(command);
      await printList(command, {
        items,
        columns: historyColumns(clock.wallMs()),
        empty: "no history",
      });
      if (items.length === 0 && network !== undefined) await refuseUnknownNetwork(client, network);
      if (client.kind === "cluster" && isTable(format)) note(PRESENT_ONLY);
      if (items.length === limit) note(`shown: the newest ${limit}; --limit shows up to ${ITEMS_MAX}`);
    });
}

function historyColumns(nowMs: number): Column<PastPeriod>[] {
  const ago = (time: string) => `${formatAge(time, nowMs)} ago`;
  return [
    { header: "NETWORK", cell: ({ network }) => network },
    { header: "ADDRESS", cell: ({ address }) => address },
    { header: "HOLDER", only: "table", cell: ({ owner }) => shortHolder(owner) },
    { header: "HOLDER", only: "wide", cell: ({ owner }) => fullHolder(owner) },
    { header: "USED BY", only: "table", cell: userText },
    { header: "POD", only: "wide", cell: ({ pod }) => (pod === null ? "" : podName(pod)) },
    {
      header: "CONTAINER",
      only: "wide",
      cell: (one) => (one.containerID === null ? "" : `${one.containerID}(${one.interface})`),
    },
    { header: "NODE", cell: ({ node }) => node },
    { header: "FROM", only: "table", cell: ({ from }) => (from === null ? "" : ago(from)) },
    { header: "FROM", only: "wide", cell: ({ from }) => from ?? "" },
    { header: "UNTIL", only: "table", cell: ({ until }) => (until === null ? "still" : ago(until)) },
    { header: "UNTIL", only: "wide", cell: ({ until }) => until ?? "still" },
    { header: "ENDED BY", cell: ({ endedBy }) => endedBy ?? "" },
  ];
}

/** A claim's holding has no user of its own: each use is a line of its own. */
function userText({ owner, containerID, interface: name, pod }: PastPeriod): string {
  return containerID === null ? "" : usersOf(owner, [{ containerID, interface: name ?? "", pod }]);
}
