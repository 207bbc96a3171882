import type { Following } from "../admin/following.ts";

export type Query = Readonly<Record<string, string | undefined>>;

/** Where the page's data comes from, with the rights of whoever started it: a daemon's socket, or a cluster. */
export interface Source {
  readonly kind: "node" | "cluster";
  /** For people: the socket, or the API server. */
  readonly from: string;
  /** The name of the daemon's node; "" of a cluster. */
  readonly node: string;
  /** A GET of the admin API. Rejects with an error that has `message` and `hint`. */
  get(path: string, query: Query): Promise<unknown>;
  /** Reports everything, then what changes, until the signal aborts. */
  follow(following: Following, signal: AbortSignal): Promise<void>;
}
