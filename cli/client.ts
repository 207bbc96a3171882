import type { Answer, PathOf } from "../admin/answers.ts";

export type Query = Readonly<Record<string, string | undefined>>;

/** The server that answers a command. Every failure is thrown as a CommandError. */
export interface Client {
  /** A daemon, which has its node's past and state; or the objects of a cluster, without any daemon. */
  readonly kind: "node" | "cluster";
  get<Path extends PathOf<"GET">>(path: Path, query?: Query): Promise<Answer<"GET", Path>>;
  post<Path extends PathOf<"POST">>(path: Path, body: object): Promise<Answer<"POST", Path>>;
}
