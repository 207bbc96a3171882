import { Argument, type Command, type Option } from "commander";
import { print } from "../terminal.ts";

const SHELLS = { bash: bashScript, zsh: zshScript, fish: fishScript } as const;

export function addCompletion(program: Command): void {
  program
    .command("completion")
    .description("completion for a shell: source <(holdfast completion bash)")
    .addArgument(new Argument("<shell>", "of which shell").choices(Object.keys(SHELLS)))
    .action((shell: keyof typeof SHELLS) => print(SHELLS[shell](program)));
}

/** Asked when the key is pressed. */
const NETWORKS = "$(holdfast networks -o name 2>/dev/null)";

function bashScript(program: Command): string {
  const commands = shownCommands(program);
  const cases = commands.map(
    (command) =>
      `    ${command.name()}) words="${[...namesOf(command), ...namesOf(program)].join(" ")}${wantsNetwork(command) ? ` ${NETWORKS}` : ""}" ;;`,
  );
  const choices = [...choicesOf(program)].map(([flags, values]) => `    ${flags}) words="${values.join(" ")}" ;;`);
  return `# bash completion for holdfast
_holdfast() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD - 1]} command= word words
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD - 1}"; do
    case $word in ${commands.map((one) => one.name()).join(" | ")}) command=$word && break ;; esac
  done
  case $command in
${cases.join("\n")}
    *) words="${[...commands.map((one) => one.name()), ...namesOf(program)].join(" ")}" ;;
  esac
  case $prev in
${choices.join("\n")}
    --network) words="${NETWORKS}" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _holdfast holdfast kubectl-holdfast
`;
}

function zshScript(program: Command): string {
  return `#compdef holdfast kubectl-holdfast\nautoload -U bashcompinit && bashcompinit\n${bashScript(program)}`;
}

function fishScript(program: Command): string {
  const lines = shownCommands(program).flatMap((command) => {
    const seen = `__fish_seen_subcommand_from ${command.name()}`;
    return [
      `complete -c holdfast -f -n __fish_use_subcommand -a ${command.name()} -d ${fishText(command.description())}`,
      ...command.options.map((option) => fishOption(option, ` -n "${seen}"`)),
      ...(wantsNetwork(command)
        ? [`complete -c holdfast -f -n "${seen}" -a "(holdfast networks -o name 2>/dev/null)"`]
        : []),
    ];
  });
  return [...lines, ...program.options.map((option) => fishOption(option, "")), ""].join("\n");
}

function fishOption(option: Option, where: string): string {
  const { long, short, description, required, argChoices } = option;
  const names = [long && `-l ${long.slice(2)}`, short && `-s ${short.slice(1)}`].filter(Boolean).join(" ");
  const values = argChoices === undefined ? (required ? " -r" : "") : ` -x -a "${argChoices.join(" ")}"`;
  return `complete -c holdfast${where} ${names}${values} -d ${fishText(description)}`;
}

function fishText(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}

/** Not the hidden ones. */
export function shownCommands(program: Command): Command[] {
  return program
    .createHelp()
    .visibleCommands(program)
    .filter((command) => command.name() !== "help");
}

function namesOf(command: Command): string[] {
  return command.options.flatMap(({ long, short, hidden }) => (hidden ? [] : (long ?? short ?? [])));
}

function wantsNetwork(command: Command): boolean {
  return command.registeredArguments.some((argument) => argument.name() === "network");
}

/** Options with few values, by their flags as a pattern of the shell. */
function choicesOf(program: Command): Map<string, readonly string[]> {
  const found = new Map<string, readonly string[]>();
  for (const { short, long, argChoices } of shownCommands(program).flatMap(({ options }) => options)) {
    const flags = [short, long].filter((one) => one !== undefined).join(" | ");
    // Of commands that have different ones, those with most.
    if (argChoices !== undefined && argChoices.length > (found.get(flags)?.length ?? 0)) found.set(flags, argChoices);
  }
  return found;
}
