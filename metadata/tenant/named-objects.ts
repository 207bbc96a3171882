import { ApiAway, type KubeApi, ListRefused } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { namespacedPath } from "../../kube/objects.ts";
import { type ObjectKind, SERVE_LABEL } from "../../kube/views/content-annotations.ts";
import {
  CONFIG_MAPS_PATH,
  isServed,
  projectTenantObject,
  SECRETS_PATH,
  type TenantObject,
  tenantObjectKey,
} from "../../kube/views/tenant-objects.ts";
import { BoundedMap } from "../../platform/bounded-map.ts";
import type { TenantObjects } from "./content.ts";

/** How long a read object is cached, ms: the delay of a change. A guest's boot is 28 requests. */
const BELIEVED_MS = 3_000;
/** For a first read, ms: a guest's client gives up after 10 s. */
const FIRST_READ_MS_MAX = 5_000;
/** For refreshing a cached object, ms: after that the cached one is used. */
const READ_AGAIN_MS_MAX = 1_000;
/** After a read without an answer, ms: so long the cached one is used without a request. */
const AWAY_MS = 5_000;
/** Of one namespace: several for each VM of a node. Beyond that, the least recently used is dropped. */
const REMEMBERED_MAX = 1_000;

const FORBIDDEN = 403;

export interface ObjectReference {
  readonly kind: ObjectKind;
  readonly name: string;
}

interface NamedObjectsOptions {
  readonly api: KubeApi;
  readonly namespace: string;
  /** Default 5 s. */
  readonly firstReadMsMax?: number | undefined;
}

interface CachedObject {
  /** "unknown": never read. "forbidden": it may not be read. */
  found: TenantObject | "forbidden" | "unknown" | undefined;
  /** Of the last answer, and of the last time that none came; instants of the API's clock, ms. */
  readMs: number;
  failedMs: number;
  problem: ApiAway | null;
  reading: Promise<void> | null;
}

/**
 * Secrets and ConfigMaps of a namespace that annotations name, each read by its name: there is no permission to list
 * them, so that a stolen token does not reveal objects that are not served.
 */
export class NamedObjects {
  readonly #options: NamedObjectsOptions;
  /** In the order of their last use. */
  readonly #cache = new BoundedMap<string, CachedObject>(REMEMBERED_MAX);

  constructor(options: NamedObjectsOptions) {
    this.#options = options;
  }

  /**
   * The objects, as they were at most three seconds ago, or before the API went away. Throws ApiAway for one never
   * read.
   */
  async read(references: readonly ObjectReference[]): Promise<TenantObjects> {
    const all = new Map(references.map((one) => [tenantObjectKey(one.kind, one.name), one]));
    const found = new Map<string, TenantObject | "forbidden" | undefined>();
    await Promise.all(
      [...all].map(async ([key, reference]) => found.set(key, await this.#readOne(key, reference))),
    );
    return { find: (kind, name) => found.get(tenantObjectKey(kind, name)) };
  }

  /** It is read again before it is used. */
  forget({ kind, name }: ObjectReference): void {
    this.#cache.delete(tenantObjectKey(kind, name));
  }

  forgetAll(): void {
    this.#cache.clear();
  }

  async #readOne(key: string, reference: ObjectReference): Promise<TenantObject | "forbidden" | undefined> {
    const one = this.#recall(key);
    const nowMs = this.#options.api.clock.monotonicMs();
    const isKnown = one.found !== "unknown";
    const isFresh = isKnown && (nowMs - one.readMs < BELIEVED_MS || nowMs - one.failedMs < AWAY_MS);
    if (!isFresh) {
      const forMs = isKnown ? READ_AGAIN_MS_MAX : (this.#options.firstReadMsMax ?? FIRST_READ_MS_MAX);
      one.reading ??= this.#refresh(one, reference, nowMs + forMs).finally(() => {
        one.reading = null;
      });
      await one.reading;
    }
    if (one.found === "unknown")
      throw one.problem ?? new ApiAway(`${key} of namespace ${this.#options.namespace} is not known yet`);
    return one.found;
  }

  #recall(key: string): CachedObject {
    const one = this.#cache.get(key) ?? {
      found: "unknown",
      readMs: Number.NEGATIVE_INFINITY,
      failedMs: Number.NEGATIVE_INFINITY,
      problem: null,
      reading: null,
    };
    this.#cache.set(key, one);
    return one;
  }

  async #refresh(one: CachedObject, reference: ObjectReference, deadlineMs: number): Promise<void> {
    try {
      one.found = await this.#get(reference, deadlineMs);
      one.readMs = this.#options.api.clock.monotonicMs();
    } catch (error) {
      if (!(error instanceof ApiAway)) throw error;
      one.problem = error;
      one.failedMs = this.#options.api.clock.monotonicMs();
    }
  }

  async #get({ kind, name }: ObjectReference, deadlineMs: number): Promise<CachedObject["found"]> {
    const { api, namespace } = this.#options;
    const path = namespacedPath(pathOf(kind), namespace, name);
    const read = await new ObjectClient(api, "add").get(path, deadlineMs);
    if (read.kind === "present")
      return isServed(read.object) ? projectTenantObject(read.object, kind) : undefined;
    if (read.kind === "absent") return undefined;
    const { status } = read.answer;
    if (status === FORBIDDEN) return this.#listOne({ kind, name }, deadlineMs);
    throw new ApiAway(`${kind} ${name} of namespace ${namespace} cannot be read: ${status}`);
  }

  /** A namespace that applied the Role of 0.1.0 lets its objects be listed and not be read by name. */
  async #listOne({ kind, name }: ObjectReference, deadlineMs: number): Promise<CachedObject["found"]> {
    let found: TenantObject | undefined;
    try {
      await this.#options.api.list({
        path: namespacedPath(pathOf(kind), this.#options.namespace),
        query: { fieldSelector: `metadata.name=${name}`, labelSelector: `${SERVE_LABEL}=true` },
        each: (object) => {
          found = projectTenantObject(object, kind);
        },
        restarted: () => {
          found = undefined;
        },
        deadlineMs,
      });
    } catch (error) {
      if (error instanceof ListRefused && error.status === FORBIDDEN) return "forbidden";
      throw error;
    }
    return found;
  }
}

function pathOf(kind: ObjectKind): string {
  return kind === "Secret" ? SECRETS_PATH : CONFIG_MAPS_PATH;
}
