import { readFileSync } from "node:fs";
import { LISTENERS, type ListenerName } from "./listeners.ts";

/** For the database, files, and connections of our own. */
export const DESCRIPTORS_KEPT = 256;
/** Also where there are hardly any descriptors. */
const CONNECTIONS_MIN = 16;

/**
 * Connections of a listener at once. What all listeners of a process take together leaves it descriptors: where its limit
 * is low, the listener with most places has fewer. So accepting never finds none, and nor does the state database.
 */
export function connectionsMaxOf(name: ListenerName, limit = descriptorLimit()): number {
  const { connectionsMax, processes } = LISTENERS[name];
  const beside = Object.entries(LISTENERS).filter(
    ([other, row]) =>
      other !== name && row.processes.some((one) => (processes as readonly string[]).includes(one)),
  );
  if (beside.some(([, row]) => row.connectionsMax > connectionsMax)) return connectionsMax;
  const others = beside.reduce((sum, [, row]) => sum + row.connectionsMax, 0);
  return Math.max(CONNECTIONS_MIN, Math.min(connectionsMax, limit - DESCRIPTORS_KEPT - others));
}

/** Node raises the soft limit to the hard one when it starts. */
function descriptorLimit(): number {
  try {
    const line = /^Max open files +(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"));
    return line === null ? Number.POSITIVE_INFINITY : Number(line[1]);
  } catch {
    // Not Linux.
    return Number.POSITIVE_INFINITY;
  }
}
