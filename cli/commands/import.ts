import type { Command } from "commander";
import type { ImportItem } from "../../store/host-local/report.ts";
import { clientOf } from "../choose-client.ts";
import { EXIT } from "../failure.ts";
import type { Column } from "../formats/table.ts";
import { formatOf, isTable, printList, withList } from "../output.ts";
import { note, printable, printError } from "../terminal.ts";

const ACTIONS: Readonly<Record<ImportItem["action"], string>> = {
  "would-record": "would be recorded",
  "recorded-now": "recorded",
  "recorded-before": "recorded before",
  ended: "container ended",
  conflict: "CONFLICT",
  outside: "not in the network",
  undefined: "network not defined yet",
};

/** `holdfast import`: records addresses from before a network was ours. Exit 1 when some could not be recorded. */
export function addImport(program: Command): void {
  withList(program.command("import"))
    .description("records addresses in use from before Holdfast")
    .option("--network <name>", "only this network")
    .option("--data-dir <directory>", "with --network: where host-local's dataDir was, if the network does not say it")
    .option("--dry-run", "shows what would be recorded, and from where; changes nothing")
    .action(async (options: { network?: string; dataDir?: string; dryRun?: boolean }, command: Command) => {
      const { network, dataDir, dryRun = false } = options;
      if (dataDir !== undefined && network === undefined)
        command.error("error: --data-dir needs --network: each network may have its own");
      const report = await clientOf(command).post("/v1/import", { network, dataDir, dryRun });
      const { items, problems } = report;
      const format = formatOf(command);
      await printList(command, {
        items,
        columns: COLUMNS,
        empty: "nothing is in use from before",
        document: report,
      });
      if (dryRun && report.directories !== undefined && isTable(format)) noteDirectories(report.directories);
      for (const { message, hint } of problems) printError(message, hint);
      if (isTable(format)) summarise(items);
      if (problems.length > 0 || items.some(({ action }) => action === "conflict")) process.exitCode = EXIT.refused;
    });
}

const COLUMNS: readonly Column<ImportItem>[] = [
  { header: "NETWORK", cell: ({ network }) => network },
  { header: "ADDRESS", cell: ({ address }) => address },
  { header: "USED BY", cell: ({ user }) => printable(user) },
  {
    header: "RESULT",
    cell: ({ action }) => ACTIONS[action],
    colour: ({ action }) => (action === "conflict" ? "red" : null),
  },
  { header: "DETAIL", cell: ({ detail }) => printable(detail) },
  { header: "FROM", cell: ({ source }) => printable(source) },
];

/** "Nothing is in use" holds for these only: a network without a definition may have had another `dataDir`. */
function noteDirectories(directories: readonly string[]): void {
  if (directories.length > 0) note(`looked in ${directories.map(printable).join(", ")}`);
  note("if host-local had another dataDir: holdfast import --dry-run --network NAME --data-dir DIRECTORY");
}

function summarise(items: readonly ImportItem[]): void {
  const of = (wanted: ImportItem["action"]) => items.filter(({ action }) => action === wanted).length;
  const now = of("recorded-now");
  const would = of("would-record") + of("undefined");
  if (would > 0) note(`${addresses(would)} would be recorded; nothing was changed`);
  else if (now > 0) note(`${addresses(now)} recorded`);
}

function addresses(n: number): string {
  return `${n} ${n === 1 ? "address" : "addresses"}`;
}
