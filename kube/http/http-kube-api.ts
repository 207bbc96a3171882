/*
 * kube/http/: the KubeApi port over HTTP
 *
 *   http-kube-api, http-transport   kube/client/ over these connections
 *   kube-config              address of the server, and credentials
 *   given-token, user-token  tokens that end: exec-plugin runs a command, oidc-login asks an issuer (saved-tokens)
 *   connections              requests, and the headers of answers
 *   answer-body, list-stream bodies of answers: an object, or a list object by object
 *   watch-stream             watches, event by event
 *   write-queue              limits the writes at once (Bottleneck)
 */

import type { Clock } from "../../platform/time.ts";
import { KubeClient } from "../client/kube-client.ts";
import type { Connect, RequestObservers } from "../kube-api.ts";
import { Connections } from "./connections.ts";
import { HttpTransport } from "./http-transport.ts";
import { type KubeConnection, loadKubeConfig } from "./kube-config.ts";

export interface HttpKubeApiOptions extends RequestObservers {
  /** Time for one attempt of `send`, ms; default 5 s. */
  readonly attemptMs?: number;
  /** Writes in flight at once; default 32. */
  readonly writesMax?: number;
}

/** The Kubernetes API over HTTP. Keeps connections, but no process, alive; `close` ends everything at once. */
export class HttpKubeApi extends KubeClient {
  readonly #connections: Connections;

  constructor(connection: KubeConnection, clock: Clock, options: HttpKubeApiOptions = {}) {
    const connections = new Connections(connection, clock, options.onRequest);
    super(new HttpTransport(connections, clock, options.writesMax), options);
    this.#connections = connections;
  }

  close(): void {
    this.#connections.close();
  }
}

/** Over HTTP, as the kubeconfig says: the way of every process not told another. Throws when it cannot be used. */
export const connectOverHttp: Connect = (kubeconfig, clock, observers = {}) =>
  new HttpKubeApi(loadKubeConfig(kubeconfig), clock, observers);
