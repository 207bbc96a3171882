import type { Command, Option } from "commander";
import { VERSION } from "../../version.ts";
import { print } from "../terminal.ts";
import { shownCommands } from "./completion.ts";

/** From the same words as the help. */
export function addManual(program: Command): void {
  program.command("manual", { hidden: true }).action(() => print(manualOf(program)));
}

function manualOf(program: Command): string {
  const commands = shownCommands(program).map((command) => {
    const usage = command.usage().split(" | ");
    const [first = "", ...others] = usage;
    const synopsis = [first, ...others].map((one) => `.B holdfast ${command.name()}\n${roff(one)}`);
    return `.SS ${command.name()}\n${synopsis.join("\n.br\n")}\n.PP\n${roff(sentence(command.description()))}\n${optionsOf(command)}`;
  });
  return `.TH HOLDFAST 1 "" "Holdfast ${VERSION}" "Holdfast"
.SH NAME
holdfast \\- IPAM for container and VM interfaces
.SH SYNOPSIS
.B holdfast
.I command
[\\fIoptions\\fR]
.SH DESCRIPTION
${roff(program.description())}
.PP
It asks the daemon of this node, or with
.B \\-\\-kubeconfig
or
.B \\-\\-context
a cluster. Called as
.BR "kubectl holdfast" ,
it asks the cluster that kubectl uses.
.SH COMMANDS
${commands.join("")}.SH OPTIONS
${optionsOf(program)}.SH EXIT STATUS
0 ok, 1 found a fault or refused, 2 usage, 3 not reachable.
.SH ENVIRONMENT
.BR HOLDFAST_SOCKET ", " HOLDFAST_KUBECONFIG ", " KUBECONFIG ", " NO_COLOR
.SH FILES
.TP
.I /etc/holdfast/daemon.yaml
settings of the daemon
.TP
.I /var/lib/holdfast
its state
.TP
.I /run/holdfast/holdfast.sock
its socket
`;
}

function optionsOf(command: Command): string {
  return command.options
    .filter(({ hidden }) => !hidden)
    .map((option) => `.TP\n.B ${roff(option.flags)}\n${roff(describe(option))}\n`)
    .join("");
}

function describe({ description, argChoices, defaultValue }: Option): string {
  const choices = argChoices === undefined ? "" : `: ${argChoices.join(", ")}`;
  const usual = defaultValue === undefined || typeof defaultValue === "boolean" ? "" : ` (default: ${defaultValue})`;
  return `${description}${choices}${usual}`;
}

function sentence(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;
}

/** Text as roff prints it: no line of it is a request. */
function roff(text: string): string {
  return text
    .replaceAll("\\", "\\e")
    .replaceAll("-", "\\-")
    .split("\n")
    .map((line) => (/^[.']/.test(line) ? `\\&${line}` : line))
    .join("\n");
}
