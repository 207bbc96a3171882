import type { KubeApi } from "../../kube/kube-api.ts";
import { MalformedObjectError } from "../../kube/views/object-metadata.ts";

/**
 * Every object of a collection by its key, from the quorum. `complete` is false where one is malformed, and `served`
 * where the server does not know the resource. Throws ApiAway.
 */
export async function readAll<T extends { readonly key: string }>(
  api: KubeApi,
  path: string,
  project: (object: unknown) => T,
): Promise<{
  readonly items: ReadonlyMap<string, T>;
  readonly complete: boolean;
  readonly served: boolean;
}> {
  const items = new Map<string, T>();
  let complete = true;
  const answer = await api.list({
    path,
    each: (object) => {
      try {
        const item = project(object);
        items.set(item.key, item);
      } catch (error) {
        if (!(error instanceof MalformedObjectError)) throw error;
        complete = false;
      }
    },
    restarted: () => {
      items.clear();
      complete = true;
    },
  });
  return { items, complete, served: answer.kind === "listed" };
}
