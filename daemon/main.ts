import { runProcess } from "../platform/run-process.ts";
import type { Given } from "../platform/settings/load.ts";
import { VERSION } from "../version.ts";
import { Daemon } from "./daemon.ts";
import { loadDaemonSettings } from "./settings.ts";

/** For whoever puts a daemon into a process of another making: tests do. */
export { Daemon, loadDaemonSettings };

/** The socket that a daemon without flags serves. Throws SettingsError. */
export function configuredSocket(): string {
  return loadDaemonSettings({}, process.env).socket;
}

/** `holdfast daemon`: runs until SIGTERM or SIGINT. Resolves with the exit code. */
export function run(flags: Given): Promise<number> {
  return runProcess(
    {
      name: "daemon",
      load: loadDaemonSettings,
      create: (settings, log, clock) => Daemon.create(settings, log, clock, VERSION),
    },
    flags,
  );
}
