import type { Command } from "commander";
import type { FreeAddresses } from "../../admin/admin-api.ts";
import { FREE_COUNT_DEFAULT, FREE_COUNT_MAX } from "../../admin/limits.ts";
import { wholeArgument } from "../arguments.ts";
import { clientOf } from "../choose-client.ts";
import { CommandError } from "../failure.ts";
import { formatCount } from "../human.ts";
import { refuseUnknownNetwork } from "../known-names.ts";
import { formatOf, isTable, printList, withList } from "../output.ts";
import { note, print } from "../terminal.ts";

export function addFree(program: Command): void {
  withList(program.command("free"))
    .description("free addresses of a network, and the next ones that are given")
    .argument("<network>", "name of the network, as `holdfast networks` shows it")
    .option(
      "-n, --next <count>",
      "how many of the next addresses",
      wholeArgument(0, FREE_COUNT_MAX),
      FREE_COUNT_DEFAULT,
    )
    .option("--subnet <cidr>", "only of this subnet, or of this part of one")
    .action(async (name: string, options: { next: number; subnet?: string }, command: Command) => {
      const client = clientOf(command);
      const query = { count: String(options.next), subnet: options.subnet };
      const answer = await client
        .get(`/v1/networks/${encodeURIComponent(name)}/free`, query)
        .catch(async (error: unknown) => {
          if (error instanceof CommandError && error.code === "NOT_FOUND") await refuseUnknownNetwork(client, name);
          throw error;
        });
      const format = formatOf(command);
      await printList(command, {
        items: answer.ranges.flatMap(({ subnets, runs }) =>
          runs.map((run) => ({ subnets: subnets.join(","), ...run })),
        ),
        columns: [
          { header: "SUBNET", cell: ({ subnets }) => subnets },
          { header: "FIRST", cell: ({ first }) => first },
          { header: "LAST", cell: ({ last }) => last },
          { header: "FREE", cell: ({ size }) => formatCount(size), exact: ({ size }) => size },
        ],
        empty: `no address of network ${name} is free`,
        document: answer,
      });
      if (isTable(format)) printNext(answer, options.next);
    });
}

function printNext({ ranges, isNext }: FreeAddresses, count: number): void {
  for (const { subnets, next, moreRuns } of ranges) {
    const where = ranges.length > 1 ? ` of ${subnets.join(",")}` : "";
    if (moreRuns > 0) note(`${moreRuns} more ranges${where}: --subnet shows those of a part`);
    if (count === 0 || next.length === 0) continue;
    // In a cluster each node begins its search elsewhere.
    print(`${isNext ? "next" : "for example"}${where}: ${next.join(", ")}\n`);
  }
}
