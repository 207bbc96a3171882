/** The words of the conversations: what is asked of an API server, step by step, and what it is expected to say. */

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind
export type Json = any;

/** What was said so far, by the names that steps gave it. */
export type Said = Readonly<Record<string, Json>>;

/** A value, or what makes it of what was said. In texts, `{id}` stands for the conversation's own name. */
export type Lazy<T> = T | ((said: Said) => T);

/** JSON to send or to expect, or what makes it of what was said. */
export type LazyJson = Readonly<Record<string, Json>> | readonly Json[] | string | undefined | ((said: Said) => Json);

/** Who asks. */
export type Who = "admin" | "holdfast-node";

/** What becomes of the next attempt. */
export type Fault =
  | "lost before"
  | "lost after"
  | "twice"
  | { readonly status: 403 | 429 | 500 | 503; readonly retryAfterSeconds?: number };

export interface SendStep {
  readonly kind: "send";
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: Lazy<string>;
  readonly query?: Lazy<Readonly<Record<string, string>>>;
  readonly body?: LazyJson;
  readonly patch?: "json" | "merge";
  /** "away": the client gets no definite answer in `deadlineMs`. */
  readonly status: number | "away";
  /** What the answer's body has, besides other things; of "away", the end of the message. */
  readonly answer: LazyJson;
  /** The name of the answer's body, for later steps. */
  readonly as?: string;
  readonly who?: Who;
  readonly deadlineMs?: number;
  /** What comes about only when controllers have had their time. */
  readonly intime?: boolean;
}

export interface ListStep {
  readonly kind: "list";
  readonly path: string;
  readonly query?: Lazy<Readonly<Record<string, string>>>;
  readonly metadataOnly?: boolean;
  /** The names of the objects in any order; "missing"; or the end of the ApiAway's message. */
  readonly answer: readonly string[] | "missing" | { readonly away: string };
  /** The name of `{ resourceVersion }`. */
  readonly as?: string;
  readonly who?: Who;
}

export interface WatchStep {
  readonly kind: "watch";
  /** Of the watch, for later steps. */
  readonly as: string;
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly metadataOnly?: boolean;
  readonly from: Lazy<string>;
}

export interface HearStep {
  readonly kind: "hear";
  readonly watch: string;
  /** Exactly these events, and what their objects have besides other things. */
  readonly events: Lazy<readonly (readonly [type: string, object: Json])[]>;
}

export interface EndStep {
  readonly kind: "end";
  readonly watch: string;
  /** How it ends; whether the server had agreed to it. */
  readonly end: Json;
  readonly wasOpened: boolean;
}

/** What an operator, or a failure, does to the server. */
export interface OperateStep {
  readonly kind: "operate";
  readonly act: "compact" | "restart" | "save" | "restore" | "restore newer" | "close watches";
}

export interface FaultStep {
  readonly kind: "fault";
  readonly fault: Fault;
}

export type Step = SendStep | ListStep | WatchStep | HearStep | EndStep | OperateStep | FaultStep;

export interface Conversation {
  readonly title: string;
  readonly steps: readonly Step[];
  /** Others write meanwhile, so that versions differ from server to server. */
  readonly hasOtherWriters?: boolean;
  /** Servers before and after say it otherwise: 1.`first` to 1.`last`. */
  readonly minors?: { readonly first?: number; readonly last?: number };
}

type More = Partial<Pick<SendStep, "as" | "who" | "query" | "deadlineMs" | "intime">>;
type Status = SendStep["status"];

export const get = (path: Lazy<string>, status: Status, answer: LazyJson = {}, more: More = {}): SendStep => ({
  kind: "send",
  method: "GET",
  path,
  status,
  answer,
  ...more,
});

/** POST, PUT and DELETE, with a body. */
const withBody =
  (method: SendStep["method"], patch?: "json" | "merge") =>
  (path: Lazy<string>, body: LazyJson, status: Status, answer: LazyJson = {}, more: More = {}): SendStep => ({
    kind: "send",
    method,
    path,
    body,
    status,
    answer,
    ...(patch === undefined ? {} : { patch }),
    ...more,
  });

export const post = withBody("POST");
export const put = withBody("PUT");
export const remove = withBody("DELETE");
export const merge = withBody("PATCH", "merge");
export const patch = withBody("PATCH", "json");

type ListMore = Partial<Pick<ListStep, "query" | "metadataOnly" | "as" | "who">>;

export const list = (path: string, answer: ListStep["answer"], more: ListMore = {}): ListStep => ({
  kind: "list",
  path,
  answer,
  ...more,
});

export const watch = (
  as: string,
  path: string,
  from: Lazy<string>,
  more: Partial<Pick<WatchStep, "query" | "metadataOnly">> = {},
): WatchStep => ({ kind: "watch", as, path, from, ...more });

export const hear = (name: string, ...events: readonly (readonly [string, Json])[]): HearStep => ({
  kind: "hear",
  watch: name,
  events,
});

export const hearOf = (name: string, events: (said: Said) => readonly (readonly [string, Json])[]): HearStep => ({
  kind: "hear",
  watch: name,
  events,
});

export const end = (name: string, how: Json, wasOpened = true): EndStep => ({
  kind: "end",
  watch: name,
  end: how,
  wasOpened,
});

export const operate = (act: OperateStep["act"]): OperateStep => ({ kind: "operate", act });
export const fault = (what: Fault): FaultStep => ({ kind: "fault", fault: what });
