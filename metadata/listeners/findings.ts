import type { Finding } from "../../ipam/finding.ts";
import type { ListenerReports } from "./reports.ts";

/** Findings about this node's metadata listeners. `wanted`: networks that need one. */
export function listenerFindings(reports: ListenerReports, wanted: readonly string[]): Finding[] {
  if (wanted.length === 0) return [];
  if (reports.away) {
    const [first, ...others] = wanted;
    const networks = others.length === 0 ? `network ${first}` : `network ${first} and ${others.length} more`;
    return [
      {
        invariant: "metadata",
        message: `holdfast metadata-net is not heard on this node; what it made before is served, and nothing new for ${networks}`,
        hint: "start it (systemctl status holdfast-metadata-net), or apply the network without metadata",
      },
    ];
  }
  return reports.failed
    .filter(({ network }) => wanted.includes(network))
    .map(({ network, problem }) => ({
      invariant: "metadata",
      message: `network ${network} has no metadata on this node: ${problem ?? "no reason was given"}`,
      hint: "mend what the reason names; metadata-net tries again every few seconds, and its log says more",
    }));
}
