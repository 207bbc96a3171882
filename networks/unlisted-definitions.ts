import type { KubeApi } from "../kube/kube-api.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { NADS_PATH, namespacedPath } from "../kube/objects.ts";
import type { DefinitionCatalog } from "./definition-catalog.ts";

/**
 * Removes definitions that an ADD read by itself and that were deleted before they were listed: no event tells of their
 * end. `listed`: what the watch knows now, by `namespace/name`; what is newer stays, as its event is still to come.
 * Throws ApiAway.
 */
export async function forgetUnlisted(
  api: KubeApi,
  catalog: Pick<DefinitionCatalog, "keys" | "remove">,
  listed: { has(key: string): boolean },
): Promise<void> {
  const objects = new ObjectClient(api);
  for (const key of catalog.keys()) {
    if (listed.has(key)) continue;
    const [namespace = "", name = ""] = key.split("/");
    const found = await objects.find(namespacedPath(NADS_PATH, namespace, name));
    if (found === null && !listed.has(key)) catalog.remove(key);
  }
}
