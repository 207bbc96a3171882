import { isDeepStrictEqual } from "node:util";
import type { Etcd } from "./etcd.ts";
import {
  alreadyExists,
  badRequest,
  conflict,
  Failure,
  type FieldProblem,
  forbidden,
  invalid,
  invalidValue,
  notAllowed,
  notFound,
  STALE,
} from "./failure.ts";
import { beginLife, carryOver, problemsOfMetadata, tidy } from "./metadata.ts";
import { copyOf, isEqual, isRecord, type KubeObject } from "./objects.ts";
import { jsonPatched, mergePatched } from "./patches.ts";
import { type HasClock, isoTime } from "./port.ts";
import { type Asked, type Gates, keyOf } from "./requests.ts";
import { apiVersionOf, type Resource } from "./resources.ts";
import { conform } from "./schema.ts";
import { problemsBySchema } from "./schema-problems.ts";
import { DEFINITIONS_STORAGE } from "./served.ts";
import { inVersion } from "./versions.ts";

const NAMESPACES_STORAGE = "/namespaces";

export interface Written {
  readonly status: number;
  readonly object: KubeObject;
}

/** Reads and writes of single objects, in the order in which the server checks them. Every method throws Failure. */
export class Registry {
  readonly #etcd: Etcd;
  readonly #world: HasClock;
  readonly #gates: Gates;

  constructor(etcd: Etcd, world: HasClock, gates: Gates) {
    this.#etcd = etcd;
    this.#world = world;
    this.#gates = gates;
  }

  get({ resource, route }: Pick<Asked, "resource" | "route">): KubeObject {
    const name = route.name as string;
    const object = this.#etcd.get(resource.storage, keyOf(route, name));
    if (object === null) throw notFound(resource, name);
    return inVersion(object, resource);
  }

