import type { Finding } from "../../ipam/finding.ts";
import { describeOwner } from "../../ipam/owner.ts";
import { RefusalError } from "../../ipam/refusals.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { describeLease, type JudgedLease } from "./judged-lease.ts";
import type { HostLocalTakeover } from "./takeover.ts";

export async function leaseFindings(takeover: HostLocalTakeover): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const definition of takeover.definitions) {
    try {
      for (const judged of await takeover.inspect(definition)) {
        const finding = findingOf(definition.name, judged);
        if (finding !== null) findings.push({ invariant: "host-local", ...finding });
      }
      for (const directory of takeover.lostDirectories(definition.name)) {
        findings.push({
          invariant: "host-local",
          message: `network ${definition.name}: ${directory}, in which host-local kept the addresses of containers that still run, is gone`,
          hint: "their addresses stay held; each ends with its container's DEL, or with holdfast release --force",
        });
      }
    } catch (error) {
      if (!(error instanceof RefusalError)) throw error;
      const { message, hint } = error.refusal;
      findings.push({ invariant: "host-local", message, hint });
    }
  }
  return findings;
}

function findingOf(network: string, { lease, verdict }: JudgedLease): Omit<Finding, "invariant"> | null {
  const address = formatAddress(lease.address);
  const user = describeLease(lease);
  switch (verdict.kind) {
    case "free":
      return {
        message: `${address} of network ${network} is in use by ${user} according to ${lease.path}, and not recorded`,
        hint: `holdfast import --network ${network} records it; if no container uses it, remove the file`,
      };
    case "other":
      return {
        message: `${address} of network ${network} is held by ${describeOwner(verdict.holder)}, but ${lease.path} says that ${user} uses it`,
        hint: "stop one of the two; if the container in the file is gone, remove the file",
      };
    case "recorded":
      if (lease.holder !== null) return null;
      return {
        message: `${address} of network ${network} is held because ${lease.path} names no container`,
        hint: "if no container uses the address, remove the file; the address is released then",
      };
    default:
      return null;
  }
}
