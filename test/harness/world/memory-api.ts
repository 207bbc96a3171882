import { type KubeAnswer, KubeApi } from "../kube-api.ts";
import type { ServerRequest, User } from "../kube-fake/requests.ts";
import type { MemoryCluster } from "./memory-cluster.ts";

/** A client of the server in memory, by path, as tests have one of a real server. */
export class MemoryApi extends KubeApi {
  readonly #cluster: MemoryCluster;
  readonly #user: User;

  constructor(cluster: MemoryCluster, user: User) {
    super();
    this.#cluster = cluster;
    this.#user = user;
  }

  override async call(
    method: string,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<KubeAnswer> {
    const request = requestOf({ method, url: path, headers, user: this.#user });
    const sent = body === undefined ? {} : { body: JSON.parse(JSON.stringify(body)) };
    const answer = await this.#cluster.answer({ ...request, ...sent });
    if (answer === null) throw new Error("the API server is away");
    return { status: answer.status, body: answer.body };
  }

  override close(): void {}
}

interface Sent {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly user: User;
}

/** A request without its body, as the server in memory reads it. */
export function requestOf({ method, url, headers, user }: Sent): ServerRequest {
  const { pathname, searchParams } = new URL(url, "http://server");
  const { accept = "", "content-type": type = "" } = headers;
  return {
    user,
    method: method as ServerRequest["method"],
    path: pathname,
    query: Object.fromEntries(searchParams),
    metadataOnly: accept.includes("as=PartialObjectMetadata"),
    ...(method === "PATCH" ? { patch: type.includes("json-patch") ? "json" : "merge" } : {}),
  };
}
