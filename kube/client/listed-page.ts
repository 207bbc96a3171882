import type { ListedPage, OnList } from "../kube-api.ts";
import type { KubeTransport, ListPageOutcome, ListPageRequest } from "./kube-transport.ts";

/** Reads one page over a transport, and reports to `onList` what it has brought, whatever its outcome. */
export function readPage(
  transport: KubeTransport,
  request: ListPageRequest,
  silenceMs: number,
  onList: OnList | undefined,
): Promise<ListPageOutcome> {
  const source = request.query.resourceVersion === undefined ? "quorum" : "cache";
  return counted(request, source, onList, (page) => transport.page(page, silenceMs));
}

/** Reads over `read`, and reports to `onList` what came of it. */
export async function counted<T>(
  request: ListPageRequest,
  source: ListedPage["source"],
  onList: OnList | undefined,
  read: (request: ListPageRequest) => Promise<T>,
): Promise<T> {
  if (onList === undefined) return read(request);
  let objects = 0;
  let bytes = 0;
  const each = (object: unknown) => {
    objects += 1;
    request.each(object);
  };
  const arrived = (more: number) => {
    bytes += more;
  };
  try {
    return await read({ ...request, each, arrived });
  } finally {
    onList({ ...listOf(request), source, objects, bytes });
  }
}

/** What a request lists, in as few words as there are time series. */
function listOf({ path, query }: Pick<ListPageRequest, "path" | "query">): Pick<ListedPage, "resource" | "selector"> {
  const { labelSelector, fieldSelector } = query;
  const byField = fieldSelector === undefined ? "none" : "field";
  return { resource: resourceOf(path), selector: labelSelector === undefined ? byField : "label" };
}

/** `/api/v1/pods` and `/api/v1/namespaces/shop/pods` are `pods`. */
function resourceOf(path: string): string {
  const [, root, ...rest] = path.split("/");
  // After the version, and the group where there is one.
  const [first = path, , namespaced] = rest.slice(root === "apis" ? 2 : 1);
  return namespaced ?? first;
}
