import type { Command } from "commander";
import type { Finding, NetworkView } from "../../store/records.ts";
import { Client } from "../client.ts";
import { EXIT } from "../failure.ts";
import { count } from "../human.ts";
import { formatOf, printDocument, withOutput } from "../output.ts";
import { paint, print, printable } from "../terminal.ts";

/** `holdfast check`: proves what must always be true, or says what is not and what to do. Exit 1 on any finding. */
export function addCheck(program: Command): void {
  withOutput(program.command("check"))
    .description("proves that nothing is given twice, lost or leaked")
    .action(async (_options: unknown, command: Command) => {
      const client = Client.of(command);
      const { findings } = await client.get<{ findings: Finding[] }>("/v1/check");
      if (findings.length > 0) process.exitCode = EXIT.refused;
      const format = formatOf(command);
      if (format === "json" || format === "yaml") return printDocument(format, { findings });
      print(findings.length > 0 ? findings.map(findingText).join("") : await okText(client));
    });
}

function findingText({ invariant, message, hint }: Finding): string {
  return `${paint(invariant, "red", process.stdout)}: ${printable(message)}\n    do: ${printable(hint)}\n`;
}

async function okText(client: Client): Promise<string> {
  const { items: networks } = await client.get<{ items: NetworkView[] }>("/v1/networks");
  const { items: claims } = await client.get<{ items: unknown[] }>("/v1/claims");
  const sum = (pick: (network: NetworkView) => bigint) =>
    networks.reduce((total, network) => total + pick(network), 0n);
  const allocations = sum(({ ranges, outside }) =>
    ranges.reduce((n, range) => n + BigInt(range.allocated), BigInt(outside)),
  );
  const attachments = sum((network) => BigInt(network.attachments));
  return `${paint("ok:", "green", process.stdout)} ${count(allocations, "allocation")}, ${count(attachments, "attachment")} and ${count(claims.length, "claim")} on ${count(networks.length, "network")} verified:
    the database file is sound, and every spooled request is understood
    I1  no address has two owners
    I2  every address of a claim or an attachment is allocated to it
    I3  every allocation has a living reason
    I4  a repeated ADD gets the same addresses
    I5  free + allocated + cooling + excluded = size, in every range
`;
}
