import type { Command } from "commander";

/** `-f`, repeatable. */
export function withFiles(command: Command): Command {
  return command.option(
    "-f, --filename <file>",
    "YAML or JSON manifests: a file, a directory of them, or - for standard input; may be given again",
    (path: string, before: string[] | undefined) => [...(before ?? []), path],
  );
}
