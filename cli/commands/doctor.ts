import { join } from "node:path";
import type { Command } from "commander";
import type { Diagnosis } from "../../admin/admin-api.ts";
import type { Clock } from "../../platform/time.ts";
import { clientOf } from "../choose-client.ts";
import type { DaemonAnswer } from "../doctor/daemon.ts";
import { CommandError, EXIT } from "../failure.ts";
import { count } from "../human.ts";
import { loadBundle } from "../load-bundle.ts";
import { formatOf, isDocument, printDocument, withOutput } from "../output.ts";
import type { ProbeBundle } from "../probe.ts";
import type { SocketClient } from "../socket-client.ts";
import { type Colour, paint, print, printable } from "../terminal.ts";

const COLOURS: Readonly<Record<Diagnosis["state"], Colour>> = {
  ok: "green",
  warning: "yellow",
  failed: "red",
  unknown: "grey",
};
/** Columns of the longest state and part. */
const STATE_COLUMNS = 8;
const PART_COLUMNS = 17;

/** `holdfast doctor`: everything that an installation needs, each with its remedy. Exit 1 when something is missing. */
export function addDoctor(program: Command, clock: Clock): void {
  withOutput(program.command("doctor"))
    .description("examines what this node, or a cluster, needs, and says what to do about what is missing")
    .action(async (_options: unknown, command: Command) => {
      const client = clientOf(command);
      const items =
        client.kind === "cluster"
          ? (await client.get("/v1/doctor")).items
          : await examine(client as SocketClient, clock);
      if (items.some(({ state }) => state === "failed")) process.exitCode = EXIT.refused;
      const format = formatOf(command);
      if (isDocument(format)) return printDocument(command, { items });
      print(items.map(lineOf).join(""));
      print(summaryOf(items));
    });
}

async function examine(client: SocketClient, clock: Clock): Promise<readonly Diagnosis[]> {
  const lib = join(import.meta.dirname, "../lib");
  const { examineNode } = loadBundle(join(lib, "doctor.cjs")) as typeof import("../doctor/main.ts");
  const probe = async () => (loadBundle(join(lib, "metadata-net.cjs")) as ProbeBundle).probe({}, clock);
  return examineNode({ root: "/", daemon: await answerOf(client), probe });
}

async function answerOf(client: SocketClient): Promise<DaemonAnswer> {
  const { socket } = client;
  try {
    return { socket, status: await client.get("/v1/status") };
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    return { socket, status: null, problem: error.message, fix: error.hint };
  }
}

function lineOf({ part, state, found, fix }: Diagnosis): string {
  const columns = `${paint(state.padEnd(STATE_COLUMNS), COLOURS[state], process.stdout)} ${part.padEnd(PART_COLUMNS)}`;
  const remedy = state === "ok" || fix === "" ? "" : `${" ".repeat(STATE_COLUMNS)} fix: ${printable(fix)}\n`;
  return `${columns} ${printable(found)}\n${remedy}`;
}

function summaryOf(items: readonly Diagnosis[]): string {
  const number = (wanted: Diagnosis["state"]) => items.filter(({ state }) => state === wanted).length;
  const failed = number("failed");
  const warnings = number("warning");
  const unknown = number("unknown");
  if (failed + warnings + unknown === 0) return "nothing to do\n";
  if (failed + warnings === 0) return `nothing failed; ${unknown} could not be examined\n`;
  return `${failed} failed, ${count(warnings, "warning")}\n`;
}
