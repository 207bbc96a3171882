import { join } from "node:path";
import type { Command } from "commander";
import { type Clock, sleep } from "../../platform/time.ts";
import { wholeArgument } from "../arguments.ts";
import { CommandError, EXIT } from "../failure.ts";
import { loadBundle } from "../load-bundle.ts";
import { SocketClient } from "../socket-client.ts";

/** Between two attempts, ms. */
const AGAIN_MS = 100;
/** A daemon that answers becomes ready at once, or only after an API server or an operator has acted. */
const READY_MS_MAX = 5_000;
const SECONDS_DEFAULT = 60;

/** `holdfast wait`: for units that start after the daemon. */
export function addWait(program: Command, clock: Clock): void {
  program
    .command("wait")
    .description("waits until the daemon serves; the systemd unit does, too")
    .option("--for <seconds>", "longest wait for its socket", wholeArgument(0, 3_600), SECONDS_DEFAULT)
    .option("--pid <pid>", "not longer than this process runs", wholeArgument(1, 2 ** 31 - 1))
    .action(async ({ for: seconds, pid }: { for: number; pid?: number }, command: Command) => {
      const start = clock.monotonicMs();
      const socket = await socketOf(command).catch(async (failure: unknown) => {
        // The process has the same settings, and ends because of them: systemd calls its start failed only if it does
        // so first.
        while (pid !== undefined && !hasEnded(pid) && clock.monotonicMs() - start < READY_MS_MAX)
          await sleep(clock, AGAIN_MS);
        throw failure;
      });
      const client = new SocketClient(socket, 2_000);
      let answeredMs: number | null = null;
      for (;;) {
        const failure = await whyNotReady(client);
        if (failure === null) return;
        const nowMs = clock.monotonicMs();
        if (failure.exitCode !== EXIT.unreachable) answeredMs ??= nowMs;
        const overMs = answeredMs === null ? start + seconds * 1_000 : answeredMs + READY_MS_MAX;
        if (nowMs >= overMs || (pid !== undefined && hasEnded(pid))) throw failure;
        await sleep(clock, AGAIN_MS);
      }
    });
}

function hasEnded(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}

/** The daemon's socket on this node, which may be in its configuration file. */
async function socketOf(command: Command): Promise<string> {
  const { socket } = command.optsWithGlobals<{ socket?: string }>();
  if (socket !== undefined) return socket;
  const { configuredSocket } = loadBundle(
    join(import.meta.dirname, "../lib/daemon.cjs"),
  ) as typeof import("../../daemon/main.ts");
  try {
    return configuredSocket();
  } catch (error) {
    throw new CommandError((error as Error).message, { exitCode: EXIT.usage });
  }
}

async function whyNotReady(client: SocketClient): Promise<CommandError | null> {
  try {
    await client.ready();
    return null;
  } catch (error) {
    if (error instanceof CommandError) return error;
    throw error;
  }
}