  create(asked: Asked): Written {
    const { resource, route, query } = asked;
    if (route.subresource === "binding" && resource.binds === true) return this.#bind(asked);
    if (route.subresource !== "" || route.name !== null) throw notAllowed();
    if (resource.namespaced !== (route.namespace !== null)) throw notAllowed();
    const object = this.#received(asked);
    this.#checkNamespace(resource, route.namespace, object.metadata.name ?? "");
    return { status: 201, object: this.#insert(asked, object, query.dryRun === "All") };
  }

  update(asked: Asked): Written {
    const { resource, route } = asked;
    const name = route.name;
    if (name === null) throw notAllowed();
    const next = this.#received(asked);
    if ((next.metadata.name ?? "") !== name)
      throw badRequest(
        next.metadata.name
          ? `the name of the object (${next.metadata.name}) does not match the name on the URL (${name})`
          : "name must be provided",
      );
    const { uid, resourceVersion } = next.metadata;
    const old = this.#etcd.get(resource.storage, keyOf(route, name));
    if (uid !== undefined && uid !== old?.metadata.uid) {
      const has = old?.metadata.uid ?? "";
      throw conflict(
        resource,
        name,
        `StorageError: invalid object, Code: 4, Key: ${registryKey(resource, keyOf(route, name))}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: ${uid}, UID in object meta: ${has}`,
      );
    }
    if (old === null) {
      if (!resource.createsOnPut || route.subresource !== "") throw notFound(resource, name);
      this.#checkNamespace(resource, route.namespace, name);
      return { status: 201, object: this.#insert(asked, next, false) };
    }
    if (resourceVersion === undefined && !resource.overwrites) {
      const problem = invalidValue("metadata.resourceVersion", "0x0", "must be specified for an update");
      const bare = { ...problem, message: "Invalid value: 0x0: must be specified for an update" };
      throw invalid({ ...resource, kind: resource.plural }, name, [bare]);
    }
    return this.#replace(asked, old, next);
  }

  patch(asked: Asked, kind: "json" | "merge"): Written {
    const old = this.get(asked);
    const patched = kind === "json" ? jsonPatched(old, asked.body) : mergePatched(old, asked.body);
    if (!isRecord(patched)) throw badRequest("the patch leaves no object");
    const object = copyOf(patched) as KubeObject;
    if (asked.resource.custom) conform(object, asked.resource.schema);
    tidy(object, asked.resource);
    return this.#replace(asked, old, object);
  }

  /** What a scheduler sends: the object has its node from now on. */
  #bind(asked: Asked): Written {
    const { resource, route, body } = asked;
    const name = route.name as string;
    const old = this.#etcd.get(resource.storage, keyOf(route, name));
    if (old === null) throw notFound(resource, name);
    const binding = { ...resource, plural: `${resource.plural}/binding` };
    if (old.metadata.deletionTimestamp !== undefined)
      throw conflict(binding, name, `pod ${name} is being deleted, cannot be assigned to a host`);
    if (old.spec.nodeName)
      throw conflict(binding, name, `pod ${name} is already assigned to node "${old.spec.nodeName}"`);
    const now = isoTime(this.#world.clock.wallMs());
    const scheduled = { type: "PodScheduled", status: "True", lastProbeTime: null, lastTransitionTime: now };
    const object = copyOf(old);
    object.spec.nodeName = (body as KubeObject).target.name;
    object.status.conditions = [...(object.status.conditions ?? []), scheduled];
    this.#etcd.put(resource.storage, keyOf(route, name), object);
    return { status: 201, object: { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", code: 201 } };
  }

  /** What arrived, read as an object of the resource. */
  #received({ resource, route, body }: Asked): KubeObject {
    if (!isRecord(body)) throw badRequest("the object provided is unrecognized (must be of type Object)");
    const object = { ...body, metadata: { ...(body.metadata as object | undefined) } } as KubeObject;
    const apiVersion = apiVersionOf(resource);
    if (resource.custom && (!object.kind || !object.apiVersion))
      throw badRequest(
        `${resource.kind} in version "${resource.version}" cannot be handled as a ${resource.kind}: unmarshalerDecoder: Object 'Kind' is missing in '${JSON.stringify(body)}'`,
      );
    object.kind ??= resource.kind;
    object.apiVersion ??= apiVersion;
    // Another kind of the same group is found out when the object is checked.
    const isItsKind = resource.custom || object.kind === resource.kind;
    if (!isItsKind || object.apiVersion !== apiVersion)
      throw badRequest(
        `the API version in the data (${object.apiVersion}) does not match the expected API version (${apiVersion})`,
      );
    if (route.namespace !== null) {
      if ((object.metadata.namespace ?? route.namespace) !== route.namespace)
        throw badRequest("the namespace of the provided object does not match the namespace sent on the request");
      object.metadata.namespace = route.namespace;
    }
    if (resource.custom) conform(object, resource.schema);
    tidy(object, resource);
    if (object.metadata.resourceVersion === "") delete object.metadata.resourceVersion;
    return object;
  }

  #checkNamespace(resource: Resource, namespace: string | null, name: string): void {
    if (namespace === null) return;
    const found = this.#etcd.get(NAMESPACES_STORAGE, namespace);
    if (found === null) throw notFound({ group: "", plural: "namespaces", kind: "Namespace" }, namespace);
    if (found.status?.phase !== "Terminating") return;
    const why = `unable to create new content in namespace ${namespace} because it is being terminated`;
    throw forbidden(resource, name, why, [
      {
        reason: "NamespaceTerminating",
        field: "metadata.namespace",
        message: `namespace ${namespace} is being terminated`,
      },
    ]);
  }

  #insert(asked: Asked, object: KubeObject, dryRun: boolean): KubeObject {
    const { resource, route } = asked;
    this.#checkDefinition(resource);
    const givenVersion = object.metadata.resourceVersion;
    if (resource.hasStatus && !resource.keepsStatusOnCreate) delete object.status;
    beginLife(object, resource, this.#world);
    resource.rewrite?.(object);
    resource.complete?.(object);
    const { name = "" } = object.metadata;
    this.#validate(resource, name, object, []);
    this.#admit(asked, "CREATE", object, null);
    if (givenVersion !== undefined)
      throw new Failure(500, "", "resourceVersion should not be set on objects to be created");
    const key = keyOf(route, name);
    const known = this.#etcd.get(resource.storage, key);
    if (known !== null) throw alreadyExists(resource, name, known.metadata.deletionTimestamp !== undefined);
    return dryRun ? object : this.#etcd.put(resource.storage, key, object);
  }

  /** Of a definition that is being deleted no new object is taken. */
  #checkDefinition(resource: Resource): void {
    if (!resource.custom) return;
    const name = `${resource.plural}.${resource.group}`;
    const definition = this.#etcd.get(DEFINITIONS_STORAGE, name);
    if (definition?.metadata.deletionTimestamp !== undefined)
      throw new Failure(405, "MethodNotAllowed", "create not allowed while custom resource definition is terminating", {
        details: { group: resource.group, kind: resource.plural },
      });
  }

  #replace(asked: Asked, old: KubeObject, next: KubeObject): Written {
    const { resource, route, query } = asked;
    const name = route.name as string;
    const { resourceVersion = old.metadata.resourceVersion } = next.metadata;
    // One empty entry: nobody's fields are recorded any more.
    if (isDeepStrictEqual(next.metadata.managedFields, [{}])) delete next.metadata.managedFields;
    if (resourceVersion !== old.metadata.resourceVersion) throw conflict(resource, name, STALE);
    next.metadata.resourceVersion = old.metadata.resourceVersion;
    const object = route.subresource === "status" ? withStatusOf(resource, old, next) : next;
    if (route.subresource === "" && resource.hasStatus) {
      if (old.status === undefined) delete object.status;
      else object.status = copyOf(old.status);
    }
    resource.rewrite?.(object);
    const carried = carryOver(object, old);
    // The server checks them twice, and says so.
    const problems = [...carried, ...carried];
    if (resource.counts === "generation" && changesGeneration(resource, object, old))
      object.metadata.generation = old.metadata.generation + 1;
    problems.push(...(resource.problemsOfUpdate?.(object, old) ?? []));
    this.#validate(resource, name, object, problems);
    this.#admit(asked, "UPDATE", object, old);
    if (isEqual(object, old)) return { status: 200, object: old };
    if (query.dryRun === "All") return { status: 200, object };
    const key = keyOf(route, name);
    const isLast = (object.metadata.finalizers ?? []).length === 0;
    if (isLast && old.metadata.deletionGracePeriodSeconds === 0) {
      this.#etcd.delete(resource.storage, key);
      return { status: 200, object };
    }
    return { status: 200, object: this.#etcd.put(resource.storage, key, object) };
  }

  #validate(resource: Resource, name: string, object: KubeObject, more: readonly FieldProblem[]): void {
    const { kind } = object;
    const problems = [...problemsOfMetadata(object.metadata, resource), ...more];
    if (kind !== resource.kind) problems.push(invalidValue("kind", kind, `must be ${resource.kind}`));
    if (resource.schema) {
      const { metadata: _, ...rest } = resource.schema.properties ?? {};
      problems.push(...problemsBySchema(object, { ...resource.schema, properties: rest }));
    }
    if (problems.length > 0) throw invalid({ ...resource, kind }, name, problems);
  }

