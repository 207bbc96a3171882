/*
 * kube/: the Kubernetes API
 *
 *   kube-api                  the port; client/: retries; http/ carries it
 *   objects, object-names     the objects on the wire; views/: the fields kept of each kind
 *   reflector, reflector-options, reflected-items, collection-paths
 *                             a list and its watch, mirrored in memory
 *   watch-once, last-change   one watch of it, and what the server must tell again after one that broke
 *   cluster-api               the names of Cluster API
 *   object-client             single objects read and written; network-object: IPNetworks; answers: status codes
 *   list-metrics      what a process lists, counted
 *   events, backoff, turn-budget; write-guard: writes only while something holds
 */

import type { Clock } from "../platform/time.ts";

/** Statuses of the API server's answers that decide something. */
export const BAD_REQUEST = 400;
export const UNAUTHORIZED = 401;
export const FORBIDDEN = 403;
export const NOT_FOUND = 404;
export const CONFLICT = 409;
export const GONE = 410;
export const UNPROCESSABLE = 422;
export const TOO_MANY = 429;

/** The order of waiting requests: an ADD's caller counts seconds, a DEL was answered already, the rest has time. */
export type Priority = "add" | "del" | "housekeeping";

export interface KubeRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Path without query, names already escaped, e.g. `/api/v1/namespaces/shop/pods/web-0`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Of a PATCH: a list of JSON Patch operations, or a merge patch. */
  readonly patch?: "json" | "merge";
  readonly priority: Priority;
  /** Called before each attempt: why it must no longer be sent, which ends the request with ApiAway; null: it may. */
  readonly unless?: () => string | null;
  /** Instant of the API's clock after which the answer is useless, ms. */
  readonly deadlineMs: number;
}

/**
 * A definite answer: the server did, or did not do, what was requested. Never 5xx, 429 or 401, nor a 403 of a server
 * that has just come back: until it has read its roles it refuses everything.
 */
export interface KubeAnswer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: objects of every kind; readers project them
  readonly body: any;
  /** The server's own clock (its Date header), ms since 1970; null when it sent none. */
  readonly serverMs: number | null;
}

/** No definite answer came before the deadline: the request may have been carried out, or may still be. */
export class ApiAway extends Error {
  override readonly name: string = "ApiAway";
  /** The failure, without the request. */
  readonly problem: string;
  /** HTTP status of the last indefinite answer; null: there was no answer. */
  readonly status: number | null;
  /** Code of the connection's error in Node or OpenSSL, such as ECONNREFUSED; null: it has none. */
  readonly code: string | null;

  constructor(message: string, { problem = message, status = null, code = null }: Partial<AttemptFailure> = {}) {
    super(message);
    this.problem = problem;
    this.status = status;
    this.code = code;
  }
}

/** Why an exchange ended without a definite answer. */
export interface AttemptFailure {
  readonly problem: string;
  readonly status: number | null;
  readonly code: string | null;
}

/** A list is refused (403, 401). Most callers treat it as if the server were away: permissions may change. */
export class ListRefused extends ApiAway {
  override readonly name = "ListRefused";

  constructor(message: string, status: number, problem = message) {
    super(message, { problem, status });
  }
}

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind; readers project them
type KubeObject = any;

