import { RefusalError, refuse } from "../ipam/refusals.ts";
import type { ClusterAdminApi, NodeAdminApi } from "./admin-api.ts";
import type { Method } from "./answers.ts";
import { answerRoute, ROUTES } from "./routes.ts";

export interface InProcessRequest {
  readonly method: Method;
  readonly path: string;
  readonly query: Readonly<Record<string, string | undefined>>;
  /** null: none. */
  readonly body: object | null;
}

/** Answers by the same routes without a socket. Rejects with the errors that a socket would answer. */
export async function answerInProcess(
  api: NodeAdminApi | ClusterAdminApi,
  { method, path, query, body }: InProcessRequest,
): Promise<unknown> {
  for (const route of ROUTES) {
    const params = route.method === method ? matchPath(route.path, path) : null;
    if (params === null) continue;
    return answerRoute(route, api, { params, query: definedOnly(query), body: asJson(body) });
  }
  throw new RefusalError(refuse("NOT_FOUND", { what: `route ${method} ${path}` }));
}

/** The named parts of a path; null: it does not match. */
function matchPath(pattern: string, path: string): Record<string, string> | null {
  const parts = path.split("/");
  const wanted = pattern.split("/");
  if (parts.length !== wanted.length) return null;
  const params: Record<string, string> = {};
  for (const [index, one] of wanted.entries()) {
    const part = parts[index] as string;
    if (one.startsWith(":")) params[one.slice(1)] = decodeURIComponent(part);
    else if (one !== part) return null;
  }
  return params;
}

function definedOnly(query: InProcessRequest["query"]): object {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined));
}

/** As it would arrive over a socket: without undefined values. */
function asJson(body: object | null): unknown {
  return body === null ? undefined : JSON.parse(JSON.stringify(body));
}
