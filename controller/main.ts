import { connectOverHttp } from "../kube/http/http-kube-api.ts";
import { runProcess } from "../platform/run-process.ts";
import type { Given } from "../platform/settings/load.ts";
import { Controller } from "./controller.ts";
import { loadControllerSettings } from "./settings.ts";

/** `holdfast controller`: runs until SIGTERM or SIGINT. Resolves with the exit code. */
export function run(flags: Given): Promise<number> {
  return runProcess(
    {
      name: "controller",
      load: loadControllerSettings,
      create: (settings, log, clock) => new Controller(settings, log, clock, connectOverHttp),
    },
    flags,
  );
}
