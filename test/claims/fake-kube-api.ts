import type {
  KubeAnswer,
  KubeApi,
  KubeRequest,
  ListAnswer,
  ListRequest,
  WatchEnd,
  WatchRequest,
} from "../../kube/kube-api.ts";
import { ApiAway } from "../../kube/kube-api.ts";

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind
type Any = any;

/** An API server in memory, as far as the controller's parts need one: versions, preconditions, finalizers, nonsense on request. */
export class FakeKubeApi implements KubeApi {
  readonly objects = new Map<string, Any>();
  /** Collections whose definition is missing: their paths answer 404 without naming an object. */
  readonly missing = new Set<string>();
  /** Called before each request; may change the objects, or throw ApiAway. */
  before: (request: KubeRequest) => void | Promise<void> = () => {};
  /** Every write that was answered below 300. */
  readonly writes: KubeRequest[] = [];
  away = false;
  lastContactMs = 0;
  #version = 1;

  /** Puts an object in place under its path, with a new UID and version where it has none. */
  put(collection: string, object: Any): Any {
    const path = `${collection}/${object.metadata.name}`;
    this.#version += 1;
    const kept = {
      ...object,
      metadata: {
        uid: `uid-${this.#version}`,
        creationTimestamp: "2026-01-01T00:00:00Z",
        ...object.metadata,
        resourceVersion: `${this.#version}`,
      },
    };
    this.objects.set(path, kept);
    return kept;
  }

  at(path: string): Any {
    return this.objects.get(path);
  }

  async send(request: KubeRequest): Promise<KubeAnswer> {
    await this.before(request);
    if (this.away) throw new ApiAway("the test says so");
    const answer = this.#answer(request);
    if (request.method !== "GET" && answer.status < 300) this.writes.push(request);
    return { ...structuredClone(answer), serverMs: null };
  }

  async list(request: ListRequest): Promise<ListAnswer> {
    await this.before({ method: "GET", path: request.path, priority: "housekeeping", deadlineMs: 0 });
    if (this.away) throw new ApiAway("the test says so");
    if (this.#isMissing(request.path)) return { kind: "missing" };
    for (const [path, object] of this.objects) {
      if (belongs(path, request.path)) request.each(structuredClone(object));
    }
    return { kind: "listed", resourceVersion: `${this.#version}` };
  }

  async watch(_request: WatchRequest): Promise<WatchEnd> {
    return { kind: "failed", problem: "not here" };
  }

  #isMissing(path: string): boolean {
    return [...this.missing].some((one) => belongs(`${path}/x`, one) || path.startsWith(one));
  }

  #answer({ method, path, body, patch }: KubeRequest): { status: number; body: Any } {
    if (this.#isMissing(path))
      return { status: 404, body: { kind: "Status", code: 404, message: "404 page not found" } };
    const target = path.replace(/\/status$/, "");
    const name = decodeURIComponent(target.slice(target.lastIndexOf("/") + 1));
    const sent = structuredClone(body) as Any;
    if (method === "POST") {
      const created = `${path}/${sent.metadata.name}`;
      if (this.objects.has(created)) return { status: 409, body: { reason: "AlreadyExists" } };
      return { status: 201, body: this.put(path, sent) };
    }
    const known = this.objects.get(target);
    if (known === undefined) return { status: 404, body: { reason: "NotFound", details: { name } } };
    if (method === "GET") return { status: 200, body: known };
    const wanted = method === "DELETE" ? sent?.preconditions : sent?.metadata;
    for (const key of ["uid", "resourceVersion"]) {
      if (wanted?.[key] !== undefined && wanted[key] !== known.metadata[key]) {
        return { status: 409, body: { reason: "Conflict" } };
      }
    }
    const collection = target.slice(0, target.lastIndexOf("/"));
    if (method === "DELETE") {
      this.objects.delete(target);
      return { status: 200, body: known };
    }
    const next = patch === "merge" ? merged(known, sent) : sent;
    return {
      status: 200,
      body: this.put(collection, { ...next, metadata: { ...next.metadata, uid: known.metadata.uid } }),
    };
  }
}

/** Whether an object's path is in a collection, also in that of all namespaces. */
function belongs(path: string, collection: string): boolean {
  const own = path.slice(0, path.lastIndexOf("/"));
  return own === collection || own.replace(/\/namespaces\/[^/]+/, "") === collection;
}

function merged(known: Any, patch: Any): Any {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const result = { ...known };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = merged(known?.[key], value);
  }
  return result;
}
