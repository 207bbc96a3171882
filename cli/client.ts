export type Query = Readonly<Record<string, string | undefined>>;

/** Whoever answers a command. Whatever goes wrong is thrown as a Failure that can be shown. */
export interface Client {
  /** A daemon, which knows its node's past and keeps its state; or the objects of a cluster, without any daemon. */
  readonly kind: "node" | "cluster";
  get<T>(path: string, query?: Query): Promise<T>;
  post<T>(path: string, body: object): Promise<T>;
}
