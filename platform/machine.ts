import { readFileSync } from "node:fs";
import { bootFileOf, presentBootId, readKernelBootId } from "./boot-id.ts";
import { armKillPoint, type PassKillPoint } from "./kill-point.ts";
import { type NamespaceSight, namespaceIdAt, namespacesInUse } from "./namespaces.ts";

/** What a daemon sees of the machine it runs on: its boot, and the network namespaces of its containers. A port. */
export interface Machine extends NamespaceSight {
  /** The present boot, as the plugin binary stamps requests with it. */
  readonly bootId: string;
  /** As the kernel tells it, and the kubelet reports it. */
  readonly kernelBootId: string;
  /** Microseconds since boot, as the stamps of the plugin binary count them (CLOCK_BOOTTIME). */
  bootTimeUs(): number;
  /** For tests of crashes. */
  readonly killPoint: PassKillPoint;
}

/** The machine of this process. Throws an Error that names the file and the remedy when its boot cannot be told. */
export function thisMachine({ bootIdFile, socket }: { readonly bootIdFile: string; readonly socket: string }): Machine {
  const kernelBootId = readKernelBootId(bootIdFile);
  return {
    bootId: presentBootId(bootFileOf(socket), kernelBootId),
    kernelBootId,
    bootTimeUs,
    namespaceIdAt,
    namespacesInUse,
    killPoint: armKillPoint(process.env.HOLDFAST_KILL_POINT),
  };
}

/** To a hundredth of a second. */
function bootTimeUs(): number {
  return Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 1_000_000;
}
