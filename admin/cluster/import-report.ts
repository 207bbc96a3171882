import { sameAllocationOwner } from "../../allocations/allocation-object.ts";
import { describeHolder } from "../../allocations/owners.ts";
import { type ImportedAddress, type ImportTarget, importNetworks } from "../../imports/import.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { allocationName } from "../../kube/object-names.ts";
import type { IPAllocation, IPNetwork } from "../../kube/objects.ts";
import { nodeDefinitionsOf } from "../../networks/import-sources.ts";
import { recordOwner } from "../../networks/record-owner.ts";
import type { ImportItem, ImportReport } from "../../store/host-local/report.ts";
import { readAllocations, readDefinitions } from "./snapshot.ts";

/** For recording a network's owner, ms: all NetworkAttachmentDefinitions are listed. */
const OWNER_MS_MAX = 60_000;
/** The report has everything that matters. */
const SILENT = { info() {}, warn() {} };

export interface ClusterImportOptions {
  /** Default: every network of ours. */
  readonly network?: string;
  readonly dryRun: boolean;
}

/**
 * Of claims, living pods and whereabouts, and before that the owner of each network. A dry run only reports. Throws
 * errors of the API, and RefusalError NOT_FOUND.
 */
export async function importCluster(
  api: KubeApi,
  { network: wanted, dryRun }: ClusterImportOptions,
): Promise<ImportReport> {
  const { catalog, networks } = await readDefinitions(api);
  const byNodes = nodeNetworks(networks.values());
  const ours = [...new Set([...catalog.networks(), ...byNodes.keys()])].sort();
  if (wanted !== undefined && !ours.includes(wanted))
    throw new RefusalError(refuse("NOT_FOUND", { what: `network ${wanted}` }));
  const known = new Map<string, IPAllocation>();
  for (const one of dryRun ? await readAllocations(api) : []) known.set(one.metadata.name, one);
  const items: ImportItem[] = [];
  const problems: { code: string; message: string; hint: string }[] = [];
  const targets: ImportTarget[] = [];
  for (const network of wanted === undefined ? ours : [wanted]) {
    if (!dryRun) {
      const deadlineMs = api.clock.monotonicMs() + OWNER_MS_MAX;
      const owner = await recordOwner(api, network, {
        catalog,
        byNodes: byNodes.has(network),
        deadlineMs,
        log: SILENT,
      });
      catalog.setOwner(network, owner);
    }
    targets.push(...(byNodes.get(network) ?? [null]).map((nodes) => ({ network, nodes })));
  }
  const options = { definitions: catalog, again: true, dryRun, log: SILENT };
  for (const [index, result] of (await importNetworks(api, targets, options)).entries()) {
    const network = targets[index]?.network ?? "";
    if (result.kind === "failed") throw result.error;
    if (result.kind !== "imported") continue;
    items.push(...result.addresses.map((one) => itemOf(network, one, known)));
    for (const message of result.problems) {
      const hint = "it is not recorded; see whether it is in use, and who wrote it";
      problems.push({ code: "", message: `network ${network}: ${message}`, hint });
    }
  }
  return { items, problems };
}

function nodeNetworks(objects: Iterable<IPNetwork>): Map<string, ReturnType<typeof nodeDefinitionsOf>> {
  const found = new Map<string, ReturnType<typeof nodeDefinitionsOf>>();
  for (const object of objects) {
    const definitions = nodeDefinitionsOf(object);
    if (definitions.length > 0) found.set(object.spec.network, definitions);
  }
  return found;
}

function itemOf(
  network: string,
  { address, owner, foundIn, outcome, by }: ImportedAddress,
  known: ReadonlyMap<string, IPAllocation>,
): ImportItem {
  const item = { network, address, user: describeHolder(owner), source: foundIn };
  if (outcome === "recorded") return { ...item, action: "recorded-now", detail: "" };
  if (outcome === "known") return { ...item, action: "recorded-before", detail: "" };
  if (outcome === "taken") return { ...item, action: "conflict", detail: `held by ${by}` };
  const object = known.get(allocationName(network, parseInterfaceAddress(address).address));
  if (object !== undefined && sameAllocationOwner(object.spec.owner, owner)) {
    return { ...item, action: "recorded-before", detail: "" };
  }
  if (object === undefined || object.status?.state === "Cooling") {
    return { ...item, action: "would-record", detail: "" };
  }
  const holder = describeHolder(object.spec.owner);
  return { ...item, action: "conflict", detail: `held by ${holder}` };
}
