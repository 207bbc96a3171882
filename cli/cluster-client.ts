import { join } from "node:path";
import type { Answer, PathOf } from "../admin/answers.ts";
import type * as ClusterBundle from "../admin/cluster/main.ts";
import type { Following } from "../admin/following.ts";
import type { InProcessRequest } from "../admin/in-process.ts";
import type { KubeFiles } from "../kube/http/kube-config.ts";
import type { Client, Query } from "./client.ts";
import { CommandError, EXIT } from "./failure.ts";
import { loadBundle } from "./load-bundle.ts";

/** With the permissions of the kubeconfig's user. Its code is a bundle of its own, loaded when needed. */
export class ClusterClient implements Client {
  readonly kind = "cluster";
  readonly #kubeconfig: KubeFiles;
  readonly #silenceMs: number;
  #bundle: typeof ClusterBundle | null = null;
  #asked: ClusterBundle.AskedCluster | null = null;

  constructor(kubeconfig: KubeFiles, silenceMs: number) {
    this.#kubeconfig = kubeconfig;
    this.#silenceMs = silenceMs;
  }

  get<Path extends PathOf<"GET">>(path: Path, query: Query = {}): Promise<Answer<"GET", Path>> {
    return this.#ask({ method: "GET", path, query, body: null });
  }

  post<Path extends PathOf<"POST">>(path: Path, body: object): Promise<Answer<"POST", Path>> {
    return this.#ask({ method: "POST", path, query: {}, body });
  }

  /** Where the API server is, for people. */
  get server(): string {
    return this.#code.serverOf(this.#kubeconfig);
  }

  follow(following: Following, signal: AbortSignal): Promise<void> {
    return this.#code.followCluster(this.#options, following, signal);
  }

  get #options() {
    return { kubeconfig: this.#kubeconfig, silenceMs: this.#silenceMs };
  }

  get #code(): typeof ClusterBundle {
    this.#bundle ??= loadBundle(join(import.meta.dirname, "../lib/cluster.cjs")) as typeof ClusterBundle;
    return this.#bundle;
  }

  async #ask<T>(request: InProcessRequest): Promise<T> {
    this.#asked ??= new this.#code.AskedCluster(this.#options);
    const answer = await this.#asked.ask(request);
    if (answer.kind === "answered") return answer.body as T;
    const { kind, code, message, hint } = answer;
    throw new CommandError(message, {
      hint,
      code,
      exitCode: kind === "away" ? EXIT.unreachable : EXIT.refused,
    });
  }
}
