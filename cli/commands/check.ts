import type { Command } from "commander";
import type { CheckedCounts } from "../../admin/admin-api.ts";
import { GRACE_SECONDS_MAX } from "../../admin/limits.ts";
import type { Finding } from "../../ipam/finding.ts";
import type { Clock } from "../../platform/time.ts";
import { wholeArgument } from "../arguments.ts";
import { clientOf } from "../choose-client.ts";
import { EXIT } from "../failure.ts";
import { count } from "../human.ts";
import { formatOf, isDocument, printDocument, withOutput } from "../output.ts";
import { withProgress } from "../progress.ts";
import { paint, print, printable } from "../terminal.ts";

/** On a terminal, while it takes long. */
const WATCHING = "checking; what may pass by itself is watched for the time of --grace";

/** `holdfast check`: checks the invariants and prints findings with hints. Exit 1 on any finding. */
export function addCheck(program: Command, clock: Clock): void {
  withOutput(program.command("check"))
    .description("proves that nothing is given twice, lost or leaked")
    .option(
      "--grace <seconds>",
      "with --kubeconfig: how long a fault must have stood to count (default: 120)",
      wholeArgument(0, GRACE_SECONDS_MAX),
    )
    .action(async ({ grace }: { grace?: number }, command: Command) => {
      const client = clientOf(command);
      if (grace !== undefined && client.kind === "node")
        command.error("error: --grace is for a cluster: a daemon waits for nothing");
      const asked = client.get("/v1/check", { grace: grace === undefined ? undefined : String(grace) });
      const { findings, counted, notes = [] } = await withProgress(clock, () => WATCHING, asked);
      if (findings.length > 0) process.exitCode = EXIT.refused;
      const format = formatOf(command);
      if (isDocument(format)) return printDocument(command, { findings, ...(notes.length > 0 && { notes }) });
      if (findings.length > 0) print(findings.map(findingText).join(""));
      else if (counted !== undefined) print(client.kind === "node" ? nodeText(counted) : clusterText(counted));
      print(notes.map((one) => `note: ${printable(one)}\n`).join(""));
    });
}

function findingText({ invariant, message, hint }: Finding): string {
  return `${paint(invariant, "red", process.stdout)}: ${printable(message)}\n    fix: ${printable(hint)}\n`;
}

function nodeText(counted: CheckedCounts): string {
  return `${okLine(counted)}
    the database file is sound, and every spooled request is understood
    I1  no address has two owners
    I2  every address of a claim or an attachment is allocated to it
    I3  every allocation has a living reason
    I4  a repeated ADD gets the same addresses
    I5  free + allocated + retained + cooling + excluded = size, in every range
`;
}

function clusterText(counted: CheckedCounts): string {
  return `${okLine(counted)}
    every IPAllocation is what its name says, and every network is imported
    I1  no address has two owners
    I2  every address of a claim or a living pod is allocated to it
    I3  every allocation has a living reason
    I5  free + allocated + retained + cooling + excluded = size, in every range
each node's own state is checked there: holdfast check, without --kubeconfig
`;
}

function okLine({ allocations, attachments, claims, networks }: CheckedCounts): string {
  const counts = [count(allocations, "allocation"), count(attachments, "attachment")];
  if (claims !== undefined) counts.push(count(claims, "claim"));
  const last = counts.pop();
  return `${paint("ok:", "green", process.stdout)} ${counts.join(", ")} and ${last} on ${count(networks, "network")} verified:`;
}
