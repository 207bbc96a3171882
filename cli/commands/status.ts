import type { Command } from "commander";
import type { CheckReport, NodeStatus } from "../../admin/admin-api.ts";
import type { NetworkView } from "../../allocations/records.ts";
import type { Clock } from "../../platform/time.ts";
import { nodeClientOf } from "../choose-client.ts";
import { EXIT } from "../failure.ts";
import { count, formatAge, formatCount } from "../human.ts";
import { formatOf, isDocument, printDocument, withOutput } from "../output.ts";
import { paint, print, printable } from "../terminal.ts";

/** `holdfast status`: how this node is, in five lines. Exit 1 when no address is given or check finds something. */
export function addStatus(program: Command, clock: Clock): void {
  withOutput(program.command("status"))
    .description("how this node is: the daemon, its networks, what is wrong")
    .action(async (_options: unknown, command: Command) => {
      const client = nodeClientOf(command, "holdfast check --kubeconfig FILE shows how a cluster is");
      const status = await client.get("/v1/status");
      const { items: networks } = await client.get("/v1/networks");
      const { findings, notes = [] } = await client.get("/v1/check");
      if (status.notReady !== null || findings.length > 0) process.exitCode = EXIT.refused;
      const format = formatOf(command);
      if (isDocument(format)) return printDocument(command, { status, networks, findings, notes });
      const lines = [
        ["Daemon", daemonText(status, clock.wallMs())],
        ["Networks", networksText(networks)],
        ["Gives", readyText(status)],
        ["Check", checkText({ findings, notes })],
        ["Next", nextText({ findings, notes }, networks)],
      ] as const;
      print(lines.map(([label, text]) => `${`${label}:`.padEnd(10)} ${text}\n`).join(""));
    });
}

function daemonText({ version, node, mode, since }: NodeStatus, nowMs: number): string {
  const where = mode === "kubernetes" ? "in a cluster" : "without Kubernetes";
  return printable(`up, started ${formatAge(since, nowMs)} ago, version ${version}, node ${node}, ${where}`);
}

function networksText(networks: readonly NetworkView[]): string {
  const allocated = networks.reduce(
    (sum, { ranges, outside }) => ranges.reduce((part, one) => part + BigInt(one.allocated), sum + BigInt(outside)),
    0n,
  );
  const attached = networks.reduce((sum, { attachments }) => sum + attachments, 0);
  const full = networks.filter(({ ranges }) => ranges.some(({ free }) => free === "0")).map(({ name }) => name);
  const fullText = full.length === 0 ? "" : `; full: ${full.join(", ")}`;
  const addresses = `${allocated === 0n ? "no" : formatCount(String(allocated))} ${allocated === 1n ? "address" : "addresses"}`;
  return printable(
    `${count(networks.length, "network")}, ${addresses} allocated, ${count(attached, "attachment")}${fullText}`,
  );
}

function readyText({ notReady }: NodeStatus): string {
  return notReady === null ? "addresses now" : paint(printable(`no address now: ${notReady}`), "red", process.stdout);
}

function checkText({ findings, notes = [] }: Pick<CheckReport, "findings" | "notes">): string {
  const noted = notes.length === 0 ? "" : `, ${count(notes.length, "note")}`;
  const [first] = findings;
  if (first === undefined) return `${paint("ok", "green", process.stdout)}${noted}`;
  const others = findings.length === 1 ? "" : ` (and ${findings.length - 1} more)`;
  return `${paint(count(findings.length, "finding"), "red", process.stdout)}${noted}: ${printable(first.message)}${others}`;
}

function nextText(
  { findings, notes = [] }: Pick<CheckReport, "findings" | "notes">,
  networks: readonly NetworkView[],
): string {
  if (findings.length > 0 || notes.length > 0) return "holdfast check says what to do";
  if (networks.length === 0)
    return "holdfast apply -f FILE defines a network, or the first container of a runtime's configuration does";
  return "holdfast networks shows how full they are, holdfast who ADDRESS who has one";
}
