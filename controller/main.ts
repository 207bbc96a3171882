import type pino from "pino";
import { makeLog } from "../platform/log.ts";
import { SettingsError } from "../platform/settings.ts";
import { loadControllerSettings } from "./config.ts";
import { Controller } from "./controller.ts";

/** `holdfast controller`: runs until SIGTERM or SIGINT. Resolves with the exit code. */
export async function runController(flags: Readonly<Record<string, unknown>>): Promise<number> {
  let controller: Controller;
  let log: pino.Logger;
  try {
    const settings = loadControllerSettings(flags, process.env);
    log = makeLog(settings.logLevel);
    controller = new Controller(settings, log);
    await controller.start();
  } catch (error) {
    process.stderr.write(`holdfast controller: ${(error as Error).message}\n`);
    return error instanceof SettingsError ? 2 : 1;
  }
  const signal = await new Promise<string>((resolve) => {
    for (const name of ["SIGTERM", "SIGINT"]) process.once(name, () => resolve(name));
  });
  log.info({ signal }, "stopping");
  await controller.stop();
  return 0;
}
