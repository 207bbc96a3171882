import { runProcess } from "../../platform/run-process.ts";
import type { Given } from "../../platform/settings/load.ts";
import { MetadataNet } from "./metadata-net.ts";
import { loadNetSettings } from "./settings.ts";

/** `holdfast metadata-net`: runs until SIGTERM or SIGINT, then takes away what it made. Resolves with the exit code. */
export function run(flags: Given): Promise<number> {
  return runProcess(
    {
      name: "metadata-net",
      load: loadNetSettings,
      create(settings, log, clock) {
        if (process.getuid?.() !== 0)
          throw new Error("it makes network namespaces, links and rules, for which it must be root");
        return new MetadataNet(settings, log, clock);
      },
    },
    flags,
  );
}
