import { isAbsolute } from "node:path";
import type { AllocationFilter, ClaimFilter, PageRequest } from "../allocations/filter.ts";
import { ALLOCATION_STATES, type AllocationState } from "../allocations/records.ts";
import { isNetworkName } from "../ipam/definition/plugin-config.ts";
import type { Address } from "../ipam/space/address.ts";
import type { Cidr } from "../ipam/space/cidr.ts";
import { WRITTEN } from "../ipam/space/written.ts";
import { isNamespaceName } from "../kube/object-names.ts";
import { DEFAULT_NAMESPACE } from "../kube/views/claim-reference.ts";
import { NODES_OWN } from "../networks/network-owner.ts";
import { invalid, readAddress, readBody, readQuery } from "../platform/api-query.ts";
import type { ImportRequest } from "../store/host-local/report.ts";
import type { HistoryWant, ReleaseWant } from "../store/node-store.ts";
import type { DiffWant, FreeWant, NetworksWant, OwnersQuestion, PlanWant, ReleaseMovedWant } from "./admin-api.ts";
import { FREE_COUNT_DEFAULT, FREE_COUNT_MAX, GRACE_SECONDS_MAX, ITEMS_DEFAULT, ITEMS_MAX } from "./limits.ts";

/** A request that has not been validated. The readers below throw RefusalError REQUEST_INVALID. */
export interface AdminRequest {
  /** The parts of the path that its pattern names, decoded. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: unknown;
  readonly body: unknown;
}

const ALLOCATION_KEYS = [
  ...["network", "address", "subnet", "state", "namespace", "pod", "claim", "cluster", "vm", "node"],
  ...["limit", "continue"],
];

export function readNothing({ query }: AdminRequest): void {
  readQuery(query, []);
}

/** Whether holders that stay behind their network's definition are counted, and whether any are. */
export function readNetworksQuery({ query }: AdminRequest): NetworksWant {
  const { former, counted } = readQuery(query, ["former", "counted"]);
  if (former !== undefined && former !== "true") invalid("former", former, "expected true, or nothing");
  return { former: former === "true", counted: readCounted(counted) };
}

function readCounted(text: string | undefined): boolean {
  if (text !== undefined && text !== "false") invalid("counted", text, "expected false, or nothing");
  return text === undefined;
}

/** The part of the path that the pattern calls `:name`. */
export function readName({ params, query }: AdminRequest): string {
  readQuery(query, []);
  return params.name ?? "";
}

/** `?count=`, 5 by default, `subnet=`, a part of the network, and `counted=false`, as if nobody had an address. */
export function readFreeWant({ params, query }: AdminRequest): { network: string; want: FreeWant } {
  const { count, subnet, counted } = readQuery(query, ["count", "subnet", "counted"]);
  return {
    network: params.name ?? "",
    want: {
      count: count === undefined ? FREE_COUNT_DEFAULT : readWhole("count", count, 0, FREE_COUNT_MAX),
      within: subnet === undefined ? null : readSubnet(subnet),
      counted: readCounted(counted),
    },
  };
}

function readSubnet(text: string): Cidr {
  try {
    return WRITTEN.subnet(text).cidr;
  } catch (error) {
    return invalid("subnet", text, `expected a subnet, as 10.0.0.0/24: ${(error as Error).message}`);
  }
}

export function readNamespacedName(request: AdminRequest): { namespace: string; name: string } {
  return { namespace: request.params.namespace ?? "", name: readName(request) };
}

export function readAllocationQuery({ query }: AdminRequest): {
  filter: AllocationFilter;
  page: PageRequest;
} {
  const { address, subnet, state, limit, continue: token, ...names } = readQuery(query, ALLOCATION_KEYS);
  const filter: AllocationFilter = {
    ...names,
    address: address === undefined ? undefined : readAddress("address", address, WRITTEN.address),
    subnet: subnet === undefined ? undefined : readSubnet(subnet),
    state: state === undefined ? undefined : readState(state),
  };
  return { filter, page: { limit: readLimit(limit), continue: token } };
}

function readState(text: string): AllocationState {
  const found = ALLOCATION_STATES.find((state) => state.toLowerCase() === text.toLowerCase());
  return found ?? invalid("state", text, `expected one of ${ALLOCATION_STATES.join(", ")}`);
}

export function readClaimQuery({ query }: AdminRequest): { filter: ClaimFilter; page: PageRequest } {
  const { limit, continue: token, ...filter } = readQuery(query, ["namespace", "name", "limit", "continue"]);
  return { filter, page: { limit: readLimit(limit), continue: token } };
}

export function readHistoryWant({ query }: AdminRequest): HistoryWant {
  const { address, limit, ...names } = readQuery(query, ["address", "network", "namespace", "limit"]);
  const wanted = address === undefined ? undefined : readAddress("address", address, WRITTEN.address);
  return { ...names, address: wanted, limit: readLimit(limit) };
}

export function readPlaceQuery({ query }: AdminRequest): Address {
  const { address } = readQuery(query, ["address"]);
  return readAddress("address", address, WRITTEN.address);
}

/** Seconds; null: not given. */
export function readGrace({ query }: AdminRequest): number | null {
  const { grace } = readQuery(query, ["grace"]);
  return grace === undefined ? null : readWhole("grace", grace, 0, GRACE_SECONDS_MAX);
}

export function readRelease({ query, body }: AdminRequest): ReleaseWant {
  readQuery(query, []);
  const { network, address, ...flags } = readBody(body, ["network", "address", "force", "dryRun"]);
  const { force = false, dryRun = false } = flags;
  if (typeof network !== "string") invalid("network", network, "expected the name of a network");
  if (typeof force !== "boolean") invalid("force", force, "expected true or false");
  if (typeof dryRun !== "boolean") invalid("dryRun", dryRun, "expected true or false");
  return { network, address: readAddress("address", address, WRITTEN.address), force, dryRun };
}

export function readReleaseMoved({ query, body }: AdminRequest): ReleaseMovedWant {
  readQuery(query, []);
  const { cluster, force = false, dryRun = false } = readBody(body, ["cluster", "force", "dryRun"]);
  const [namespace = "", name = "", ...rest] = typeof cluster === "string" ? cluster.split("/") : [];
  if (!isNamespaceName(namespace) || name === "" || rest.length > 0)
    invalid("cluster", cluster, "expected a cluster of Cluster API as namespace/name");
  if (typeof force !== "boolean") invalid("force", force, "expected true or false");
  if (typeof dryRun !== "boolean") invalid("dryRun", dryRun, "expected true or false");
  return { cluster: { namespace, name }, force, dryRun };
}

export function readOwnersQuestion({ query }: AdminRequest): OwnersQuestion {
  const { address, network } = readQuery(query, ["address", "network"]);
  return { address: readAddress("address", address, WRITTEN.address), network };
}

export function readImport({ query, body }: AdminRequest): ImportRequest {
  readQuery(query, []);
  const { network, dataDir, dryRun = false } = readBody(body, ["network", "dataDir", "dryRun"]);
  if (network !== undefined && (typeof network !== "string" || !isNetworkName(network)))
    invalid("network", network, "expected the name of a network");
  if (dataDir !== undefined && (typeof dataDir !== "string" || !isAbsolute(dataDir)))
    invalid("dataDir", dataDir, "expected an absolute path");
  if (dataDir !== undefined && network === undefined)
    invalid("dataDir", dataDir, "name the network too: each may have its own");
  if (typeof dryRun !== "boolean") invalid("dryRun", dryRun, "expected true or false");
  return {
    ...(typeof network === "string" ? { network } : {}),
    ...(typeof dataDir === "string" ? { dataDir } : {}),
    dryRun,
  };
}

export function readObjects({ query, body }: AdminRequest): readonly unknown[] {
  readQuery(query, []);
  const { objects } = readBody(body, ["objects"]);
  if (!Array.isArray(objects)) invalid("objects", objects, "expected a list of Kubernetes objects");
  return objects;
}

export function readDiff({ query, body }: AdminRequest): DiffWant {
  readQuery(query, []);
  const { objects, delete: isDelete = false } = readBody(body, ["objects", "delete"]);
  if (!Array.isArray(objects)) invalid("objects", objects, "expected a list of Kubernetes objects");
  if (typeof isDelete !== "boolean") invalid("delete", isDelete, "expected true or false");
  return { objects, delete: isDelete };
}

/** `{objects, namespace}`: VMs of a file; without objects those of a cluster, of one namespace or of all. */
export function readPlan({ query, body }: AdminRequest): PlanWant {
  readQuery(query, []);
  const { objects, namespace } = readBody(body, ["objects", "namespace"]);
  if (namespace !== undefined && (typeof namespace !== "string" || !isNamespaceName(namespace)))
    invalid("namespace", namespace, "expected the name of a namespace");
  if (objects === undefined) return { objects: null, namespace: namespace ?? null };
  if (!Array.isArray(objects)) invalid("objects", objects, "expected a list of Kubernetes objects");
  return { objects, namespace: namespace ?? DEFAULT_NAMESPACE };
}

export function readBackup({ query, body }: AdminRequest): { path: string; directory: string | null } {
  readQuery(query, []);
  const { path, directory } = readBody(body, ["path", "directory"]);
  if (typeof path !== "string" || !isAbsolute(path)) invalid("path", path, "expected an absolute path");
  if (directory !== undefined && typeof directory !== "string")
    invalid("directory", directory, 'expected "device:inode" of the directory');
  return { path, directory: directory ?? null };
}

/** `backup`: null is an empty database. */
export function readRebuild({ query, body }: AdminRequest): { backup: string | null; replace: boolean } {
  readQuery(query, []);
  const { from, empty = false, replace = false } = readBody(body, ["from", "empty", "replace"]);
  if (typeof replace !== "boolean" || (replace && from === undefined))
    invalid("replace", replace, "expected true, together with from, or false");
  if ((from === undefined) === (empty !== true))
    invalid("from", from, "expected either from (a backup) or empty: true");
  if (from !== undefined && (typeof from !== "string" || !isAbsolute(from)))
    invalid("from", from, "expected the absolute path of a backup");
  return { backup: typeof from === "string" ? from : null, replace };
}

/** `owner`: a namespace, or NODES_OWN for the administrators. */
export function readNewOwner(request: AdminRequest): { network: string; owner: string } {
  const network = readName(request);
  const { namespace, administrators = false } = readBody(request.body, ["namespace", "administrators"]);
  if (administrators === true && namespace === undefined) return { network, owner: NODES_OWN };
  if (administrators !== false) invalid("administrators", administrators, "expected true, and no namespace beside it");
  if (typeof namespace !== "string" || !isNamespaceName(namespace))
    invalid("namespace", namespace, "expected the name of a namespace");
  return { network, owner: namespace };
}

function readLimit(text: string | undefined): number {
  return text === undefined ? ITEMS_DEFAULT : readWhole("limit", text, 1, ITEMS_MAX);
}

function readWhole(key: string, text: string, min: number, max: number): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < min || value > max)
    invalid(key, text, `expected a whole number from ${min} to ${max}`);
  return value;
}
