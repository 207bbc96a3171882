import type { Simulated } from "../simulate.ts";

/** Chance alone makes the sums of two worlds differ by this much: what is refused, lost or late is asked for again. */
const GROWTH_MAX = 1.3;
/** Both worlds have the same of them: how often their list is begun again while a server starts is chance alone. */
const DEFINITIONS = "network-attachment-definitions";
/** Sums of fewer requests say nothing. */
const REQUESTS_MIN = 100;

interface Sum {
  requests: number;
  bytes: number;
}

/** With its last lines, when something is wrong. */
export const judged = ({ code, stdout }: Simulated): string => (code === 0 ? "clean" : stdout.slice(-3_000));

/** What the nodes of the second world asked for so much more of than those of the first, by phase. */
export function growthOf(few: Simulated, many: Simulated): string[] {
  const [before, after] = [sumsOf(few), sumsOf(many)];
  return [...after].flatMap(([phase, sum]) => {
    const { requests, bytes } = before.get(phase) ?? { requests: 0, bytes: 0 };
    if (sum.requests < REQUESTS_MIN) return [];
    const hasGrown = sum.requests > requests * GROWTH_MAX || sum.bytes > bytes * GROWTH_MAX;
    return hasGrown
      ? [`${phase}: ${requests} requests and ${bytes} bytes, ${sum.requests} and ${sum.bytes} there`]
      : [];
  });
}

/** Of all nodes together, by phase. */
function sumsOf({ result }: Simulated): Map<string, Sum> {
  const sums = new Map<string, Sum>();
  for (const { client, phase, what, requests, bytes } of result?.charges ?? []) {
    if (!client.startsWith("node-") || what.resource === DEFINITIONS) continue;
    const sum = sums.get(phase) ?? { requests: 0, bytes: 0 };
    sums.set(phase, { requests: sum.requests + requests, bytes: sum.bytes + bytes });
  }
  return sums;
}
