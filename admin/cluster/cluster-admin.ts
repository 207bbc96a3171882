/*
 * admin/cluster/: the routes of a daemon's socket, answered from the objects of a cluster
 *
 *   main             the entry of the bundle that the command line loads
 *   cluster-admin    request in, answer out; asking-api, cluster-problem: the API server, and why it does not answer
 *   look             lists and reads; network-views, udn-networks, history: what they show
 *   check            all checks; check-*: one kind of finding each; grace: what is too young to be reported
 *   import-report    what an import would take over, or took
 */

import { NODES_OWN } from "../../claims/network-owner.ts";
import { PodDirectory } from "../../claims/pod-directory.ts";
import { moveNetwork } from "../../claims/record-owner.ts";
import { ClusterIdentities } from "../../identity/cluster.ts";
import { ClusterVms } from "../../identity/cluster-vms.ts";
import type { NetworkFacts } from "../../identity/compose.ts";
import type { Holding } from "../../identity/holding.ts";
import { readIdentityQuery } from "../../identity/query.ts";
import { answerFrom } from "../../identity/sources.ts";
import type { IdentityAnswer, IdentityVm } from "../../identity/wire.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { CLAIMS_PATH } from "../../kube/objects.ts";
import { invalid, readAddress, readBody, readLimit, readQuery } from "../../platform/api-query.ts";
import { AllocationClient } from "../../store/cluster/allocations/allocation-client.ts";
import { listFromApi } from "../../store/cluster/allocations/views.ts";
import { releaseInKubernetes } from "../../store/cluster/release.ts";
import type { ClaimView } from "../../store/manifests.ts";
import type { NetworkView } from "../../store/records.ts";
import { checkCluster } from "./check.ts";
import { ClusterProblem } from "./cluster-problem.ts";
import { clusterHistory } from "./history.ts";
import { importCluster } from "./import-report.ts";
import { readAllocations, readDefinitions, readObjects } from "./look.ts";
import { clusterNetworks } from "./network-views.ts";
import { udnNetworks } from "./udn-networks.ts";

/** What is younger is not reported unless asked for, seconds: longer than a controller needs. */
const GRACE_SECONDS_DEFAULT = 120;
/** For a release when there is no limit, ms. */
const RELEASE_MS_MAX = 600_000;

/** For moving a network to another namespace, ms. */
const MOVE_MS_MAX = 30_000;
/** An RFC 1123 label. */
const NAMESPACE_NAME = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

export interface ClusterRequest {
  readonly method: "GET" | "POST";
  /** As on a daemon's socket. */
  readonly path: string;
  readonly query: Readonly<Record<string, string | undefined>>;
  readonly body: unknown;
}

interface Context {
  readonly api: KubeApi;
  readonly silenceMs: number;
}

/** The answer to one request. Throws RefusalError and ClusterProblem. */
export function routeOf(context: Context, { method, path, query, body }: ClusterRequest): Promise<unknown> {
  const { api } = context;
  const [, , resource, name] = path.split("/");
  switch (`${method} ${resource}`) {
    case "GET networks":
      return name === undefined ? listed(networks(api)) : oneNetwork(api, decodeURIComponent(name));
    case "GET allocations":
      return allocations(api, query);
    case "GET claims":
      return listed(claims(api, query));
    case "GET history":
      return listed(history(api, query));
    case "GET identity":
      return identity(api, query);
    case "GET check":
      return check(api, query);
    case "POST release":
      return release(context, body);
    case "POST networks":
      return ownNetwork(api, decodeURIComponent(name ?? ""), body);
    case "POST import":
      return importByHand(api, body);
    default:
      throw new Error(`${method} ${path} is no question to a cluster`);
  }
}

async function listed<T>(items: Promise<readonly T[]>): Promise<{ items: readonly T[] }> {
  return { items: await items };
}

async function networks(api: KubeApi): Promise<NetworkView[]> {
  const [{ book, networks: objects }, inUse] = await Promise.all([
    readDefinitions(api),
    readAllocations(api),
  ]);
  const ours = clusterNetworks(book, inUse, objects, api.clock.wallMs());
  const others = await udnNetworks(api, new Set(ours.map(({ name }) => name)));
  return [...ours, ...others].sort((a, b) => (a.name < b.name ? -1 : 1));
}

async function oneNetwork(api: KubeApi, wanted: string): Promise<NetworkView> {
  const found = (await networks(api)).find(({ name }) => name === wanted);
  if (!found) throw new RefusalError(refuse("NOT_FOUND", { what: `network ${wanted}` }));
  return found;
}

/** Moves a network to another namespace, or to the administrators; what is allocated on it stays. */
async function ownNetwork(api: KubeApi, network: string, body: unknown): Promise<object> {
  const { namespace, administrators = false } = readBody(body, ["namespace", "administrators"]);
  const deadlineMs = api.clock.monotonicMs() + MOVE_MS_MAX;
  if (administrators === true && namespace === undefined)
    return moveNetwork(api, network, NODES_OWN, deadlineMs);
  if (administrators !== false)
    invalid("administrators", administrators, "expected true, and no namespace beside it");
  if (typeof namespace !== "string" || !NAMESPACE_NAME.test(namespace))
    invalid("namespace", namespace, "expected the name of a namespace");
  return moveNetwork(api, network, namespace, deadlineMs);
}

