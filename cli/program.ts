/*
 * cli/: the command `holdfast`
 *
 *   main, command-line, program  the entry, and the tree of commands
 *   commands/              one file for each command; reference/: what their definitions are turned into
 *   client, choose-client  the server of a command: a daemon (socket-client) or a cluster (cluster-client)
 *   doctor/                what a node needs, examined; a bundle of its own
 *   manifests/             files for apply and delete: of manifests, or that become a Secret or ConfigMap
 *   output, *-columns, human, terminal  output; formats/: tables, YAML, templates
 *   failure, unreachable   errors and exit codes
 *   load-bundle            bundles of lib/, with the code that V8 compiled of them at build time
 */

import { Command, Help, type Option } from "commander";
import { PROCESSES, type ProcessName } from "../platform/settings/processes.ts";
import type { Clock } from "../platform/time.ts";
import { VERSION } from "../version.ts";
import { wholeArgument } from "./arguments.ts";
import { addApply } from "./commands/apply.ts";
import { addBackup } from "./commands/backup.ts";
import { addCheck } from "./commands/check.ts";
import { addClaims } from "./commands/claims.ts";
import { addContent } from "./commands/content.ts";
import { addConvert } from "./commands/convert.ts";
import { addDelete } from "./commands/delete.ts";
import { addDiff } from "./commands/diff.ts";
import { addDoctor } from "./commands/doctor.ts";
import { addFree } from "./commands/free.ts";
import { addHistory } from "./commands/history.ts";
import { addImport } from "./commands/import.ts";
import { addList } from "./commands/list.ts";
import { addNetworks } from "./commands/networks.ts";
import { addPlan } from "./commands/plan.ts";
import { addProcess } from "./commands/process.ts";
import { addRebuild } from "./commands/rebuild.ts";
import { addRelease } from "./commands/release.ts";
import { addShow } from "./commands/show.ts";
import { addStatus } from "./commands/status.ts";
import { addUi } from "./commands/ui.ts";
import { addVersion } from "./commands/version.ts";
import { addWait } from "./commands/wait.ts";
import { addWho } from "./commands/who.ts";
import { goOn } from "./output.ts";
import { addCompletion } from "./reference/completion.ts";
import { addManual } from "./reference/manual.ts";
import { errors, pageWidth, printPage } from "./terminal.ts";
import { SOCKET_DEFAULT } from "./unreachable.ts";

/** Silence after which no answer is expected any more, seconds: each query of a large node takes a fraction of it. */
const TIMEOUT_SECONDS_DEFAULT = 30;

const EXAMPLES = `
Examples:
  holdfast who 10.10.0.7                 which VM, pod or container is behind it
  holdfast history fd10::7               who had it before, when and on which node
  holdfast list --vm vm1 -o wide         every address of a VM, and where it is used
  holdfast ui                            all of it as a page in your browser
  holdfast networks                      how full the networks are
  holdfast free blue                     which addresses are free, and which come next
  holdfast claims -o yaml > claims.yaml  all claims; apply -f brings them back
  holdfast check || echo "look at it"    exit code 1 when something is wrong

Exit codes: 0 ok, 1 found a fault or refused, 2 usage, 3 not reachable.`;

const GROUPS: readonly (readonly [heading: string, ...add: ((program: Command, clock: Clock) => void)[]])[] = [
  [
    "Look:",
    addUi,
    addStatus,
    addNetworks,
    addList,
    addShow,
    addFree,
    addPlan,
    addWho,
    addHistory,
    addClaims,
    addContent,
    addCheck,
    addDoctor,
  ],
  ["Change:", addApply, addDiff, addDelete, addRelease, addImport, addConvert],
  [
    "Run:",
    ...(Object.keys(PROCESSES) as ProcessName[]).map(addProcess),
    addBackup,
    addRebuild,
    addWait,
    addVersion,
    addCompletion,
    addManual,
  ],
];

/** `clock`: for ages and waits. Usage errors are thrown as CommanderError after they were printed. */
export function buildProgram(clock: Clock): Command {
  const program = new Command("holdfast")
    .description(
      "Holdfast allocates IP addresses and shows who holds each one, since when and where, and who held it before.",
    )
    .usage("<command> [options]")
    .version(VERSION, "--version", "the version of this program")
    .option("--socket <path>", `the daemon's socket (default: HOLDFAST_SOCKET, else ${SOCKET_DEFAULT})`)
    .option("--kubeconfig <file>", "ask the cluster, not a daemon (default: HOLDFAST_KUBECONFIG)")
    .option("--context <name>", "of that kubeconfig, or of the one that kubectl uses (KUBECONFIG, else ~/.kube/config)")
    .option(
      "--timeout <seconds>",
      "longest wait for an answer, 0 for ever",
      wholeArgument(0, 3_600),
      TIMEOUT_SECONDS_DEFAULT,
    )
    .helpOption("-h, --help", "this page, or that of a command")
    .helpCommand(false)
    .exitOverride()
    .addHelpText("after", EXAMPLES);
  program.configureOutput({
    writeOut: printPage,
    writeErr: (text) => errors().write(text),
    getOutHelpWidth: pageWidth,
    getOutHasColors: () => false,
  });
  program.configureHelp({
    showGlobalOptions: true,
    subcommandTerm: termOf,
    formatHelp: commandsFirst,
    visibleGlobalOptions: otherGlobalOptions,
  });
  for (const [heading, ...adds] of GROUPS) {
    program.commandsGroup(heading);
    for (const add of adds) add(program, clock);
  }
  program.hook("postAction", (_program, command) => goOn(command, clock));
  program.command("help [command]", { hidden: true }).action(async (name?: string) => {
    const known = program.commands.some((command) => command.name() === name);
    await program.parseAsync(known ? [name as string, "--help"] : ["--help"], { from: "user" });
  });
  program.showHelpAfterError("hint: holdfast --help shows the commands");
  for (const command of program.commands) {
    command.showHelpAfterError(`hint: holdfast ${command.name()} --help shows how it is used`);
  }
  return program;
}

/** `list`, `who <address>`, `apply -f <file>`: the required arguments. */
function termOf(command: Command): string {
  const [least = ""] = command.usage().split(" | ");
  return `${command.name()} ${least.replace(/\[options\]|--.*/, "").trim()}`.trim();
}

/** Without those that the command defines itself; a process has one kubeconfig, with its current context. */
function otherGlobalOptions(this: Help, command: Command): Option[] {
  const own = new Set(command.options.map(({ long }) => long));
  if (command.name() in PROCESSES) own.add("--context");
  return Help.prototype.visibleGlobalOptions.call(this, command).filter(({ long }) => !own.has(long));
}

/** The commands before the options: they are why the page is opened. */
function commandsFirst(command: Command, helper: Help): string {
  const blocks = Help.prototype.formatHelp.call(helper, command, helper).trimEnd().split("\n\n");
  const rank = (block: string) => ["Options:", "Global Options:"].findIndex((heading) => block.startsWith(heading));
  return `${blocks.toSorted((a, b) => rank(a) - rank(b)).join("\n\n")}\n`;
}
