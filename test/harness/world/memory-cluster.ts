import { randomUUID } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Connect, ListedPage, OnList } from "../../../kube/kube-api.ts";
import type { Timer } from "../../../platform/time.ts";
import { newDirectory, ROOT } from "../daemon.ts";
import type { KubeApi, KubeObject } from "../kube-api.ts";
import { ApiServer } from "../kube-fake/api-server.ts";
import { FakeKubeApi } from "../kube-fake/client/fake-kube-api.ts";
import type { Link } from "../kube-fake/client/link.ts";
import { collectGarbage } from "../kube-fake/controllers/garbage-collector.ts";
import { endNamespaces } from "../kube-fake/controllers/namespace-controller.ts";
import { Etcd } from "../kube-fake/etcd.ts";
import type { Gates, ServerAnswer, ServerRequest, User } from "../kube-fake/requests.ts";
import { Rights } from "../kube-fake/rights.ts";
import { routeOf } from "../kube-fake/routes.ts";
import { applyObjects, readManifestDirectory, readManifests } from "../kube-manifests.ts";
import { NO_WRITES, type WriteCounts } from "../kube-metrics.ts";
import { mayUse } from "../rights/used.ts";
import { machineTime, type TestTime } from "../wait.ts";
import { ACCOUNTS, type Cluster, type ClusterUser, VIEWER_BINDING } from "./cluster.ts";
import { kubeconfigText } from "./kubeconfig.ts";
import { MemoryApi } from "./memory-api.ts";
import { MemoryFront } from "./memory-front.ts";
import { WorldTime } from "./world-time.ts";

const CRDS = join(ROOT, "test/harness/crds");
const ADMIN: User = { username: "admin", groups: ["system:masters"] };
const NODE_NAME = "authentication.kubernetes.io/node-name";
/** Controllers look so long after something has changed, ms. */
const CONTROLLERS_MS = 20;
const LINK_MS_MAX = 2;
const VERBS = { POST: "create", PUT: "update", PATCH: "patch", DELETE: "delete", GET: null } as const;
const TOKEN_PATH = /^\/api\/v1\/namespaces\/([^/]+)\/serviceaccounts\/([^/]+)\/token$/;

export interface MemoryClusterOptions {
  /** The IPAMClaim definition from before it knew ownerPod and conditions. */
  readonly oldClaims?: boolean;
  /** Whether the policies of deploy/admission are enforced. */
  readonly admission?: boolean;
  /** `machine`: processes of their own take part, which have no other. Default `virtual`. */
  readonly time?: "machine" | "virtual";
}

/**
 * The server in memory (kube-fake) as a cluster: rights by the RBAC objects in it, controllers that look after every
 * change.
 */
export class MemoryCluster implements Cluster {
  readonly directory = newDirectory();
  readonly ca = "";
  readonly key = "";
  readonly api: KubeApi;
  readonly time: TestTime;
  readonly server: string;
  /** What decides. */
  readonly objects: ApiServer;
  /** What else every write is asked about, in this order, after the rules of the server; see Gates. */
  readonly admitters: NonNullable<Gates["admit"]>[] = [];
  /** What somebody had no right to: user, verb, resource. */
  readonly denied: string[] = [];
  readonly #front: MemoryFront;
  readonly #users = new Map<string, User>();
  readonly #tokens = new Map<ClusterUser, string>();
  /** As whom tests ask by themselves: what they do is no use that the product makes of a right. */
  readonly #testers = new WeakSet<User>();
  readonly #writes = new Map<string, WriteCounts>();
  readonly #reads = new Map<string, number>();
  readonly #lists: (ListedPage & { readonly by: string })[] = [];
  readonly #clients = new Set<FakeKubeApi>();
  #controllers: Timer | null = null;
  #isAway = false;
  #isStopped = false;

