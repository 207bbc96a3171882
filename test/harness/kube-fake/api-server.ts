/*
 * test/harness/kube-fake/: a Kubernetes API server in memory
 *
 *   client/         the KubeApi port on it: attempts, answers that are lost, watches that are cut
 *   controllers/    garbage collector and namespace controller, one round at a time
 *   api-server, routes, requests     a request finds its resource, and who may ask
 *   served, resources, definitions-controller   Kubernetes' own resources and those of definitions
 *   registry, deletions, patches, metadata, names, schema*   one object, as it is written; versions: as it is shown
 *   lists, selection, selectors      pages of one moment; lists of any version
 *   watch-cache, watches             what the server remembers, and who follows it
 *   etcd            one counter of revisions, every version since the last compaction
 *   failure, rights, objects, port   its words; RBAC; JSON; what it needs of the product
 */

import { DefinitionsController } from "./definitions-controller.ts";
import { Deletions } from "./deletions.ts";
import { type Change, Etcd, type Saved } from "./etcd.ts";
import { Failure, forbidden, noSuchPath, notAllowed, notFound } from "./failure.ts";
import { listPage } from "./lists.ts";
import { beginLife } from "./metadata.ts";
import { copyOf, type KubeObject, overTheWire, wholeSeconds } from "./objects.ts";
import type { HasClock } from "./port.ts";
import { Registry } from "./registry.ts";
import {
  type Access,
  type Asked,
  type Gates,
  keyOf,
  type ServerAnswer,
  type ServerRequest,
  type User,
} from "./requests.ts";
import { apiVersionOf } from "./resources.ts";
import { type ResourceRoute, routeOf } from "./routes.ts";
import { Served } from "./served.ts";
import { WatchCache } from "./watch-cache.ts";
import { Watches, type WatchSink } from "./watches.ts";

const NAMESPACES = ["default", "kube-system", "kube-public", "kube-node-lease"];
/** The server doubles its cache while it is busy; this is what it grows to. */
const CACHE_EVENTS_MAX = 102_400;
const MINOR = 20;

export interface ApiServerOptions extends HasClock, Gates {
  /** Of the version 1.`minor` that it plays; default 20. */
  readonly minor?: number;
  /** The store behind it; several servers may have one. */
  readonly etcd?: Etcd;
  /** Events that the cache of a resource remembers. */
  readonly cacheEventsMax?: number;
}

/**
 * The server: what decides. Clients speak to it through FakeKubeApi.
 *
 * It is checked against a real server by the conversations in test/conversations.
 */
export class ApiServer {
  readonly etcd: Etcd;
  readonly served: Served;
  readonly watches: Watches;
  readonly #options: ApiServerOptions;
  readonly #registry: Registry;
  readonly #deletions: Deletions;
  readonly #caches = new Map<string, WatchCache>();
  readonly #definitions: DefinitionsController;
  /** Changes that caches have not heard of yet, by storage. */
  readonly #held = new Map<string, Change[]>();

