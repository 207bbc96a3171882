import type { Command } from "commander";
import type { Ability, NodeAbilities } from "../guests/probe.ts";
import type { Clock } from "../platform/time.ts";
import { CommandError, EXIT } from "./failure.ts";
import type { Column } from "./formats/table.ts";
import { printList, withOutput } from "./output.ts";

/** Of metadata-net: it is loaded when it is needed. */
export interface ProbeBundle {
  probe(flags: Readonly<Record<string, unknown>>, clock: Clock): Promise<NodeAbilities>;
  remove(flags: Readonly<Record<string, unknown>>, clock: Clock): Promise<void>;
  close(flags: Readonly<Record<string, unknown>>, clock: Clock): Promise<void>;
}

const COLUMNS: readonly Column<Ability>[] = [
  { header: "PART", cell: ({ name }) => name },
  { header: "OK", cell: ({ ok }) => (ok ? "yes" : "no"), colour: ({ ok }) => (ok ? "green" : "yellow") },
  { header: "FOR", cell: ({ serves }) => serves },
  { header: "NOTE", cell: ({ notes }) => notes.join(" ") },
];

/** `--probe` and `-o` of a process whose bundle can tell what the node is able to do; `--remove` and `--close`. */
export function addProbeOptions(command: Command): void {
  command.option("--probe", "print what this node can do for its guests and why not, and change nothing");
  command.option("--remove", "take away what a stop leaves: rules that keep guests from others who answer them");
  command.option(
    "--close",
    "put back the rules that kept guests of bridges from the node's own 169.254.169.254 before a reboot",
  );
  withOutput(command);
}

/** Resolves with the exit code. */
export async function changeRules(
  act: ProbeBundle["remove" | "close"],
  flags: Readonly<Record<string, unknown>>,
  clock: Clock,
): Promise<number> {
  await act(flags, clock).catch((error: Error) => {
    throw new CommandError(error.message);
  });
  return EXIT.ok;
}

/** Resolves with the exit code: 0 when guests of Linux bridges can be served. */
export async function printProbe(
  { probe }: ProbeBundle,
  flags: Readonly<Record<string, unknown>>,
  { command, clock }: { readonly command: Command; readonly clock: Clock },
): Promise<number> {
  const found = await probe(flags, clock).catch((error: Error) => {
    throw new CommandError(error.message);
  });
  await printList(command, {
    items: found.items,
    columns: COLUMNS,
    empty: "nothing was probed",
    document: found,
  });
  return found.served ? EXIT.ok : EXIT.refused;
}