  #admit(
    { resource, route, user }: Asked,
    operation: "CREATE" | "UPDATE",
    object: KubeObject,
    oldObject: KubeObject | null,
  ): void {
    const { name } = object.metadata;
    const { group, version, plural } = resource;
    const why = this.#gates.admit?.({
      operation,
      resource: { group, version, resource: plural },
      ...(route.subresource === "" ? {} : { subResource: route.subresource }),
      ...(route.namespace === null ? {} : { namespace: route.namespace }),
      name,
      userInfo: user,
      object: copyOf(object),
      oldObject: copyOf(oldObject),
    });
    if (why) throw forbidden(resource, name, why);
  }
}

/** Where the server keeps it in etcd, as it says itself. */
function registryKey({ custom, group, plural }: Resource, key: string): string {
  return `/registry/${custom ? `${group}/` : ""}${plural}/${key}`;
}

/** The object with the status that is written, and of Kubernetes' own kinds with the metadata that is. */
function withStatusOf(resource: Resource, old: KubeObject, next: KubeObject): KubeObject {
  const object = resource.custom ? copyOf(old) : { ...next, spec: copyOf(old.spec) };
  if (next.status === undefined) delete object.status;
  else object.status = next.status;
  return object;
}

/** Whether a write changes more than metadata and, where it is written apart, status. */
function changesGeneration(resource: Resource, next: KubeObject, old: KubeObject): boolean {
  const rest = ({ metadata: _, status, ...others }: KubeObject) =>
    resource.hasStatus ? others : { ...others, ...(status === undefined ? {} : { status }) };
  return !isEqual(rest(next), rest(old));
}
