import { setFlagsFromString } from "node:v8";
import { runProcess } from "../../platform/run-process.ts";
import type { Given } from "../../platform/settings/load.ts";
import { MetadataServer } from "./metadata-server.ts";
import { loadMetadataSettings } from "./settings.ts";

/** `holdfast metadata`: runs until SIGTERM or SIGINT. Resolves with the exit code. */
export function run(flags: Given): Promise<number> {
  keepHeapSmall();
  return runProcess(
    {
      name: "metadata",
      load: loadMetadataSettings,
      create: (settings, log, clock) => MetadataServer.create(settings, log, clock),
    },
    flags,
  );
}

/** Measured: 95 MB at most instead of 140 after 40,000 requests, in the same time. Little is kept between requests. */
function keepHeapSmall(): void {
  setFlagsFromString("--semi-space-growth-factor=1");
  setFlagsFromString("--optimize-for-size");
}
