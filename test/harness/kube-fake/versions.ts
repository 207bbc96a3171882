import { copyOf, type KubeObject } from "./objects.ts";
import { apiVersionOf, type Resource } from "./resources.ts";
import { conform } from "./schema.ts";

/**
 * An object as a version shows it, whichever it was written in: without what that does not know. Nothing else is
 * converted.
 */
export function inVersion(object: KubeObject, resource: Resource): KubeObject {
  const apiVersion = apiVersionOf(resource);
  if (object.apiVersion === apiVersion) return object;
  const shown = { ...copyOf(object), apiVersion };
  if (resource.custom) conform(shown, resource.schema);
  return shown;
}
