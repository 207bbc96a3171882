import type { KubeApi } from "../kube/kube-api.ts";
import { NADS_PATH } from "../kube/objects.ts";
import { MalformedObjectError, objectAt } from "../kube/views/object-metadata.ts";
import { DefinitionCatalog, projectNad } from "./definition-catalog.ts";

/** All NADs of the cluster by a quorum read, and the namespaces of those that cannot be read. */
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

/** Of an otherwise malformed object. */
function namespaceOf(object: unknown): string {
  const { namespace } = objectAt(object, "metadata", "NetworkAttachmentDefinition");
  return String(namespace);
}
