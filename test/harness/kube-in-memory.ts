import { join } from "node:path";
import {
  ApiAway,
  type KubeAnswer,
  type KubeApi,
  type KubeRequest,
  type ListAnswer,
  type ListRequest,
  type WatchEnd,
  type WatchRequest,
} from "../../kube/kube-api.ts";
import { type Clock, systemClock } from "../../platform/time.ts";
import { ApiServer } from "./kube-fake/api-server.ts";
import { FakeKubeApi } from "./kube-fake/client/fake-kube-api.ts";
import { pathOf } from "./kube-fake/controllers/garbage-collector.ts";
import type { Gates } from "./kube-fake/requests.ts";
import { groupPath, type Resource } from "./kube-fake/resources.ts";
import { collectionOf, readManifestDirectory, readManifests } from "./kube-manifests.ts";
import { usernameOf } from "./rights/shipped.ts";
import { mayUse } from "./rights/used.ts";
import type { Account } from "./world/cluster.ts";

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind
type Any = any;

const ROOT = join(import.meta.dirname, "../..");
const DEFINITIONS: readonly Any[] = [
  ...readManifestDirectory(join(ROOT, "deploy/crds")),
  ...readManifestDirectory(join(import.meta.dirname, "crds")),
  ...readManifests(join(import.meta.dirname, "crds/udn/keeping.yaml")),
];
const NAMESPACES = ["holdfast-system", "shop", "system"];
/** What every cluster has of itself. */
const OWN = new Set(["/namespaces", "apiextensions.k8s.io/customresourcedefinitions"]);
/** When everything begins, as objects show it. */
const BEGIN_MS = Date.UTC(2026, 0, 1);

/** An API server in memory, in real time, for tests that put objects in place and look at what was written. */
export class KubeInMemory implements KubeApi {
  readonly server: ApiServer;
  /** Paths of resources, or beginnings of them, that are not served, whatever their definitions say. */
  readonly missing = new Set<string>();
  /** Called before each request; may change the objects, or throw ApiAway. */
  before: (request: KubeRequest) => void | Promise<void> = () => {};
  /** Every write that was answered below 300. */
  readonly writes: KubeRequest[] = [];
  /** Nobody answers. */
  away = false;
  /** Asked about every write; see Gates. */
  admit: NonNullable<Gates["admit"]> = () => null;
  readonly #client: FakeKubeApi;

  /**
   * Real time, but one instant in objects, unless the test brings its own clock. `account`: who asks, with the rights
   * of deploy/ and no others; null: somebody with every right.
   */
  constructor(clock: Clock = { ...systemClock, wallMs: () => BEGIN_MS }, account: Account | null = null) {
    const authorize = account === null ? {} : { authorize: mayUse };
    this.server = new ApiServer({ clock, admit: (review) => this.admit(review), ...authorize });
    this.define(DEFINITIONS);
    for (const name of NAMESPACES) this.server.put("/api/v1/namespaces", { metadata: { name } });
    const user = account === null ? {} : { user: { username: usernameOf(account) } };
    this.#client = new FakeKubeApi({ server: () => this.server, clock, ...user });
  }

  /** From now on it serves what these definitions define. */
  define(definitions: readonly Any[]): void {
    for (const one of definitions) this.server.put(collectionOf(one), one);
  }

  get clock(): Clock {
    return this.#client.clock;
  }

  /** Puts an object in place, unchecked, with a UID and times where it has none. */
  put(collection: string, object: Any): Any {
    return this.server.put(collection, object);
  }

  /** The object at a path; undefined: there is none. */
  at(path: string): Any {
    return this.server.at(path) ?? undefined;
  }

  /** Takes an object away, whatever holds it. */
  remove(path: string): void {
    this.server.remove(path);
  }

  /** By their paths, of each resource in the order of names. */
  get objects(): ReadonlyMap<string, Any> {
    const storages = new Map(this.server.served.all.map((one) => [one.storage, one]));
    return new Map(
      [...storages.values()]
        .filter(({ storage }) => !OWN.has(storage))
        .flatMap((resource) =>
          this.server.etcd
            .range(resource.storage, "")
            .map(({ object }) => [pathOf(resource, object), structuredClone(object)] as const),
        ),
    );
  }

  async send(request: KubeRequest): Promise<KubeAnswer> {
    await this.#begin(request);
    const answer = await this.#client.send(request);
    if (request.method !== "GET" && answer.status < 300) this.writes.push(request);
    // A server whose clock is not known: tests have clocks of their own.
    return { ...answer, serverMs: null };
  }

  async list(request: ListRequest): Promise<ListAnswer> {
    await this.#begin({ method: "GET", path: request.path, priority: "housekeeping", deadlineMs: 0 });
    return this.#client.list(request);
  }

  watch(request: WatchRequest): Promise<WatchEnd> {
    return this.#client.watch(request);
  }

  async #begin(request: KubeRequest): Promise<void> {
    this.#withhold();
    await this.before(request);
    if (this.away) throw new ApiAway("the test says so");
    this.#withhold();
  }

  /** Serves everything but what is missing. */
  #withhold(): void {
    const { withheld } = this.server.served;
    withheld.clear();
    for (const resource of this.server.served.all) if (this.#isMissing(resource)) withheld.add(resource.storage);
  }

  #isMissing(resource: Resource): boolean {
    const path = `${groupPath(resource)}/${resource.plural}`;
    return [...this.missing].some((one) => path.startsWith(one.replace(/\/namespaces\/[^/]+/, "")));
  }
}
