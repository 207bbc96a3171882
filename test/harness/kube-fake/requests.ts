import type { KubeObject } from "./objects.ts";
import type { Resource } from "./resources.ts";
import type { ResourceRoute } from "./routes.ts";

/** Who asks. */
export interface User {
  readonly username: string;
  readonly groups?: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** One HTTP request as the server reads it. */
export interface ServerRequest {
  readonly user: User;
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Without the query. */
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** As it arrived: shared with nobody. */
  readonly body?: KubeObject;
  readonly patch?: "json" | "merge";
  /** Asks for PartialObjectMetadata. */
  readonly metadataOnly?: boolean;
}

export interface ServerAnswer {
  readonly status: number;
  readonly body: KubeObject;
  /** Of the Date header: whole seconds, ms since 1970. */
  readonly serverMs: number;
  /** Of the Retry-After header, ms; 0: there is none. */
  readonly retryAfterMs: number;
}

/** What somebody wants to do, as authorization sees it. */
export interface Access {
  readonly user: User;
  readonly verb: "get" | "list" | "watch" | "create" | "update" | "patch" | "delete";
  readonly group: string;
  /** In the plural. */
  readonly resource: string;
  readonly subresource: string;
  /** null: cluster-scoped, or all namespaces. */
  readonly namespace: string | null;
  /** null: the collection. */
  readonly name: string | null;
}

/** What admission sees: the object as it is, and as it will be. */
interface AdmissionReview {
  readonly operation: "CREATE" | "UPDATE" | "DELETE";
  readonly resource: { readonly group: string; readonly version: string; readonly resource: string };
  readonly subResource?: string;
  readonly namespace?: string;
  readonly name: string;
  readonly userInfo: User;
  readonly object: KubeObject | null;
  readonly oldObject: KubeObject | null;
}

/** What stands between a request and the store. */
export interface Gates {
  /** Whether the user has the right; default: everybody has every right. */
  authorize?: (access: Access) => boolean;
  /** Why a write is not admitted; null: it is. */
  admit?: (review: AdmissionReview) => string | null;
}

/** A request that has been understood. */
export interface Asked {
  readonly user: User;
  readonly route: ResourceRoute;
  readonly resource: Resource;
  readonly query: Readonly<Record<string, string>>;
  readonly body: KubeObject;
}

export const keyOf = ({ namespace }: { readonly namespace: string | null }, name: string): string =>
  namespace === null ? name : `${namespace}/${name}`;
