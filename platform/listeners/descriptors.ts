import { readFileSync } from "node:fs";
import { LISTENERS, type ListenerName } from "./listeners.ts";

/** For the database, files, and connections of our own. */
export const DESCRIPTORS_KEPT = 256;
/** Also where there are hardly any descriptors. */
const CONNECTIONS_MIN = 16;

/** Of each connection, two: the relay leads it on by one of its own. */
const LEADING: readonly string[] = ["relay"] satisfies ListenerName[];

/** Listeners with at most so many places have them on every machine. */
const SMALL_MAX = 256;

/**
 * Connections of a listener at once. What all listeners of a process take together leaves it descriptors: where its
 * limit is low, those with many places have fewer, the same share each. So accepting never finds none, and nor does the
 * state database.
 */
export function connectionsMaxOf(name: ListenerName, limit = descriptorLimit()): number {
  const { connectionsMax, processes } = LISTENERS[name];
  if (connectionsMax <= SMALL_MAX) return connectionsMax;
  const all = Object.entries(LISTENERS).filter(([, row]) =>
    row.processes.some((one) => (processes as readonly string[]).includes(one)),
  );
  let left = limit - DESCRIPTORS_KEPT;
  let shares = 0;
  for (const [one, row] of all)
    if (row.connectionsMax <= SMALL_MAX) left -= row.connectionsMax;
    else shares += LEADING.includes(one) ? 2 : 1;
  const share = Math.floor(left / shares);
  return Math.max(CONNECTIONS_MIN, Math.min(connectionsMax, share));
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