  constructor(options: ApiServerOptions) {
    this.#options = options;
    const { clock, minor = MINOR } = options;
    this.etcd = options.etcd ?? new Etcd();
    this.served = new Served(minor);
    this.watches = new Watches(clock, minor);
    this.#registry = new Registry(this.etcd, options, options);
    this.#deletions = new Deletions(this.etcd, options, options);
    this.#definitions = new DefinitionsController(this.etcd, this.served, clock, (storage) => this.#dropCache(storage));
    this.served.read(this.etcd);
    this.etcd.listen((change) => this.#changed(change));
    this.#startCaches();
    for (const name of NAMESPACES) this.#begin(name);
  }

  /** What it answers. Nothing is awaited before a write is done. */
  async answer(request: ServerRequest): Promise<ServerAnswer> {
    const serverMs = wholeSeconds(this.#options.clock.wallMs());
    // Another server of this store may have been given definitions.
    this.#definitions.settle();
    try {
      const { status, body } = await this.#decide(request);
      return { status, body, serverMs, retryAfterMs: 0 };
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      const { code, body, retryAfterSeconds } = error;
      return { status: code, body: copyOf(body), serverMs, retryAfterMs: retryAfterSeconds * 1_000 };
    }
  }

  /**
   * Opens a watch; returns what closes it from the client's side. Throws Failure for what the server answers with a
   * status.
   */
  watch(request: ServerRequest, sink: WatchSink): () => void {
    this.#definitions.settle();
    const route = routeOf(request.path);
    if (route.kind !== "resource") throw notAllowed();
    this.#authorize(request.user, "watch", route);
    const asked = this.#understood(request, route);
    return this.watches.open(asked, this.cacheOf(asked.resource.storage), request.metadataOnly === true, sink);
  }

  /** The cache of a resource; begins when it is first needed. */
  cacheOf(storage: string): WatchCache {
    const known = this.#caches.get(storage);
    if (known) return known;
    const { clock, cacheEventsMax = CACHE_EVENTS_MAX } = this.#options;
    const cache = new WatchCache({ etcd: this.etcd, storage, clock, eventsMax: cacheEventsMax });
    this.#caches.set(storage, cache);
    return cache;
  }

  /**
   * Puts an object in place as the world around has it, status and all and unchecked. What it lacks of what a server
   * gives (UID, times) it gets; one that is there keeps its own. Returns it as it is kept.
   */
  put(collection: string, object: KubeObject): KubeObject {
    const { name } = object.metadata;
    const route = routeOf(`${collection}/${encodeURIComponent(name)}`) as ResourceRoute;
    const resource = this.served.find(route);
    const key = keyOf(route, name);
    const known = this.etcd.get(resource.storage, key);
    const begun: KubeObject = { metadata: { name } };
    beginLife(begun, resource, this.#options);
    const { uid, creationTimestamp, generation } = known?.metadata ?? begun.metadata;
    const namespace = route.namespace === null ? {} : { namespace: route.namespace };
    const kept = {
      apiVersion: apiVersionOf(resource),
      kind: resource.kind,
      ...overTheWire(object),
      metadata: overTheWire({ uid, creationTimestamp, generation, ...namespace, ...object.metadata }),
    };
    const written = this.etcd.put(resource.storage, key, kept);
    this.#definitions.settle();
    return copyOf(written);
  }

  /** The object at a path, as it is in etcd; null: there is none. */
  at(path: string): KubeObject | null {
    const route = routeOf(path) as ResourceRoute;
    const { storage } = this.served.find(route);
    return copyOf(this.etcd.get(storage, keyOf(route, route.name ?? "")));
  }

  /** Takes an object away without asking anybody. */
  remove(path: string): void {
    const route = routeOf(path) as ResourceRoute;
    const { storage } = this.served.find(route);
    const key = keyOf(route, route.name ?? "");
    if (this.etcd.get(storage, key) !== null) this.etcd.delete(storage, key);
    this.#definitions.settle();
  }

  /** Ends every watch and begins with empty caches, as a server that is killed and started again. */
  restart(): void {
    this.#held.clear();
    this.#caches.clear();
    this.served.read(this.etcd);
    this.#startCaches();
    this.watches.end(undefined, "cut");
  }

  save(): Saved {
    return this.etcd.save();
  }

  /** etcd is restored and the server started again, as etcd's documentation has it. */
  restore(saved: Saved, { bumped = 0 }: { readonly bumped?: number } = {}): void {
    this.etcd.restore(saved, bumped);
    this.restart();
  }

  /** From now on the cache of a resource lags behind: it hears nothing. */
  holdCache(storage: string): void {
    this.cacheOf(storage);
    if (!this.#held.has(storage)) this.#held.set(storage, []);
  }

  /** A cache that lags hears of some changes, or of all, and then lags no more. */
  releaseCache(storage: string, changes = Number.POSITIVE_INFINITY): void {
    const held = this.#held.get(storage) ?? [];
    for (const change of held.splice(0, changes)) this.#caches.get(storage)?.apply(change);
    if (changes === Number.POSITIVE_INFINITY) this.#held.delete(storage);
  }

  /** Of which resources the cache lags. */
  get heldStorages(): string[] {
    return [...this.#held.keys()];
  }

  /** Whether a resource is not served, although its objects are there. */
  withhold(storage: string, isWithheld: boolean): void {
    if (isWithheld) this.served.withheld.add(storage);
    else this.served.withheld.delete(storage);
    if (isWithheld) this.#dropCache(storage);
  }

  async #decide(request: ServerRequest): Promise<{ status: number; body: KubeObject }> {
    const route = routeOf(request.path);
    if (route.kind === "group") return { status: 200, body: this.served.ofGroup(route.group, route.version) };
    if (route.kind === "nothing") throw noSuchPath();
    const { method, patch = "merge", metadataOnly = false } = request;
    const isList = method === "GET" && route.name === null;
    this.#authorize(request.user, isList ? "list" : VERBS[method], route);
    const asked = this.#understood(request, route);
    if (isList) {
      const { etcd } = this;
      const cache = () => this.cacheOf(asked.resource.storage);
      return { status: 200, body: await listPage(asked, { etcd, cache, metadataOnly }) };
    }
    const { status, object } = this.#one(asked, method, patch);
    this.#definitions.settle();
    return { status, body: copyOf(object) };
  }

  #one(asked: Asked, method: ServerRequest["method"], patch: "json" | "merge") {
    switch (method) {
      case "GET":
        return { status: 200, object: this.#registry.get(asked) };
      case "POST":
        return this.#registry.create(asked);
      case "PUT":
        return this.#registry.update(asked);
      case "PATCH":
        return this.#registry.patch(asked, patch);
      case "DELETE":
        return this.#deletions.delete(asked);
    }
  }

  /** The namespaces that every cluster has. */
  #begin(name: string): void {
    if (this.etcd.get("/namespaces", name) !== null) return;
    const body = { metadata: { name } };
    const route = routeOf("/api/v1/namespaces") as ResourceRoute;
    this.#registry.create({ ...this.#understood({ ...BY_ITSELF, path: "", query: {}, body }, route) });
  }

  #understood({ user, query, body }: ServerRequest, route: ResourceRoute): Asked {
    const resource = this.served.find(route);
    if (!resource.namespaced && route.namespace !== null) throw noSuchPath();
    if (resource.namespaced && route.namespace === null && route.name !== null) throw noSuchPath();
    if (route.subresource === "status" && !resource.hasStatus) throw notFound(resource, route.name ?? "");
    // The first request for a custom resource starts its cache.
    this.cacheOf(resource.storage);
    return { user, route, resource, query, body };
  }

  #authorize(user: User, verb: Access["verb"], route: ResourceRoute): void {
    const { group, plural, subresource, namespace, name } = route;
    const access = { user, verb, group, resource: plural, subresource, namespace, name };
    if (this.#options.authorize?.(access) ?? true) return;
    const what = subresource === "" ? plural : `${plural}/${subresource}`;
    const where = namespace === null ? "at the cluster scope" : `in the namespace "${namespace}"`;
    const why = `User "${user.username}" cannot ${verb} resource "${what}" in API group "${group}" ${where}`;
    throw forbidden({ group, plural, kind: plural }, name ?? "", why);
  }

  #changed(change: Change): void {
    const held = this.#held.get(change.storage);
    if (held) held.push(change);
    else this.#caches.get(change.storage)?.apply(change);
    this.#definitions.note(change);
  }

  /** Kubernetes' own resources have theirs from the start. */
  #startCaches(): void {
    for (const { custom, storage } of this.served.all) if (!custom) this.cacheOf(storage);
  }

  /** What was served from it begins anew: its watches end. */
  #dropCache(storage: string): void {
    this.#caches.delete(storage);
    this.#held.delete(storage);
    this.watches.end(storage);
  }
}

const BY_ITSELF = { user: { username: "system:apiserver" }, method: "POST" } as const;
const VERBS = { GET: "get", POST: "create", PUT: "update", PATCH: "patch", DELETE: "delete" } as const;
