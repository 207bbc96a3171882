import { CLEANUP } from "./definitions-controller.ts";
import type { Etcd } from "./etcd.ts";
import { conflict, forbidden, notAllowed, notFound } from "./failure.ts";
import { copyOf, isEqual, type KubeObject } from "./objects.ts";
import { type HasClock, isoTime, parseTime } from "./port.ts";
import type { Written } from "./registry.ts";
import { type Asked, type Gates, keyOf } from "./requests.ts";
import { DEFINITIONS, type Resource } from "./resources.ts";

export const FOREGROUND = "foregroundDeletion";
export const ORPHAN = "orphan";
/** Of a deletion in the background that is asked for in the words of long ago. */
const ACCEPTED = 202;

interface DeleteOptions {
  readonly gracePeriodSeconds?: number;
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
  readonly propagationPolicy?: "Background" | "Foreground" | "Orphan";
  readonly orphanDependents?: boolean;
}

/** Deletes an object, or marks it as being deleted where somebody has to agree first. Throws Failure. */
export class Deletions {
  readonly #etcd: Etcd;
  readonly #world: HasClock;
  readonly #gates: Gates;

  constructor(etcd: Etcd, world: HasClock, gates: Gates) {
    this.#etcd = etcd;
    this.#world = world;
    this.#gates = gates;
  }

  delete(asked: Asked): Written {
    const { resource, route } = asked;
    const { name } = route;
    if (name === null || route.subresource !== "") throw notAllowed();
    const key = keyOf(route, name);
    const old = this.#etcd.get(resource.storage, key);
    if (old === null) throw notFound(resource, name);
    const options = optionsOf(asked);
    checkPreconditions(resource, old, options);
    this.#admit(asked, old);
    if (asked.query.dryRun === "All") return this.#gone(resource, old);
    if (resource.plural === "namespaces") return this.#endNamespace(resource, key, old);
    if (resource.plural === DEFINITIONS.plural) return this.#endDefinition(resource, key, old);
    const next = copyOf(old);
    setFinalizers(next, options);
    const grace = resource.graceful ? this.#giveGrace(next, options) : "none";
    if (grace === "pending") return this.#write(resource, key, old, old, options);
    const waits = (next.metadata.finalizers ?? []).length > 0;
    if (grace === "none" && waits) markAsDeleting(next, this.#world.clock.wallMs());
    if (grace === "given") {
      const written = this.#write(resource, key, old, next, options);
      if (waits || next.metadata.deletionGracePeriodSeconds > 0) return written;
    } else if (waits) return this.#write(resource, key, old, next, options);
    const last = this.#etcd.get(resource.storage, key);
    this.#etcd.delete(resource.storage, key);
    return this.#gone(resource, last);
  }

  /** Only a shorter time is taken over one that is running. */
  #giveGrace({ spec, status, metadata }: KubeObject, options: DeleteOptions): "given" | "pending" | "none" {
    const asked = options.gracePeriodSeconds;
    const given = metadata.deletionGracePeriodSeconds;
    if (metadata.deletionTimestamp !== undefined) {
      if (given === undefined) return "none";
      if (asked === undefined || asked >= given) return "pending";
      const sinceMs = parseTime(metadata.deletionTimestamp) - given * 1_000;
      metadata.deletionTimestamp = isoTime(sinceMs + asked * 1_000);
      metadata.deletionGracePeriodSeconds = asked;
      return "given";
    }
    const hasEnded = status?.phase === "Succeeded" || status?.phase === "Failed";
    const seconds = !spec?.nodeName || hasEnded ? 0 : (asked ?? spec.terminationGracePeriodSeconds ?? 0);
    metadata.deletionTimestamp = isoTime(this.#world.clock.wallMs() + seconds * 1_000);
    metadata.deletionGracePeriodSeconds = seconds;
    if (metadata.generation > 0) metadata.generation += 1;
    return "given";
  }

  /** A namespace ends when its controller has emptied it. */
  #endNamespace(resource: Resource, key: string, old: KubeObject): Written {
    if (["default", "kube-system", "kube-public"].includes(key))
      throw forbidden(resource, key, "this namespace may not be deleted");
    if (old.metadata.deletionTimestamp !== undefined) return { status: 200, object: old };
    const next = copyOf(old);
    next.metadata.deletionTimestamp = isoTime(this.#world.clock.wallMs());
    next.status = { ...next.status, phase: "Terminating" };
    return { status: 200, object: this.#etcd.put(resource.storage, key, next) };
  }

  /** A definition ends when its objects are gone. */
  #endDefinition(resource: Resource, key: string, old: KubeObject): Written {
    if (old.metadata.deletionTimestamp !== undefined) return { status: 200, object: old };
    const next = copyOf(old);
    next.metadata.deletionTimestamp = isoTime(this.#world.clock.wallMs());
    next.metadata.finalizers = [...new Set([...(next.metadata.finalizers ?? []), CLEANUP])];
    return { status: 200, object: this.#etcd.put(resource.storage, key, next) };
  }

  #write(
    resource: Resource,
    key: string,
    old: KubeObject,
    next: KubeObject,
    { orphanDependents }: DeleteOptions,
  ): Written {
    const object = isEqual(next, old) ? old : this.#etcd.put(resource.storage, key, next);
    return { status: orphanDependents === false ? ACCEPTED : 200, object };
  }

  #gone(resource: Resource, object: KubeObject): Written {
    if (resource.returnsDeleted) return { status: 200, object };
    const { group, plural } = resource;
    const { name, uid } = object.metadata;
    return {
      status: 200,
      object: {
        kind: "Status",
        apiVersion: "v1",
        metadata: {},
        status: "Success",
        details: { name, ...(group === "" ? {} : { group }), kind: plural, uid },
      },
    };
  }

  #admit({ resource, route, user }: Asked, old: KubeObject): void {
    const { group, version, plural } = resource;
    const { name } = old.metadata;
    const why = this.#gates.admit?.({
      operation: "DELETE",
      resource: { group, version, resource: plural },
      ...(route.namespace === null ? {} : { namespace: route.namespace }),
      name,
      userInfo: user,
      object: null,
      oldObject: copyOf(old),
    });
    if (why) throw forbidden(resource, name, why);
  }
}

