import { readIdentityQuery } from "../identity/query.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import type { AdminApi, CheckReport, ClusterAdminApi, NetworkWithClaims, NodeAdminApi } from "./admin-api.ts";
import type { Answer as AnswerOf, Method, PathOf } from "./answers.ts";
import { CLUSTER_ONLY, MACHINES_ONLY, NODE_ONLY, USE_KUBECTL } from "./elsewhere.ts";
import {
  type AdminRequest,
  readAllocationQuery,
  readBackup,
  readClaimQuery,
  readDiff,
  readFreeWant,
  readGrace,
  readHistoryWant,
  readImport,
  readName,
  readNamespacedName,
  readNetworksQuery,
  readNewOwner,
  readNothing,
  readObjects,
  readOwnersQuestion,
  readPlaceQuery,
  readPlan,
  readRebuild,
  readRelease,
  readReleaseMoved,
} from "./inputs.ts";

/** Reads a request and resolves with the body of the answer. Rejects with RefusalError and errors of the call. */
type Answer<Api> = (api: Api, request: AdminRequest) => Promise<object>;

/** One route of the admin API; null: that side does not answer it, and `elsewhere` is its hint. */
export interface AdminRoute {
  readonly method: Method;
  /** `:name` stands for one part of a path. */
  readonly path: string;
  readonly node: Answer<NodeAdminApi> | null;
  readonly cluster: Answer<ClusterAdminApi> | null;
  readonly elsewhere: string;
}

type RouteOf<Of extends Method, Path extends PathOf<Of>> = AdminRoute & {
  readonly method: Of;
  readonly path: Path;
};

const TABLE = [
  both("GET", "/v1/networks", readNetworksQuery, async (api, options) => ({
    items: await api.networks(options),
  })),
  both("GET", "/v1/networks/:name", readName, async (api, name) => named(await api.networks(), name)),
  both("GET", "/v1/networks/:name/free", readFreeWant, (api, { network, want }) => api.free(network, want)),
  both("GET", "/v1/allocations", readAllocationQuery, (api, { filter, page }) => api.allocations(filter, page)),
  both("GET", "/v1/claims", readClaimQuery, (api, { filter, page }) => api.claims(filter, page)),
  both("GET", "/v1/history", readHistoryWant, async (api, filter) => ({
    items: await api.history(filter),
  })),
  both(
    "GET",
    "/v1/identity",
    ({ query }) => readIdentityQuery(query),
    (api, query) => api.identity(query),
  ),
  both("GET", "/v1/places", readPlaceQuery, async (api, address) => ({ items: await api.places(address) })),
  both("GET", "/v1/check", readGrace, async (api, grace) => renamedReport(await api.check(grace))),
  both("POST", "/v1/release", readRelease, async (api, want) => {
    const outcome = await api.release(want);
    if (outcome.kind === "refused") throw new RefusalError(outcome.refusal);
    return { addresses: outcome.addresses, holder: outcome.holder };
  }),
  both("POST", "/v1/plan", readPlan, async (api, want) => ({ items: await api.plan(want) })),
  both("POST", "/v1/import", readImport, (api, request) => api.importByHand(request)),

  onlyNode(NODE_ONLY, "GET", "/v1/status", readNothing, async (api) => api.status()),
  onlyNode(NODE_ONLY, "GET", "/v1/version", readNothing, async ({ version }) => ({ version })),
  onlyNode(USE_KUBECTL, "GET", "/v1/content", readNothing, async (api) => ({ items: await api.content() })),
  onlyNode(USE_KUBECTL, "POST", "/v1/apply", readObjects, async (api, objects) => ({
    results: await api.apply(objects),
  })),
  onlyNode(USE_KUBECTL, "POST", "/v1/diff", readDiff, async (api, want) => ({
    results: await api.diff(want),
  })),
  onlyNode(USE_KUBECTL, "POST", "/v1/delete", readObjects, async (api, objects) => ({
    results: await api.delete(objects),
  })),
  onlyNode(
    USE_KUBECTL,
    "DELETE",
    "/v1/claims/:namespace/:name",
    readNamespacedName,
    async (api, { namespace, name }) =>
      (await api.deleteClaim(namespace, name)) ?? missing(`claim ${namespace}/${name}`),
  ),
  onlyNode(NODE_ONLY, "POST", "/v1/backup", readBackup, async (api, { path, directory }) => ({
    path,
    bytes: await api.backup(path, directory),
  })),
  onlyNode(NODE_ONLY, "GET", "/v1/rebuild", readNothing, async ({ isComparable }) => ({
    comparable: isComparable,
  })),
  onlyNode(NODE_ONLY, "POST", "/v1/rebuild", readRebuild, async (api, { backup, replace }) => {
    await api.rebuild(backup, replace);
    return { rebuilt: true } as const;
  }),

  onlyCluster(CLUSTER_ONLY, "POST", "/v1/networks/:name", readNewOwner, (api, { network, owner }) =>
    api.moveNetwork(network, owner),
  ),
  onlyCluster(CLUSTER_ONLY, "GET", "/v1/doctor", readNothing, async (api) => ({ items: await api.doctor() })),
  onlyCluster(MACHINES_ONLY, "GET", "/v1/owners", readOwnersQuestion, async (api, question) => ({
    items: await api.ownersOf(question),
  })),
  onlyCluster(MACHINES_ONLY, "POST", "/v1/release-moved", readReleaseMoved, (api, want) => api.releaseMoved(want)),
];

