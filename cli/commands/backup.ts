import { statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { Command } from "commander";
import { NODE_ONLY } from "../../admin/elsewhere.ts";
import { type Clock, isoTime } from "../../platform/time.ts";
import { nodeClientOf } from "../choose-client.ts";
import { CommandError } from "../failure.ts";
import { formatBytes } from "../human.ts";
import { withProgress } from "../progress.ts";
import { print } from "../terminal.ts";

export function addBackup(program: Command, clock: Clock): void {
  program
    .command("backup")
    .description("writes a copy of the state while requests go on")
    .argument(
      "<file>",
      "a new file, written by the daemon, or a directory, in which it is named by the time; relative to where you are",
    )
    .action(async (file: string, _options: unknown, command: Command) => {
      const client = nodeClientOf(command, NODE_ONLY).patient();
      const target = targetOf(resolve(file), clock);
      const directory = identityOf(dirname(target));
      const work = client.post("/v1/backup", {
        path: target,
        ...(directory === null ? {} : { directory }),
      });
      const { path, bytes } = await withProgress(clock, () => `writing ${target}`, work);
      refuseUnseen(path, bytes);
      print(`${path} written, ${formatBytes(bytes)}\n`);
    });
}

function targetOf(path: string, clock: Clock): string {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) return path;
  const time = isoTime(clock.wallMs()).replaceAll(":", "");
  return join(path, `holdfast-${time}.db`);
}

/** Device and inode of a directory as seen here: the daemon may see another one under that name. */
function identityOf(directory: string): string | null {
  try {
    const { dev, ino } = statSync(directory, { bigint: true });
    return `${dev}:${ino}`;
  } catch {
    return null;
  }
}

function refuseUnseen(path: string, bytes: number): void {
  let seen: number | null = null;
  try {
    seen = statSync(path).size;
  } catch {
    // Whatever the reason, it is not here.
  }
  if (seen === bytes) return;
  throw new CommandError(
    `the daemon wrote ${path}, but ${seen === null ? "it is not there" : `${seen} bytes are there instead of ${bytes}`}`,
    {
      hint: "it sees another file system than you do (its unit's PrivateTmp=, or a container): name a directory that both see, such as /var/backups",
    },
  );
}
