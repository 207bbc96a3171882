import type { Command } from "commander";
import { VERSION } from "../../version.ts";
import { clientOf } from "../choose-client.ts";
import type { Client } from "../client.ts";
import { CommandError } from "../failure.ts";
import { formatOf, isDocument, printDocument, withOutput } from "../output.ts";
import { note, print, printable } from "../terminal.ts";

export function addVersion(program: Command): void {
  withOutput(program.command("version"))
    .description("of this program, and of the daemon if it answers")
    .action(async (_options: unknown, command: Command) => {
      const client = clientOf(command);
      // A cluster has a daemon on each node, and their versions may differ.
      const daemon = client.kind === "node" ? await daemonVersion(client) : null;
      const format = formatOf(command);
      if (isDocument(format)) await printDocument(command, { client: VERSION, daemon });
      else print(`client   ${VERSION}\n${daemon === null ? "" : `daemon   ${printable(daemon)}\n`}`);
    });
}

async function daemonVersion(client: Client): Promise<string | null> {
  try {
    return (await client.get("/v1/version")).version;
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    note(error.message);
    return null;
  }
}
