import { copyOf, type KubeObject } from "./objects.ts";
import { type Asked, keyOf } from "./requests.ts";
import type { Resource } from "./resources.ts";
import { type Filter, fieldFilter, labelFilter, type SelectableFields } from "./selectors.ts";
import { inVersion } from "./versions.ts";

/** Which objects of a resource a list or a watch is about. */
export interface Selection {
  /** Keys begin with it. */
  readonly prefix: string;
  readonly key: string | null;
  readonly passes: Filter;
  /** Whether a label or field selector leaves some out. */
  readonly isPartial: boolean;
}

const OF_EVERY_KIND: SelectableFields = {
  "metadata.name": ({ metadata }) => metadata.name,
  "metadata.namespace": ({ metadata }) => metadata.namespace ?? "",
};

/** Throws Failure for selectors that the server does not take. */
export function selectionOf({ route, resource, query }: Asked): Selection {
  const { labelSelector = "", fieldSelector = "" } = query;
  const byLabel = labelFilter(labelSelector);
  const fields = resource.namespaced
    ? { ...OF_EVERY_KIND, ...resource.fields }
    : { "metadata.name": OF_EVERY_KIND["metadata.name"] as never, ...resource.fields };
  const { filter: byField, name } = fieldFilter(fieldSelector, fields);
  const prefix = route.namespace === null ? "" : `${route.namespace}/`;
  const isWithin = (object: KubeObject) => route.namespace === null || object.metadata.namespace === route.namespace;
  const key = name !== null && (route.namespace !== null || !resource.namespaced) ? keyOf(route, name) : null;
  return {
    prefix,
    key,
    passes: (object) => isWithin(object) && byLabel(object) && byField(object),
    isPartial: labelSelector !== "" || fieldSelector !== "",
  };
}

/** What a list or a watch shows of an object. Objects in lists of Kubernetes' own kinds do not say what they are. */
export function shown(
  object: KubeObject,
  resource: Resource,
  { metadataOnly, inList }: { readonly metadataOnly: boolean; readonly inList: boolean },
): KubeObject {
  if (metadataOnly)
    return {
      kind: "PartialObjectMetadata",
      apiVersion: "meta.k8s.io/v1",
      metadata: copyOf(object.metadata),
    };
  const { kind, apiVersion, ...rest } = copyOf(inVersion(object, resource));
  return inList && !resource.custom ? rest : { kind, apiVersion, ...rest };
}