type PathsOf<Of extends Method> = Extract<(typeof TABLE)[number], { method: Of }>["path"];
type Unrouted<Key, Path> = Key extends Path ? never : [Extract<Path, Key>] extends [never] ? Key : never;
/** Keys of `Answers` that no route answers: `never`, or ROUTES does not compile. */
type Missing = { [Of in Method]: Unrouted<PathOf<Of>, PathsOf<Of>> }[Method];

/** Every route of both, whose inputs are read here and nowhere else (docs/decisions/0034). */
export const ROUTES: [Missing] extends [never] ? readonly AdminRoute[] : { readonly missing: Missing } = TABLE;

/**
 * Whether members of the daemon's group may ask it: what changes nothing. Not `/v1/diff`, which takes the ADDs' turn in
 * a transaction and shows whether somebody has guessed a Secret. Not what a rebuild asks first: the database is checked
 * in one turn.
 */
export function isForReaders({ method, path }: AdminRoute): boolean {
  return (method === "GET" && path !== "/v1/rebuild") || path === "/v1/plan";
}

/** Whether a node may ask an API server for the answer. */
export function mayWait({ path }: AdminRoute): boolean {
  return path === "/v1/check" || path === "/v1/identity";
}

export async function answerRoute(
  { method, path, node, cluster, elsewhere }: AdminRoute,
  api: NodeAdminApi | ClusterAdminApi,
  request: AdminRequest,
): Promise<object> {
  if (api.kind === "node" && node !== null) return node(api, request);
  if (api.kind === "cluster" && cluster !== null) return cluster(api, request);
  const [here, other] = api.kind === "node" ? ["a daemon", "a cluster"] : ["a cluster", "a daemon"];
  const refusal = refuse("NOT_FOUND", {
    what: `route ${method} ${path} of ${here}: only ${other} answers it`,
  });
  throw new RefusalError({ ...refusal, hint: elsewhere });
}

function both<Of extends Method, Path extends PathOf<Of>, Input>(
  method: Of,
  path: Path,
  read: (request: AdminRequest) => Input,
  call: (api: AdminApi, input: Input) => Promise<AnswerOf<Of, Path> & object>,
): RouteOf<Of, Path> {
  const answer = answerWith(read, call);
  return { method, path, node: answer, cluster: answer, elsewhere: "" };
}

function onlyNode<Of extends Method, Path extends PathOf<Of>, Input>(
  elsewhere: string,
  method: Of,
  path: Path,
  read: (request: AdminRequest) => Input,
  call: (api: NodeAdminApi, input: Input) => Promise<AnswerOf<Of, Path> & object>,
): RouteOf<Of, Path> {
  return { method, path, node: answerWith(read, call), cluster: null, elsewhere };
}

function onlyCluster<Of extends Method, Path extends PathOf<Of>, Input>(
  elsewhere: string,
  method: Of,
  path: Path,
  read: (request: AdminRequest) => Input,
  call: (api: ClusterAdminApi, input: Input) => Promise<AnswerOf<Of, Path> & object>,
): RouteOf<Of, Path> {
  return { method, path, node: null, cluster: answerWith(read, call), elsewhere };
}

function answerWith<Api, Input>(
  read: (request: AdminRequest) => Input,
  call: (api: Api, input: Input) => Promise<object>,
): Answer<Api> {
  return async (api, request) => call(api, read(request));
}

function named(networks: readonly NetworkWithClaims[], wanted: string): NetworkWithClaims {
  return networks.find(({ name }) => name === wanted) ?? missing(`network ${wanted}`);
}

function missing(what: string): never {
  throw new RefusalError(refuse("NOT_FOUND", { what }));
}

/** The fields of findings that are for people: `whyNotReady` is for the daemon itself. */
function renamedReport({ findings, ...more }: CheckReport): CheckReport {
  return {
    findings: findings.map(({ invariant, message, hint }) => ({ invariant, message, hint })),
    ...more,
  };
}
