import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { isNetworkName } from "../../ipam/definition/plugin-config.ts";
import type { Finding } from "../../ipam/finding.ts";
import { describeOwner } from "../../ipam/owner.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { describeLease, type JudgedLease } from "./record-leases.ts";
import type { HostLocalTakeover } from "./takeover.ts";

/** What happens, or would happen, to one address that was in use before Holdfast. */
type ImportAction =
  | "would-record"
  | "recorded-now"
  | "recorded-before"
  /** Its container has ended here; the file or annotation is left over. */
  | "ended"
  /** Another owner has the address. */
  | "conflict"
  /** In no subnet of the network. */
  | "outside"
  /** The network has no definition yet: its first ADD, or an applied definition, provides it. */
  | "undefined";

export interface ImportItem {
  readonly network: string;
  readonly address: string;
  /** The user of the address according to the source. */
  readonly user: string;
  /** The file or object that says so. */
  readonly source: string;
  readonly action: ImportAction;
  /** "" where the action says everything. */
  readonly detail: string;
}

/** The answer of `POST /v1/import`: every address, and what could not be read. */
export interface ImportReport {
  /** The directories of host-local that were read; absent where nothing is read from directories. */
  readonly directories?: readonly string[];
  readonly items: readonly ImportItem[];
  readonly problems: readonly { readonly code: string; readonly message: string; readonly hint: string }[];
}

export interface ImportRequest {
  /** Default: every network. */
  readonly network?: string;
  /** Instead of the network's own; requires a network. */
  readonly dataDir?: string;
  readonly dryRun: boolean;
}

/** Takes over what host-local allocated on this node, or reports what that would do. Throws RefusalError NOT_FOUND. */
export async function importLeases(
  takeover: HostLocalTakeover,
  { network, dataDir, dryRun }: ImportRequest,
): Promise<ImportReport> {
  const items: ImportItem[] = [];
  const directories = new Set<string>();
  const problems: { code: string; message: string; hint: string }[] = [];
  const attempt = async (name: string, judge: () => Promise<readonly JudgedLease[]>) => {
    try {
      items.push(...(await judge()).map((judged) => itemOf(name, judged)));
    } catch (error) {
      if (!(error instanceof RefusalError)) throw error;
      const { code, message, hint } = error.refusal;
      problems.push({ code, message, hint });
    }
  };
  const defined = takeover.definitions.filter(({ name }) => network === undefined || name === network);
  for (const definition of defined) {
    await attempt(definition.name, () => {
      for (const directory of takeover.directoriesOf(definition, dataDir)) directories.add(directory);
      return dryRun ? takeover.inspect(definition, dataDir) : takeover.takeOver(definition, dataDir);
    });
  }
  if (dryRun) {
    if (network === undefined) directories.add(takeover.standardDir);
    for (const directory of undefinedDirectories(takeover, network, dataDir)) {
      await attempt(directory.network, async () => {
        if (dataDir !== undefined) takeover.refuseHidden(directory.network, dataDir);
        directories.add(directory.path);
        return takeover.inspectUndefined(directory.network, directory.path);
      });
    }
  } else if (network !== undefined && defined.length === 0) {
    throw new RefusalError(refuse("NOT_FOUND", { what: `definition of network ${network}` }));
  }
  const order = ({ network: name, source }: ImportItem) => `${name}\n${source}`;
  return {
    items: items.sort((a, b) => (order(a) < order(b) ? -1 : 1)),
    problems,
    directories: [...directories],
  };
}

/** Directories of networks that are not ours yet, or not defined: what their first ADD would take over. */
function undefinedDirectories(
  takeover: HostLocalTakeover,
  network: string | undefined,
  dataDir: string | undefined,
): { network: string; path: string }[] {
  const defined = new Set(takeover.definitions.map(({ name }: NetworkDefinition) => name));
  const root = dataDir ?? takeover.standardDir;
  const names = network !== undefined ? [network] : existsSync(root) ? readdirSync(root) : [];
  return names
    .filter((name) => isNetworkName(name) && !defined.has(name))
    .map((name) => ({ network: name, path: join(root, name) }));
}

function itemOf(network: string, { lease, verdict }: JudgedLease): ImportItem {
  const item = {
    network,
    address: formatAddress(lease.address),
    user: describeLease(lease),
    source: lease.path,
  };
  switch (verdict.kind) {
    case "free":
      return { ...item, action: "would-record", detail: "" };
    case "taken":
      return { ...item, action: "recorded-now", detail: "" };
    case "recorded":
      return { ...item, action: "recorded-before", detail: "" };
    case "ended":
      return { ...item, action: "ended", detail: "the file is removed as soon as it can be" };
    case "outside":
      return { ...item, action: "outside", detail: "in no subnet of the network" };
    case "undefined":
      return { ...item, action: "undefined", detail: "recorded by the network's first ADD" };
    case "other":
      return { ...item, action: "conflict", detail: `held by ${describeOwner(verdict.holder)}` };
  }
}

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
