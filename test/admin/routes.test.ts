import Fastify, { type FastifyInstance } from "fastify";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { NodeAdminApi } from "../../admin/admin-api.ts";
import type { Method } from "../../admin/answers.ts";
import { ClusterAdmin } from "../../admin/cluster/cluster-admin.ts";
import { addAdminRoutes } from "../../admin/http.ts";
import { answerInProcess } from "../../admin/in-process.ts";
import { NodeAdmin } from "../../admin/node-admin.ts";
import { ROUTES } from "../../admin/routes.ts";
import { AddWaiters } from "../../claims/add-waiters.ts";
import { IdentityService } from "../../identity/service.ts";
import { StandaloneIdentities } from "../../identity/sources/standalone.ts";
import { RefusalError } from "../../ipam/refusals.ts";
import { sendApiError } from "../../platform/api-error.ts";
import { ReaderQueue } from "../../platform/listeners/reader-queue.ts";
import { ResolverFiles } from "../../platform/resolv-conf.ts";
import { systemClock } from "../../platform/time.ts";
import { refusalOf } from "../../store/refusal-of.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { NO_FACTS } from "../identity/no-facts.ts";
import { type SqliteSubject, sqliteSubject } from "../store/subjects.ts";

// A node's routes over HTTP, as its socket has them, and a cluster's in process, as the command line asks it.

const BOTH = [
  "GET /v1/networks",
  "GET /v1/networks/:name",
  "GET /v1/networks/:name/free",
  "GET /v1/allocations",
  "GET /v1/claims",
  "GET /v1/history",
  "GET /v1/identity",
  "GET /v1/places",
  "GET /v1/check",
  "POST /v1/release",
  "POST /v1/plan",
  "POST /v1/import",
];
/** With the beginning of what leads to whoever answers. */
const ONLY_NODE = new Map([
  ["GET /v1/status", "this is about the state of one node: run it there"],
  ["GET /v1/version", "this is about the state of one node: run it there"],
  ["GET /v1/content", "in a cluster kubectl does this"],
  ["POST /v1/apply", "in a cluster kubectl does this"],
  ["POST /v1/diff", "in a cluster kubectl does this"],
  ["POST /v1/delete", "in a cluster kubectl does this"],
  ["DELETE /v1/claims/:namespace/:name", "in a cluster kubectl does this"],
  ["POST /v1/backup", "this is about the state of one node: run it there"],
  ["GET /v1/rebuild", "this is about the state of one node: run it there"],
  ["POST /v1/rebuild", "this is about the state of one node: run it there"],
]);
const ONLY_CLUSTER = new Map([
  ["POST /v1/networks/:name", "name the cluster, as an administrator: --kubeconfig"],
  ["GET /v1/doctor", "name the cluster, as an administrator: --kubeconfig"],
  ["GET /v1/owners", "machines are a cluster's, not a node's"],
  ["POST /v1/release-moved", "machines are a cluster's, not a node's"],
]);

