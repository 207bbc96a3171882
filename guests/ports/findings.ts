import type { Finding } from "../../ipam/finding.ts";
import type { PortReports } from "./reports.ts";
import { portKey } from "./wanted-state.ts";
import type { FailedPort, WantedPorts } from "./wire.ts";

/** Failed ports that are named one by one; more would hide other findings. */
const NAMED_MAX = 10;

/** Findings about the guests of this node that get no metadata. */
export function portFindings(reports: PortReports, { ports, ovnNetworks }: WantedPorts): Finding[] {
  const wantedCount = ports.length + ovnNetworks.length;
  if (wantedCount === 0) return [];
  if (reports.away) {
    const what = ports.length === 1 ? "1 interface" : `${ports.length} interfaces`;
    return [
      finding(
        `holdfast metadata-net is not heard on this node: guests that it knows are served, new ones are not (${what} with metadata)`,
        "start it (systemctl status holdfast-metadata-net), or apply the networks without metadata",
      ),
    ];
  }
  if (reports.problem !== null) {
    return [
      finding(
        `no guest of this node gets metadata: ${reports.problem}`,
        "fix the cause above; metadata-net retries every few seconds, details are in its log",
      ),
    ];
  }
  const networks = new Map(ports.map((one) => [portKey(one), one.network]));
  const failed = reports.failed.filter((one) => networks.has(portKey(one)));
  const named = failed.slice(0, NAMED_MAX).map((one) => failedPort(one, networks.get(portKey(one)) ?? ""));
  const left = failed.length - named.length;
  if (left === 0) return named;
  return [...named, finding(`${left} more interfaces get no metadata`, "see the log of metadata-net")];
}

function failedPort({ containerId, interface: name, kind, problem }: FailedPort, network: string): Finding {
  return finding(
    `interface ${name} of container ${containerId} on network ${network} gets no metadata: ${problem}`,
    kind === "final"
      ? "attach the guest by a plugin that leaves an end of its interface on the node, or apply the network without metadata"
      : "fix the cause above; metadata-net retries every few seconds, details are in its log",
  );
}

function finding(message: string, hint: string): Finding {
  return { invariant: "metadata", message, hint };
}
