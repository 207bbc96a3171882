import type { Answers, PathOf } from "../admin/answers.ts";

export type Query = Readonly<Record<string, string | undefined>>;

/** Whoever answers a command. Whatever goes wrong is thrown as a Failure that can be shown. */
export interface Client {
  /** A daemon, which knows its node's past and keeps its state; or the objects of a cluster, without any daemon. */
  readonly kind: "node" | "cluster";
  get<Path extends PathOf<"GET">>(path: Path, query?: Query): Promise<Answers["GET"][Path]>;
  post<Path extends PathOf<"POST">>(path: Path, body: object): Promise<Answers["POST"][Path]>;
}