interface Asked {
  readonly method: Method;
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

interface Said {
  readonly status: "answered" | "refused";
  // biome-ignore lint/suspicious/noExplicitAny: bodies of every route
  readonly body: any;
}

let subject: SqliteSubject;
let node: NodeAdminApi;
let server: FastifyInstance;
let api: KubeInMemory;
let cluster: ClusterAdmin;

beforeAll(async () => {
  subject = await sqliteSubject();
  const { store, clock } = subject;
  const source = new StandaloneIdentities(store, NO_FACTS);
  node = new NodeAdmin({
    store,
    manifests: store,
    waiting: new AddWaiters(clock),
    version: "1.2.3",
    node: "n1",
    notes: () => [],
    since: "2026-01-01T00:00:00Z",
    identity: new IdentityService({ store, source, vms: source, facts: NO_FACTS, notReady: () => null }),
    resolverFiles: new ResolverFiles({ paths: [], refused: false, clock }),
    notReady: () => null,
    outstanding: () => 0,
    spool: () => ({ waiting: 0, bad: 0 }),
    findings: () => [],
    rebuild: () => Promise.reject(new Error("not here")),
  });
  server = Fastify();
  server.setErrorHandler((error, _request, reply) => sendApiError(reply, refusalOf(error)));
  addAdminRoutes(server, node, new ReaderQueue(systemClock));
  api = new KubeInMemory();
  cluster = new ClusterAdmin({ api, silenceMs: 10_000 });
});
afterAll(async () => {
  await server.close();
  await subject.close();
});

async function overHttp({ method, path, query = {}, body }: Asked): Promise<Said> {
  const search = new URLSearchParams(query).toString();
  const url = search === "" ? path : `${path}?${search}`;
  const answer = await server.inject({
    method,
    url,
    ...(body === undefined ? {} : { payload: body as object }),
  });
  return { status: answer.statusCode < 300 ? "answered" : "refused", body: answer.json() };
}

async function inProcess(of: NodeAdminApi | ClusterAdmin, asked: Asked): Promise<Said> {
  const { method, path, query = {}, body = null } = asked;
  try {
    const found = await answerInProcess(of, { method, path, query, body: body as object | null });
    return { status: "answered", body: JSON.parse(JSON.stringify(found)) };
  } catch (error) {
    if (!(error instanceof RefusalError)) throw error;
    const { code, message, hint } = error.refusal;
    return { status: "refused", body: { code, message, hint } };
  }
}

test.each(["/v1/check", "/v1/identity?address=10.10.0.5"])(
  "a %s that waits for the API server holds up no other question",
  async (path) => {
    let asked = 0;
    const never = () => {
      asked += 1;
      return new Promise<never>(() => {});
    };
    const waiting = { kind: "node", version: "1.2.3", check: never, identity: never };
    const one = Fastify();
    addAdminRoutes(one, waiting as unknown as NodeAdminApi, new ReaderQueue(systemClock));
    const held = one.inject(path);
    held.catch(() => {});
    await vi.waitFor(() => expect(asked).toBe(1));
    expect((await one.inject("/v1/version")).json()).toEqual({ version: "1.2.3" });
  },
);

test("each route is answered by both a node and a cluster, or is listed as answered by one of them", () => {
  const named = (wanted: (route: (typeof ROUTES)[number]) => boolean) =>
    ROUTES.filter(wanted).map(({ method, path }) => `${method} ${path}`);
  expect(named(({ node: n, cluster: c }) => n !== null && c !== null)).toEqual(BOTH);
  expect(named(({ cluster: c }) => c === null)).toEqual([...ONLY_NODE.keys()]);
  expect(named(({ node: n }) => n === null)).toEqual([...ONLY_CLUSTER.keys()]);
});

describe("a refusal of a route that only the other side answers says where to ask", () => {
  const asked = (route: string): Asked => {
    const [method, path = ""] = route.split(" ");
    return {
      method: method as Method,
      path: path.replace(":namespace", "shop").replace(":name", "x"),
      body: {},
    };
  };

  test.each([...ONLY_NODE])("a cluster refuses %s", async (route, hint) => {
    expect(await inProcess(cluster, asked(route))).toEqual({
      status: "refused",
      body: {
        code: "NOT_FOUND",
        message: `there is no route ${route} of a cluster: only a daemon answers it`,
        hint: expect.stringContaining(hint),
      },
    });
    expect(api.writes).toEqual([]);
  });

  test.each([...ONLY_CLUSTER])("a daemon refuses %s", async (route, hint) => {
    expect(await overHttp(asked(route))).toEqual({
      status: "refused",
      body: {
        code: "NOT_FOUND",
        message: `there is no route ${route} of a daemon: only a cluster answers it`,
        hint: expect.stringContaining(hint),
      },
    });
  });

  test("a path or method that neither has is refused by both", async () => {
    for (const [method, path] of [
      ["GET", "/v1/nothing"],
      ["GET", "/v1/networks/a/b"],
      ["DELETE", "/v1/networks/a"],
      ["GET", "/v2/networks"],
    ] as const) {
      const body = { code: "NOT_FOUND", message: `there is no route ${method} ${path}` };
      expect(await inProcess(cluster, { method, path })).toMatchObject({ status: "refused", body });
    }
  });
});

const LONG = "x".repeat(513);

/** What is wrong, and the message of both. */
const BAD: readonly (readonly [
  method: "GET" | "POST",
  path: string,
  bad: object | unknown[] | null,
  message: string,
])[] = [
  ["GET", "/v1/networks", { colour: "blue" }, 'colour is "blue": the parameters here are former, counted'],
  ["GET", "/v1/networks", { counted: "no" }, 'counted is "no": expected false, or nothing'],
  ["GET", "/v1/networks", { former: "no" }, 'former is "no": expected true, or nothing'],
  ["GET", "/v1/networks/blue", { x: "1" }, 'x is "1": the parameters here are none'],
  ["GET", "/v1/networks/blue", {}, "there is no network blue"],
  ["GET", "/v1/networks/a%2Fb%20c", {}, "there is no network a/b c"],
  [
    "GET",
    "/v1/allocations",
    { colour: "blue" },
    'colour is "blue": the parameters here are network, address, subnet, state, namespace, pod, claim, cluster, vm, node, limit, continue',
  ],
  ["GET", "/v1/allocations", { network: "" }, 'network is "": expected one value'],
  ["GET", "/v1/allocations", { address: "10.0.0.x" }, 'address is "10.0.0.x": '],
  ["GET", "/v1/allocations", { limit: "0" }, 'limit is "0": expected a whole number from 1 to 5000'],
  ["GET", "/v1/allocations", { limit: "5001" }, 'limit is "5001": expected a whole number from 1 to 5000'],
  ["GET", "/v1/allocations", { continue: "nonsense" }, "continue is"],
  ["GET", "/v1/claims", { pod: "web" }, 'pod is "web": the parameters here are namespace, name'],
  ["GET", "/v1/claims", { name: "" }, 'name is "": expected one value'],
  ["GET", "/v1/history", { pod: "web" }, 'pod is "web": the parameters here are address, network, namespace, limit'],
  ["GET", "/v1/history", { address: "blue" }, 'address is "blue": '],
  ["GET", "/v1/history", { limit: "1.5" }, 'limit is "1.5": expected a whole number from 1 to 5000'],
  ["GET", "/v1/identity", {}, "query is []: expected exactly one of address, pod, vm, container and pod-uid"],
  ["GET", "/v1/identity", { pod: "a", vm: "b" }, 'query is ["pod","vm"]: expected exactly one of'],
  ["GET", "/v1/identity", { pod: "a", network: "blue" }, 'network is "blue": it goes with address only'],
  ["GET", "/v1/identity", { pod: "a", here: "yes" }, 'here is "yes": expected true or false'],
  ["GET", "/v1/identity", { vm: LONG }, "that is longer than any name"],
  ["GET", "/v1/identity", { address: "10.0.0.1", colour: "blue" }, 'colour is "blue": the parameters here are'],
  ["GET", "/v1/identity", { address: "10.0.0.1" }, "there is no holder of 10.0.0.1"],
  ["GET", "/v1/check", { x: "1" }, 'x is "1": the parameters here are grace'],
  ["GET", "/v1/check", { grace: "soon" }, 'grace is "soon": expected a whole number from 0 to 86400'],
  ["GET", "/v1/check", { grace: "-1" }, 'grace is "-1": expected a whole number from 0 to 86400'],
  ["POST", "/v1/release", null, "body is absent: expected a JSON object"],
  ["POST", "/v1/release", [], "body is []: expected a JSON object"],
  ["POST", "/v1/release", {}, "network is absent: expected the name of a network"],
  ["POST", "/v1/release", { network: "blue" }, "address is absent: expected a string"],
  ["POST", "/v1/release", { network: "blue", address: "x" }, 'address is "x": '],
  [
    "POST",
    "/v1/release",
    { network: "blue", address: "10.0.0.1", force: "yes" },
    'force is "yes": expected true or false',
  ],
  [
    "POST",
    "/v1/release",
    { network: "blue", address: "10.0.0.1", dryRun: "yes" },
    'dryRun is "yes": expected true or false',
  ],
  [
    "POST",
    "/v1/release",
    { network: "blue", address: "10.0.0.1", why: "" },
    'why is "": the keys here are network, address, force, dryRun',
  ],
  ["POST", "/v1/import", [], "body is []: expected a JSON object"],
  ["POST", "/v1/import", { colour: 1 }, "colour is 1: the keys here are network, dataDir, dryRun"],
  ["POST", "/v1/import", { network: 7 }, "network is 7: expected the name of a network"],
  ["POST", "/v1/import", { network: "no/name" }, 'network is "no/name": expected the name of a network'],
  ["POST", "/v1/import", { dryRun: 1 }, "dryRun is 1: expected true or false"],
  ["POST", "/v1/import", { dataDir: "/leases" }, 'dataDir is "/leases": name the network too'],
  ["POST", "/v1/import", { network: "blue", dataDir: "leases" }, 'dataDir is "leases": expected an absolute path'],
];

describe("both refuse the same wrong input in the same words", () => {
  test.each(BAD)("%s %s %j", async (method, path, bad, message) => {
    const asked: Asked =
      method === "GET"
        ? { method, path, query: bad as Record<string, string> }
        : { method, path, body: bad ?? undefined };
    const said = await overHttp(asked);
    expect(said.status).toBe("refused");
    expect(said.body.message).toContain(message);
    expect(await inProcess(node, asked)).toEqual(said);
    expect(await inProcess(cluster, asked)).toEqual(said);
  });

  test("a query parameter that is undefined counts as absent", async () => {
    const query = { network: undefined, address: undefined, limit: "7", continue: undefined };
    const asked = { method: "GET", path: "/v1/allocations", query, body: null } as const;
    for (const of of [node, cluster]) expect(await answerInProcess(of, asked)).toEqual({ items: [] });
  });
});

describe("input that only a daemon or only a cluster accepts", () => {
  test("a daemon refuses a check's grace, and a cluster refuses questions about one node or its directories", async () => {
    const grace = await overHttp({ method: "GET", path: "/v1/check", query: { grace: "0" } });
    expect(grace.body).toMatchObject({
      code: "REQUEST_INVALID",
      message: expect.stringContaining("it is for a cluster"),
    });
    const here = await inProcess(cluster, {
      method: "GET",
      path: "/v1/identity",
      query: { pod: "a", here: "true" },
    });
    expect(here.body).toMatchObject({
      code: "REQUEST_INVALID",
      message: expect.stringContaining("ask with --socket"),
    });
    const body = { network: "blue", dataDir: "/leases" };
    const directory = await inProcess(cluster, { method: "POST", path: "/v1/import", body });
    expect(directory.body).toMatchObject({
      code: "REQUEST_INVALID",
      message: expect.stringContaining("on nodes without a cluster only"),
    });
  });

  test.each([
    [{ colour: "blue" }, "the keys here are cluster, force, dryRun"],
    [{}, "cluster is absent: expected a cluster of Cluster API as namespace/name"],
    [{ cluster: "prod" }, 'cluster is "prod": expected a cluster of Cluster API as namespace/name'],
    [{ cluster: "Shop/prod" }, 'cluster is "Shop/prod": expected'],
    [{ cluster: "shop/prod/x" }, 'cluster is "shop/prod/x": expected'],
    [{ cluster: "shop/prod", force: 1 }, "force is 1: expected true or false"],
    [{ cluster: "shop/prod", dryRun: "no" }, 'dryRun is "no": expected true or false'],
    [{ cluster: "shop/prod" }, "there is no address that is held for machines of cluster shop/prod"],
  ])("the cluster refuses to release what is held for moved machines: %j", async (body, message) => {
    const said = await inProcess(cluster, { method: "POST", path: "/v1/release-moved", body });
    expect(said.status).toBe("refused");
    expect(said.body.message).toContain(message);
  });

  test.each([
    [[], "body is []: expected a JSON object"],
    [{ colour: "blue" }, "the keys here are namespace, administrators"],
    [{}, "namespace is absent: expected the name of a namespace"],
    [{ namespace: "Shop" }, 'namespace is "Shop": expected the name of a namespace'],
    [{ administrators: "yes" }, 'administrators is "yes": expected true, and no namespace beside it'],
    [{ administrators: true, namespace: "shop" }, "administrators is true: expected true, and no namespace"],
    [{ namespace: "shop" }, "there is no IPNetwork of network blue"],
    [{ administrators: true }, "there is no IPNetwork of network blue"],
  ])("the cluster refuses to set a network's owner to %j", async (body, message) => {
    const said = await inProcess(cluster, { method: "POST", path: "/v1/networks/blue", body });
    expect(said).toMatchObject({ status: "refused", body: { message: expect.stringContaining(message) } });
  });
});

test("both refuse to release an address that nobody holds", async () => {
  const body = { network: "blue", address: "10.0.0.1/24", force: true };
  const asked = { method: "POST", path: "/v1/release", body } as const;
  const said = await overHttp(asked);
  expect(said).toMatchObject({ status: "refused", body: { code: "NOT_FOUND" } });
  expect(await inProcess(cluster, asked)).toEqual(said);
});

test("both answer in the same form while there is nothing yet", async () => {
  for (const [path, body] of [
    ["/v1/networks", { items: [] }],
    ["/v1/allocations", { items: [] }],
    ["/v1/claims", { items: [] }],
    ["/v1/history", { items: [] }],
  ] as const) {
    const asked = { method: "GET", path } as const;
    expect(await overHttp(asked)).toEqual({ status: "answered", body });
    expect(await inProcess(cluster, asked)).toEqual({ status: "answered", body });
  }
  const check = { method: "GET", path: "/v1/check" } as const;
  const counted = { allocations: 0, attachments: 0, claims: 0, networks: 0 };
  expect((await overHttp(check)).body).toEqual({ findings: [], counted });
  expect((await inProcess(cluster, check)).body).toEqual({ findings: [], counted });
});