export interface ListRequest {
  readonly path: string;
  /** `labelSelector`, `fieldSelector`, `resourceVersion`, `limit`. Without resourceVersion it is a quorum read. */
  readonly query?: Readonly<Record<string, string>>;
  /**
   * Reads no more than one page: `limit` of `query`, from its `continue` on. Where that has expired, the page is of a
   * later moment than those before it, and may begin with objects that were on them.
   */
  readonly onePage?: boolean;
  /**
   * From the server's cache as soon as that has reached this version, else by a quorum read: before Kubernetes 1.31 a
   * cache learns of other resources' versions with its own next change only, and a server waits three seconds for that.
   */
  readonly notOlderThan?: string;
  /** Only metadata of each object (PartialObjectMetadata). */
  readonly metadataOnly?: boolean;
  /** Called for each object while the list is being read. */
  readonly each: (object: KubeObject) => void;
  /**
   * Called when the list must be started over: objects already passed to `each` no longer count. Without it, such a
   * list throws ApiAway once any object has been passed.
   */
  readonly restarted?: () => void;
  /**
   * Everything is read as the beginning of a watch (WatchList) where the server has that: one object after the other,
   * and neither side holds all of them. Elsewhere it is read page by page from the store, at its newest version. `each`
   * may then be called again for an object that was changed meanwhile, and `gone` for one that was deleted.
   */
  readonly streamed?: { readonly gone: (object: KubeObject) => void };
  readonly signal?: AbortSignal;
  /** instant of the API's clock, ms; without it, the list gives up after a few failures in a row. */
  readonly deadlineMs?: number;
}

/** `missing`: the resource has no definition. `next`: the `continue` of the following page; absent: there is none. */
export type ListAnswer =
  | { readonly kind: "listed"; readonly resourceVersion: string; readonly next?: string }
  | { readonly kind: "missing" };

export interface WatchRequest {
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly metadataOnly?: boolean;
  readonly resourceVersion: string;
  // biome-ignore lint/suspicious/noExplicitAny: objects of every kind; readers project them
  readonly event: (type: string, object: any) => void;
  /** Called when the server has accepted the watch, before any event. */
  readonly opened?: () => void;
  readonly signal: AbortSignal;
}

/** `expired`: 410, list again. `status`: of a refusal; absent: no answer came. `retryAfterMs`: as the server says. */
export type WatchEnd =
  | { readonly kind: "closed" }
  | { readonly kind: "expired"; readonly problem: string }
  | {
      readonly kind: "failed";
      readonly problem: string;
      readonly status?: number;
      readonly retryAfterMs?: number;
    };

export interface KubeApi {
  /** The clock of all its instants. */
  readonly clock: Clock;
  /**
   * One request. Overload (429), server errors (5xx), resets and time-outs are retried until the deadline: callers must
   * make sure that a repeated write does no harm. Throws ApiAway when no definite answer came.
   */
  send(request: KubeRequest): Promise<KubeAnswer>;
  /** A list page by page, or one of them. Throws ApiAway, ListRefused when refused (403), and what `each` throws. */
  list(request: ListRequest): Promise<ListAnswer>;
  /** Changes and bookmarks, until the server ends it, it fails or the signal aborts ("closed"). Never throws. */
  watch(request: WatchRequest): Promise<WatchEnd>;
}

/** A client with connections of its own, which its creator must close. */
export interface OpenKubeApi extends KubeApi {
  /** Ends requests, lists and watches that are under way; later ones fail. */
  close(): void;
}

/** Called for each answer, with `ms` to its headers, and with "away" where none came. `verb`: method, LIST or WATCH. */
export type OnRequest = (verb: string, status: number | "away", ms: number) => void;

/** One request for a page of a list, and what came of it; nothing where it was refused or not answered. */
export interface ListedPage {
  /** In the plural, such as `pods`. */
  readonly resource: string;
  readonly selector: "none" | "label" | "field";
  /** `quorum`: the newest, without resourceVersion; `cache`: not older than that version; `stream`: a WatchList. */
  readonly source: "cache" | "quorum" | "stream";
  /** Also of a page that broke off. */
  readonly objects: number;
  /** Of the body, as it came over the connection: nothing is compressed, because nobody asks for that. */
  readonly bytes: number;
}

/** Called at the end of each request for a page of a list. */
export type OnList = (page: ListedPage) => void;

export interface RequestObservers {
  readonly onRequest?: OnRequest;
  readonly onList?: OnList;
}

/** `kubeconfig` null: as a pod of the cluster. Throws when it cannot be used. Tests have servers in their process. */
export type Connect = (kubeconfig: string | null, clock: Clock, observers?: RequestObservers) => OpenKubeApi;
