import { resolve } from "node:path";
import type { Command } from "commander";
import { NODE_ONLY, nodeClientOf } from "../client.ts";
import { formatBytes } from "../human.ts";
import { withProgress } from "../progress.ts";
import { print } from "../terminal.ts";

/** `holdfast backup FILE`: the daemon writes a consistent copy of its state while it serves. */
export function addBackup(program: Command): void {
  program
    .command("backup")
    .description("writes a copy of the state while requests go on")
    .argument("<file>", "a new file, written by the daemon; a relative path is relative to where you are")
    .action(async (file: string, _options: unknown, command: Command) => {
      const client = nodeClientOf(command, NODE_ONLY).patient();
      const work = client.post<{ path: string; bytes: number }>("/v1/backup", { path: resolve(file) });
      const { path, bytes } = await withProgress(() => `writing ${resolve(file)}`, work);
      print(`${path} written, ${formatBytes(bytes)}\n`);
    });
}
