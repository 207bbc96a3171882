import type { ObjectReading } from "../../kube/answers.ts";
import { ApiAway, FORBIDDEN, type KubeApi } from "../../kube/kube-api.ts";
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

type Found = TenantObject | "forbidden" | undefined;

/** Each read by its name: without a permission to list, a stolen token does not reveal objects that are not served. */
export class NamedObjects {
  readonly #reads: CachedReads<Found>;

  constructor(api: KubeApi, firstReadMsMax?: number) {
    this.#reads = new CachedReads(api, firstReadMsMax);
  }

  /** At most three seconds old, or from before the API went away. Throws ApiAway for one never read. */
  async read(place: Place, references: readonly ObjectReference[]): Promise<TenantObjects> {
    const all = new Map(references.map((one) => [tenantObjectKey(one.kind, one.name), one]));
    const found = new Map<string, Found>();
    await Promise.all(
      [...all].map(async ([key, reference]) => {
        const judge = (read: ObjectReading) => foundIn(read, place, reference);
        found.set(key, await this.#reads.readObject(pathOf(place, reference), place.uid, judge));
      }),
    );
    return { find: (kind, name) => found.get(tenantObjectKey(kind, name)) };
  }

  forget(place: Place, reference: ObjectReference): void {
    this.#reads.forgetObject(pathOf(place, reference), place.uid);
  }
}

function foundIn(read: ObjectReading, { namespace }: Place, { kind, name }: ObjectReference): Found {
  if (read.kind === "present") return isServed(read.object) ? projectTenantObject(read.object, kind) : undefined;
  if (read.kind === "absent") return undefined;
  const { status } = read.answer;
  if (status === FORBIDDEN) return "forbidden";
  throw new ApiAway(`${kind} ${name} of namespace ${namespace} cannot be read: ${status}`);
}

function pathOf({ namespace }: Place, { kind, name }: ObjectReference): string {
  return namespacedPath(kind === "Secret" ? SECRETS_PATH : CONFIG_MAPS_PATH, namespace, name);
}