/** From the body, and else from the query. */
function optionsOf({ body, query }: Asked): DeleteOptions {
  const { gracePeriodSeconds, propagationPolicy } = query;
  return {
    ...(gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds: Number(gracePeriodSeconds) }),
    ...(propagationPolicy === undefined ? {} : ({ propagationPolicy } as DeleteOptions)),
    ...(body as DeleteOptions | undefined),
  };
}

function checkPreconditions(resource: Resource, old: KubeObject, { preconditions = {} }: DeleteOptions): void {
  const { name, uid, resourceVersion } = old.metadata;
  const isNot = (what: string, wanted: string, found: string, why: string) =>
    conflict(
      { ...resource, plural: resource.kind },
      name,
      `the ${what} in the precondition (${wanted}) does not match the ${what} in record (${found}). The object might have been ${why}`,
    );
  if (preconditions.uid !== undefined && preconditions.uid !== uid)
    throw isNot("UID", preconditions.uid, uid, "deleted and then recreated");
  if (preconditions.resourceVersion !== undefined && preconditions.resourceVersion !== resourceVersion)
    throw isNot("ResourceVersion", preconditions.resourceVersion, resourceVersion, "modified");
}

function setFinalizers({ metadata }: KubeObject, { propagationPolicy, orphanDependents }: DeleteOptions): void {
  const had: string[] = metadata.finalizers ?? [];
  const policy =
    propagationPolicy ?? (orphanDependents === undefined ? undefined : orphanDependents ? "Orphan" : "Background");
  const keeps = (finalizer: string, wanted: string) =>
    policy === undefined ? had.includes(finalizer) : policy === wanted;
  const finalizers = [
    ...had.filter((one) => one !== ORPHAN && one !== FOREGROUND),
    ...(keeps(ORPHAN, "Orphan") ? [ORPHAN] : []),
    ...(keeps(FOREGROUND, "Foreground") ? [FOREGROUND] : []),
  ];
  if (finalizers.length > 0) metadata.finalizers = finalizers;
  else delete metadata.finalizers;
}

/** Of an object that only its finalizers keep. */
function markAsDeleting({ metadata }: KubeObject, wallMs: number): void {
  if (metadata.deletionGracePeriodSeconds === undefined && metadata.generation > 0) metadata.generation += 1;
  metadata.deletionTimestamp ??= isoTime(wallMs);
  metadata.deletionGracePeriodSeconds = 0;
}
