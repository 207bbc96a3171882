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
import { CachedReads } from "./cached-reads.ts";
import type { TenantObjects } from "./content.ts";

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

/** "forbidden": it may not be read. */
type Found = TenantObject | "forbidden" | undefined;

/**
 * Secrets and ConfigMaps of a namespace that annotations name, each read by its name: there is no permission to list
 * them, so that a stolen token does not reveal objects that are not served.
 */
export class NamedObjects {
  readonly #options: NamedObjectsOptions;
  readonly #reads: CachedReads<Found>;

  constructor(options: NamedObjectsOptions) {
    this.#options = options;
    const { api, firstReadMsMax } = options;
    this.#reads = new CachedReads({ clock: api.clock, firstReadMsMax });
  }

  /**
   * The objects, as they were at most three seconds ago, or before the API went away. Throws ApiAway for one never
   * read.
   */
  async read(references: readonly ObjectReference[]): Promise<TenantObjects> {
    const all = new Map(references.map((one) => [tenantObjectKey(one.kind, one.name), one]));
    const found = new Map<string, Found>();
    await Promise.all(
      [...all].map(async ([key, reference]) =>
        found.set(key, await this.#reads.read(key, (deadlineMs) => this.#get(reference, deadlineMs))),
      ),
    );
    return { find: (kind, name) => found.get(tenantObjectKey(kind, name)) };
  }

  /** It is read again before it is used. */
  forget({ kind, name }: ObjectReference): void {
    this.#reads.forget(tenantObjectKey(kind, name));
  }

  forgetAll(): void {
    this.#reads.forgetAll();
  }

  async #get({ kind, name }: ObjectReference, deadlineMs: number): Promise<Found> {
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
  async #listOne({ kind, name }: ObjectReference, deadlineMs: number): Promise<Found> {
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
