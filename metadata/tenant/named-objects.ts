import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { namespacedPath } from "../../kube/objects.ts";
import type { ObjectKind } from "../../kube/views/content-annotations.ts";
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

/** A namespace; one that is created again under its name is another place, which keeps nothing of the old one. */
export interface Place {
  readonly namespace: string;
  /** "": not known. */
  readonly uid: string;
}

interface NamedObjectsOptions {
  readonly api: KubeApi;
  /** Default 5 s. */
  readonly firstReadMsMax?: number | undefined;
}

type Found = TenantObject | "forbidden" | undefined;

/** Each read by its name: without a permission to list, a stolen token does not reveal objects that are not served. */
export class NamedObjects {
  readonly #options: NamedObjectsOptions;
  readonly #reads: CachedReads<Found>;

  constructor(options: NamedObjectsOptions) {
    this.#options = options;
    const { api, firstReadMsMax } = options;
    this.#reads = new CachedReads({ clock: api.clock, firstReadMsMax });
  }

  /** At most three seconds old, or from before the API went away. Throws ApiAway for one never read. */
  async read(place: Place, references: readonly ObjectReference[]): Promise<TenantObjects> {
    const all = new Map(references.map((one) => [tenantObjectKey(one.kind, one.name), one]));
    const found = new Map<string, Found>();
    await Promise.all(
      [...all].map(async ([key, reference]) => {
        const get = (deadlineMs: number) => this.#get(place, reference, deadlineMs);
        found.set(key, await this.#reads.read(keyOf(place, reference), get));
      }),
    );
    return { find: (kind, name) => found.get(tenantObjectKey(kind, name)) };
  }

  forget(place: Place, reference: ObjectReference): void {
    this.#reads.forget(keyOf(place, reference));
  }

  async #get({ namespace }: Place, { kind, name }: ObjectReference, deadlineMs: number): Promise<Found> {
    const { api } = this.#options;
    const path = namespacedPath(pathOf(kind), namespace, name);
    const read = await new ObjectClient(api, "add").get(path, deadlineMs);
    if (read.kind === "present") return isServed(read.object) ? projectTenantObject(read.object, kind) : undefined;
    if (read.kind === "absent") return undefined;
    const { status } = read.answer;
    if (status === FORBIDDEN) return "forbidden";
    throw new ApiAway(`${kind} ${name} of namespace ${namespace} cannot be read: ${status}`);
  }
}

function keyOf({ namespace, uid }: Place, { kind, name }: ObjectReference): string {
  return `${namespace} ${uid} ${tenantObjectKey(kind, name)}`;
}

function pathOf(kind: ObjectKind): string {
  return kind === "Secret" ? SECRETS_PATH : CONFIG_MAPS_PATH;
}
