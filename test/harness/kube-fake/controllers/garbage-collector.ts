import type { ApiServer } from "../api-server.ts";
import { FOREGROUND, ORPHAN } from "../deletions.ts";
import type { Entry } from "../etcd.ts";
import { copyOf, type KubeObject } from "../objects.ts";
import type { ServerRequest } from "../requests.ts";
import { groupPath, type Resource } from "../resources.ts";

const USER = {
  username: "system:serviceaccount:kube-system:generic-garbage-collector",
  groups: ["system:masters"],
};

interface Dependent extends Entry {
  readonly resource: Resource;
}

/**
 * One round of the garbage collector: deletes what all owners are gone of, and lets go of owners that wait for their
 * dependents or leave them behind. Returns how many writes it made; 0: there is nothing left to do. What a definition
 * is missing for is left alone, and so are their dependents.
 */
export async function collectGarbage(server: ApiServer): Promise<number> {
  let writes = 0;
  for (const one of dependentsOf(server)) {
    const request = verdictOn(server, one);
    if (request === null) continue;
    const { status } = await server.answer(request);
    if (status < 300) writes += 1;
  }
  for (const one of everything(server)) {
    const request = finalizedOwner(server, one);
    if (request === null) continue;
    const { status } = await server.answer(request);
    if (status < 300) writes += 1;
  }
  return writes;
}

function everything(server: ApiServer): Dependent[] {
  const storages = new Map(server.served.all.map((resource) => [resource.storage, resource]));
  return [...storages.values()].flatMap((resource) =>
    server.etcd.range(resource.storage, "").map((entry) => ({ ...entry, resource })),
  );
}

const dependentsOf = (server: ApiServer) =>
  everything(server).filter(({ object }) => (object.metadata.ownerReferences ?? []).length > 0);

/** What it writes about an object with owners; null: nothing. */
function verdictOn(server: ApiServer, one: Dependent): ServerRequest | null {
  const { object, resource } = one;
  const owners: KubeObject[] = object.metadata.ownerReferences;
  const states = owners.map((owner) => stateOf(server, object, owner));
  if (states.includes("unknown")) return null;
  if (object.metadata.deletionTimestamp !== undefined) return null;
  const solid = owners.filter((_, index) => states[index] === "solid");
  const waiting = owners.filter((_, index) => states[index] === "waiting");
  if (solid.length > 0) {
    if (solid.length === owners.length) return null;
    return patchOf(one, { metadata: { uid: object.metadata.uid, ownerReferences: solid } });
  }
  const isBlocking = waiting.some(({ blockOwnerDeletion }) => blockOwnerDeletion === true);
  const propagationPolicy = isBlocking && hasDependents(server, object) ? "Foreground" : undefined;
  return {
    user: USER,
    method: "DELETE",
    path: pathOf(resource, object),
    query: {},
    body: {
      preconditions: { uid: object.metadata.uid, resourceVersion: object.metadata.resourceVersion },
      ...(propagationPolicy === undefined ? {} : { propagationPolicy }),
    },
  };
}

/** Of an owner: whether it keeps its dependents, is gone, waits for them to go, or cannot be looked up. */
function stateOf(
  server: ApiServer,
  dependent: KubeObject,
  { apiVersion, kind, name, uid }: KubeObject,
): "solid" | "absent" | "waiting" | "unknown" {
  const resource = server.served.ofKind(apiVersion, kind);
  if (resource === null) return "unknown";
  const { namespace } = dependent.metadata;
  if (resource.namespaced && namespace === undefined) return "unknown";
  const owner = server.etcd.get(resource.storage, resource.namespaced ? `${namespace}/${name}` : name);
  if (owner === null || owner.metadata.uid !== uid) return "absent";
  return isWaiting(owner, FOREGROUND) ? "waiting" : "solid";
}

function isWaiting({ metadata }: KubeObject, finalizer: string): boolean {
  return metadata.deletionTimestamp !== undefined && (metadata.finalizers ?? []).includes(finalizer);
}

function ownedBy(server: ApiServer, owner: KubeObject): Dependent[] {
  return dependentsOf(server).filter(({ object }) =>
    object.metadata.ownerReferences.some(({ uid }: KubeObject) => uid === owner.metadata.uid),
  );
}

const hasDependents = (server: ApiServer, owner: KubeObject) => ownedBy(server, owner).length > 0;

/**
 * An owner whose finalizer is done with; null: it is not, or it has none. Of one that leaves its dependents behind they
 * are told first.
 */
function finalizedOwner(server: ApiServer, one: Dependent): ServerRequest | null {
  const { object } = one;
  const { metadata } = object;
  if (isWaiting(object, ORPHAN)) {
    const [dependent] = ownedBy(server, object);
    if (dependent === undefined) return withoutFinalizer(one, ORPHAN);
    const references: KubeObject[] = dependent.object.metadata.ownerReferences;
    const ownerReferences = references.filter(({ uid }) => uid !== metadata.uid);
    return patchOf(dependent, { metadata: { uid: dependent.object.metadata.uid, ownerReferences } });
  }
  if (!isWaiting(object, FOREGROUND)) return null;
  const isBlocked = ownedBy(server, object).some((dependent) =>
    dependent.object.metadata.ownerReferences.some(
      ({ uid, blockOwnerDeletion }: KubeObject) => uid === metadata.uid && blockOwnerDeletion === true,
    ),
  );
  return isBlocked ? null : withoutFinalizer(one, FOREGROUND);
}

function withoutFinalizer(one: Dependent, finalizer: string): ServerRequest {
  const { metadata } = copyOf(one.object);
  const finalizers = metadata.finalizers.filter((other: string) => other !== finalizer);
  return patchOf(one, { metadata: { resourceVersion: metadata.resourceVersion, finalizers } });
}

function patchOf({ resource, object }: Dependent, body: KubeObject): ServerRequest {
  return { user: USER, method: "PATCH", patch: "merge", path: pathOf(resource, object), query: {}, body };
}

export function pathOf(resource: Resource, { metadata }: KubeObject): string {
  const scope = metadata.namespace === undefined ? "" : `/namespaces/${metadata.namespace}`;
  return `${groupPath(resource)}${scope}/${resource.plural}/${encodeURIComponent(metadata.name)}`;
}