  private constructor(front: MemoryFront, time: TestTime, { admit }: Gates) {
    this.#front = front;
    this.time = time;
    this.server = front.url;
    const etcd = new Etcd();
    const rights = new Rights(etcd);
    this.objects = new ApiServer({
      clock: time.clock,
      etcd,
      authorize: (access) => {
        const isAllowed = rights.has(access);
        if (!isAllowed) this.denied.push(`${access.user.username} ${access.verb} ${access.group}/${access.resource}`);
        else if (!this.#testers.has(access.user)) mayUse(access);
        return isAllowed;
      },
      admit: (review) => firstRefusal(this.admitters, review),
    });
    if (admit !== undefined) this.admitters.push(admit);
    etcd.listen(() => this.#wakeControllers());
    this.#tokens.set("admin", this.#issue(ADMIN));
    this.#tokens.set("viewer", this.#issue({ username: "viewer", groups: ["system:authenticated"] }));
    for (const account of ACCOUNTS) this.#tokens.set(account, this.#issue(accountOf("holdfast-system", account)));
    this.api = this.apiAs("admin");
  }

  static async start(options: MemoryClusterOptions = {}): Promise<MemoryCluster> {
    const front = await MemoryFront.start();
    const time = options.time === "machine" ? machineTime : new WorldTime();
    const cluster = new MemoryCluster(front, time, options.admission ? await shippedPolicies() : {});
    front.serve(cluster);
    const claims = options.oldClaims
      ? readManifestDirectory(join(CRDS, "old"))
      : readManifests(join(CRDS, "ipamclaims.yaml"));
    const others = readManifestDirectory(CRDS).filter(({ metadata }) => metadata.name !== "ipamclaims.k8s.cni.cncf.io");
    await cluster.apply([
      ...readManifestDirectory(join(ROOT, "deploy/crds")),
      ...claims,
      ...others,
      ...readManifests(join(ROOT, "deploy/rbac.yaml")),
      VIEWER_BINDING,
    ]);
    return cluster;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#controllers?.cancel();
    for (const client of this.#clients) client.close();
    this.objects.watches.end();
    await this.#front.stop();
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** What it answers to somebody with a token; null: nothing, it is away. */
  async answer(request: ServerRequest): Promise<ServerAnswer | null> {
    if (this.#isAway) return null;
    this.#count(request);
    const account = request.method === "POST" ? TOKEN_PATH.exec(request.path) : null;
    const answer =
      account === null
        ? await this.objects.answer(request)
        : tokenAnswer(this.#issue(accountOf(account[1] as string, account[2] as string)));
    return this.#isAway ? null : answer;
  }

  /** Who has a token; null: nobody. */
  userOf(token: string): User | null {
    return this.#users.get(token) ?? null;
  }

  get isAway(): boolean {
    return this.#isAway;
  }

  /** `way`: what becomes of the requests that reach it. */
  connect(user: ClusterUser, node?: string, way?: Link): Connect {
    const known = this.userOf(this.token(user)) as User;
    return this.#connectAs(
      node === undefined ? known : { ...known, extra: { [NODE_NAME]: [node] } },
      node ?? user,
      way,
    );
  }

  /** How somebody comes to it who has stolen the token of a node's daemon. */
  connectThief(node: string): Connect {
    const known = this.userOf(this.token("holdfast-node")) as User;
    return this.#connectAs(this.#tester({ ...known, extra: { [NODE_NAME]: [node] } }), "thief");
  }

  #connectAs(who: User, by: string, way?: Link): Connect {
    return (_kubeconfig, clock, observers = {}) => {
      const fate: Link["fate"] = (request, verb) => {
        if (this.#isAway) return { lost: "before" };
        this.#count(request);
        return { requestMs: this.#someMs(), answerMs: this.#someMs(), ...way?.fate?.(request, verb) };
      };
      const link: Link = { fate, eventMs: () => this.#someMs() };
      const onList: OnList = (page) => {
        this.#lists.push({ by, ...page });
        observers.onList?.(page);
      };
      const client = new FakeKubeApi({ server: () => this.objects, user: who, link, clock, onList });
      this.#clients.add(client);
      return client;
    };
  }

  kubeconfig(user: ClusterUser, server = this.server, ca = this.ca): string {
    const path = join(this.directory, `${user}-${randomUUID().slice(0, 8)}.kubeconfig`);
    writeFileSync(path, kubeconfigText({ user, token: this.token(user), server, ca }), { mode: 0o600 });
    return path;
  }

  token(user: ClusterUser): string {
    return this.#tokens.get(user) as string;
  }

  apiWith(token: string): KubeApi {
    return new MemoryApi(this, this.#tester(this.userOf(token) ?? { username: "system:anonymous" }));
  }

  apiAs(user: ClusterUser): KubeApi {
    return this.apiWith(this.token(user));
  }

  async apply(objects: readonly KubeObject[]): Promise<void> {
    await applyObjects(this.api, objects);
  }

  define(definitions: readonly KubeObject[]): Promise<void> {
    return this.apply(definitions);
  }

  writes(resource: string): Promise<WriteCounts>;
  writes(): Promise<Readonly<Record<string, WriteCounts>>>;
  async writes(resource?: string): Promise<unknown> {
    if (resource === undefined) return Object.fromEntries(this.#writes);
    return this.#writes.get(resource) ?? NO_WRITES;
  }

  async reads(resource: string): Promise<number> {
    return this.#reads.get(resource) ?? 0;
  }

  /** Pages of lists that a node's processes have read, or those of a user without a node. */
  lists(by: string): ListedPage[] {
    return this.#lists.filter((one) => one.by === by).map(({ by: _, ...page }) => page);
  }

  async stopApiServer(): Promise<void> {
    this.#isAway = true;
    for (const client of this.#clients) client.cutWatches();
    this.#front.cut();
    this.objects.watches.end(undefined, "cut");
  }

  async startApiServer(): Promise<void> {
    this.objects.restart();
    this.#isAway = false;
    this.#wakeControllers();
  }

  /**
   * How long a message takes. On the machine's time none waits: there it is the processor that has them come in any
   * order.
   */
  #someMs(): number {
    return this.time === machineTime ? 0 : this.time.clock.random() * LINK_MS_MAX;
  }

  #issue(user: User): string {
    const token = randomUUID();
    this.#users.set(token, user);
    return token;
  }

  #tester(user: User): User {
    const tester = { ...user };
    this.#testers.add(tester);
    return tester;
  }

  #count({ method, path }: Pick<ServerRequest, "method" | "path">): void {
    const route = routeOf(path);
    if (route.kind !== "resource") return;
    const resource = route.subresource === "" ? route.plural : `${route.plural}/${route.subresource}`;
    const verb = VERBS[method];
    if (verb === null) {
      if (route.name !== null) this.#reads.set(resource, (this.#reads.get(resource) ?? 0) + 1);
      return;
    }
    const before = this.#writes.get(resource) ?? NO_WRITES;
    this.#writes.set(resource, { ...before, [verb]: before[verb] + 1, total: before.total + 1 });
  }

  /** They go round until there is nothing left to do. */
  #wakeControllers(): void {
    if (this.#isStopped || this.#isAway) return;
    this.#controllers ??= this.time.clock.timer(CONTROLLERS_MS, () => void this.#runControllers());
  }

  async #runControllers(): Promise<void> {
    const writes = (await collectGarbage(this.objects)) + (await endNamespaces(this.objects));
    this.#controllers = null;
    if (writes > 0) this.#wakeControllers();
  }
}

function firstRefusal(
  admitters: MemoryCluster["admitters"],
  review: Parameters<MemoryCluster["admitters"][number]>[0],
): string | null {
  for (const admit of admitters) {
    const why = admit(review);
    if (why !== null) return why;
  }
  return null;
}

/** What a server with the policies of deploy/admission does. */
async function shippedPolicies(): Promise<Gates> {
  const { review } = await import("../admission.ts");
  return {
    admit: (asked) => review(asked as Parameters<typeof review>[0]).refusals.join("; ") || null,
  };
}

function accountOf(namespace: string, name: string): User {
  return { username: `system:serviceaccount:${namespace}:${name}`, groups: ["system:authenticated"] };
}

function tokenAnswer(token: string): ServerAnswer {
  const body = { kind: "TokenRequest", apiVersion: "authentication.k8s.io/v1", status: { token } };
  return { status: 201, body, serverMs: 0, retryAfterMs: 0 };
}
