import type pino from "pino";
import { makeLog } from "../platform/log.ts";
import { SettingsError } from "../platform/settings.ts";
import { VERSION } from "../version.ts";
import { loadSettings } from "./config.ts";
import { Daemon } from "./daemon.ts";

/** The socket that a daemon without flags serves. Throws SettingsError. */
export function configuredSocket(): string {
  return loadSettings({}, process.env).socket;
}

/** `holdfast daemon`: runs until SIGTERM or SIGINT. Resolves with the exit code. */
export async function runDaemon(flags: Readonly<Record<string, unknown>>): Promise<number> {
  let daemon: Daemon;
  let log: pino.Logger;
  try {
    const settings = loadSettings(flags, process.env);
    log = makeLog(settings.logLevel);
    daemon = await Daemon.create(settings, log, VERSION);
    await daemon.start();
  } catch (error) {
    process.stderr.write(`holdfast daemon: ${(error as Error).message}\n`);
    return error instanceof SettingsError ? 2 : 1;
  }
  const signal = await new Promise<string>((resolve) => {
    for (const name of ["SIGTERM", "SIGINT"]) process.once(name, () => resolve(name));
  });
  log.info({ signal }, "stopping");
  await daemon.stop();
  return 0;
}
