import type { ListedPage, OnList } from "../kube-api.ts";
import type { KubeTransport, ListPageOutcome, ListPageRequest } from "./kube-transport.ts";

/** Reads one page over a transport, and reports to `onList` what it has brought, whatever its outcome. */
export async function readPage(
  transport: KubeTransport,
  request: ListPageRequest,
  silenceMs: number,
  onList: OnList | undefined,
): Promise<ListPageOutcome> {
  if (onList === undefined) return transport.page(request, silenceMs);
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
    return await transport.page({ ...request, each, arrived }, silenceMs);
  } finally {
    onList({ ...listOf(request), objects, bytes });
  }
}

/** What a request lists, in as few words as there are time series. */
function listOf({
  path,
  query,
}: Pick<ListPageRequest, "path" | "query">): Pick<ListedPage, "resource" | "selector" | "source"> {
  const { labelSelector, fieldSelector, resourceVersion } = query;
  const byField = fieldSelector === undefined ? "none" : "field";
  return {
    resource: resourceOf(path),
    selector: labelSelector === undefined ? byField : "label",
    source: resourceVersion === undefined ? "quorum" : "cache",
  };
}

/** `/api/v1/pods` and `/api/v1/namespaces/shop/pods` are `pods`. */
function resourceOf(path: string): string {
  const [, root, ...rest] = path.split("/");
  // After the version, and the group where there is one.
  const [first = path, , namespaced] = rest.slice(root === "apis" ? 2 : 1);
  return namespaced ?? first;
}
