import type { KubeApi } from "../kube/kube-api.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { NADS_PATH, namespacedPath } from "../kube/objects.ts";
import { MalformedObjectError, objectAt } from "../kube/views/object-metadata.ts";
import { DefinitionCatalog } from "./definition-catalog.ts";
import { projectNad } from "./nad-view.ts";

/** By a quorum read, with the namespaces of those that cannot be read. */
export interface ListedDefinitions {
  readonly catalog: DefinitionCatalog;
  readonly unreadable: ReadonlySet<string>;
}

/** Where NADs have no definition there are none. Throws ApiAway. */
export async function listDefinitions(api: Pick<KubeApi, "list" | "clock">): Promise<ListedDefinitions> {
  const catalog = new DefinitionCatalog(api.clock);
  const unreadable = new Set<string>();
  await api.list({
    path: NADS_PATH,
    each: (object) => {
      try {
        catalog.upsert(projectNad(object));
      } catch (error) {
        if (!(error instanceof MalformedObjectError)) throw error;
        unreadable.add(namespaceOf(object));
      }
    },
    restarted: () => {},
  });
  return { catalog, unreadable };
}

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

/** Of an otherwise malformed object. */
function namespaceOf(object: unknown): string {
  const { namespace } = objectAt(object, "metadata", "NetworkAttachmentDefinition");
  return String(namespace);
}
