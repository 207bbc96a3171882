import { setFlagsFromString } from "node:v8";
import { makeLog } from "../platform/log.ts";
import { runProcess } from "../platform/run-process.ts";
import type { Given } from "../platform/settings/load.ts";
import type { Clock } from "../platform/time.ts";
import { MetadataNet } from "./metadata-net.ts";
import { type NodeAbilities, probeNode } from "./probe.ts";
import { loadNetSettings } from "./settings.ts";

/** `holdfast metadata-net`: runs until SIGTERM or SIGINT, then takes away what it made. Resolves with the exit code. */
export function run(flags: Given): Promise<number> {
  // Collects garbage early: each exchange with the daemon and each listing of rules leaves a heap of it.
  setFlagsFromString("--semi-space-growth-factor=1");
  setFlagsFromString("--optimize-for-size");
  return runProcess(
    {
      name: "metadata-net",
      load: loadNetSettings,
      create(settings, log, clock) {
        mustBeRoot("it makes network namespaces, links and rules");
        return new MetadataNet(settings, log, clock);
      },
    },
    flags,
  );
}

/** `holdfast metadata-net --remove`: takes away what its stop leaves. Throws Error, and SettingsError. */
export async function remove(flags: Given, clock: Clock): Promise<void> {
  const settings = loadNetSettings(flags, process.env);
  mustBeRoot("it removes network namespaces, links and rules");
  await new MetadataNet(settings, makeLog("error", clock), clock).remove();
}

/** `holdfast metadata-net --close`: closes what was closed before a reboot, for containers to start. Throws alike. */
export async function close(flags: Given, clock: Clock): Promise<void> {
  const settings = loadNetSettings(flags, process.env);
  mustBeRoot("it adds rules");
  await new MetadataNet(settings, makeLog("error", clock), clock).close();
}

/** `holdfast metadata-net --probe`. Throws Error when that cannot be found out, and SettingsError. */
export async function probe(flags: Given, clock: Clock): Promise<NodeAbilities> {
  const settings = loadNetSettings(flags, process.env);
  mustBeRoot("it tries network namespaces and rules");
  return probeNode(settings, makeLog("silent", clock), clock);
}

function mustBeRoot(why: string): void {
  if (process.getuid?.() !== 0) throw new Error(`${why}, for which it must be root`);
}