/** All in one page whatever the limit: the cluster was read as a whole, and each page would read it again. */
function allocations(api: KubeApi, query: ClusterRequest["query"]): Promise<unknown> {
  const { address, limit, continue: token, ...filter } = query;
  readLimit(limit);
  const wanted = address === undefined ? undefined : readAddress("address", address);
  return listFromApi(
    api,
    { ...filter, address: wanted },
    { limit: Number.POSITIVE_INFINITY, continue: token },
  );
}

async function claims(api: KubeApi, query: ClusterRequest["query"]): Promise<ClaimView[]> {
  const { namespace, name } = query;
  const [{ book }, all] = await Promise.all([readDefinitions(api), readObjects<ClaimView>(api, CLAIMS_PATH)]);
  const ours = new Set(book.networks());
  return all
    .filter(({ spec }) => ours.has(spec?.network))
    .filter(({ metadata }) => namespace === undefined || metadata.namespace === namespace)
    .filter(({ metadata }) => name === undefined || metadata.name === name)
    .map((claim) => {
      const { managedFields: _, ...metadata } = claim.metadata;
      return { ...claim, metadata: metadata as ClaimView["metadata"] };
    });
}

async function history(api: KubeApi, query: ClusterRequest["query"]) {
  const { address, network, limit } = query;
  const wanted = address === undefined ? undefined : readAddress("address", address);
  return clusterHistory(await readAllocations(api), { network, address: wanted, limit: readLimit(limit) });
}

/** Without a journal: by an address alone every allocation is looked at, because there may be networks that nobody defines any more. */
async function identity(api: KubeApi, query: ClusterRequest["query"]): Promise<IdentityAnswer> {
  const { question, here } = readIdentityQuery(definedOnly(query));
  if (here) invalid("here", "true", "it asks a daemon about its node; leave it out, or ask with --socket");
  const { book } = await readDefinitions(api);
  const facts: NetworkFacts = {
    definition: (network) => book.definitionOf(network)?.definition,
    dns: ({ dns }) => dns,
    mtu: () => null,
    mac: () => null,
    routes: ({ routes }) => routes,
  };
  const vms = new ClusterVms(api, new PodDirectory(api, () => undefined));
  const source = new ClusterIdentities({ api, facts, vms, networks: () => null });
  return answerFrom(
    { find: (one) => source.find(one), vm: (found) => vmOrRecorded(source, found) },
    question,
    facts,
  );
}

/** Who may not read pods and VMs, or where KubeVirt is gone, is told what the allocations say. */
async function vmOrRecorded(
  source: ClusterIdentities,
  holdings: readonly Holding[],
): Promise<IdentityVm | null> {
  try {
    return await source.vm(holdings);
  } catch (error) {
    if (!(error instanceof ClusterProblem && error.kind === "refused")) throw error;
    const recorded = holdings.find(({ vm }) => vm !== null);
    if (!recorded?.vm) return null;
    return { namespace: recorded.owner.namespace, ...recorded.vm, vmiUid: null, firmwareUuid: null };
  }
}

function check(api: KubeApi, query: ClusterRequest["query"]) {
  const { grace } = readQuery(definedOnly(query), ["grace"]);
  const graceSeconds = grace === undefined ? GRACE_SECONDS_DEFAULT : Number(grace);
  return checkCluster(api, graceSeconds);
}

async function release({ api, silenceMs }: Context, body: unknown): Promise<unknown> {
  const { network, address, force = false } = readBody(body, ["network", "address", "force"]);
  if (typeof network !== "string") invalid("network", network, "expected the name of a network");
  const deadlineMs = api.clock.monotonicMs() + (silenceMs || RELEASE_MS_MAX);
  const outcome = await releaseInKubernetes(
    new AllocationClient(api, "housekeeping"),
    { network, address: readAddress("address", address), force: force === true },
    {
      deadlineMs,
      api,
      podState: (pod) => new PodDirectory(api, () => undefined).stateOf(pod, deadlineMs),
    },
  );
  if (outcome.kind === "refused") throw new RefusalError(outcome.refusal);
  return { addresses: outcome.addresses, holder: outcome.holder };
}

/** host-local's folders are on the nodes: `dataDir` is a question to a daemon. */
function importByHand(api: KubeApi, body: unknown) {
  const { network, dataDir, dryRun = false } = readBody(body, ["network", "dataDir", "dryRun"]);
  if (network !== undefined && typeof network !== "string")
    invalid("network", network, "expected the name of a network");
  if (dataDir !== undefined)
    invalid(
      "dataDir",
      dataDir,
      "host-local's addresses are on the nodes; run it there, without --kubeconfig",
    );
  return importCluster(api, { ...(network === undefined ? {} : { network }), dryRun: dryRun === true });
}

function definedOnly(query: ClusterRequest["query"]): object {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined));
}
