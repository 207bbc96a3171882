import type { ApiServer } from "../../harness/kube-fake/api-server.ts";
import { type KubeObject, overTheWire } from "../../harness/kube-fake/objects.ts";
import type { ServerRequest } from "../../harness/kube-fake/requests.ts";
import type { AdminClient } from "../world.ts";

const USER = { username: "admin", groups: ["system:masters"] };
const NOT_FOUND = 404;
const REFUSED_FROM = 300;

/** The API server said no. */
class AdminRefused extends Error {
  override readonly name = "AdminRefused";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Requests that take no time and are never lost. */
export class DirectClient implements AdminClient {
  readonly #server: ApiServer;

  constructor(server: ApiServer) {
    this.#server = server;
  }

  async get(path: string): Promise<KubeObject | null> {
    const { status, body } = await this.#server.answer({ user: USER, method: "GET", path, query: {} });
    return status === NOT_FOUND ? null : accepted(status, body);
  }

  async list(collection: string): Promise<KubeObject[]> {
    return (await this.#send("GET", collection)).items;
  }

  create(collection: string, object: KubeObject): Promise<KubeObject> {
    return this.#send("POST", collection, { body: overTheWire(object) });
  }

  patch(path: string, patch: object): Promise<KubeObject> {
    return this.#send("PATCH", path, { body: overTheWire(patch), patch: "merge" });
  }

  async remove(
    path: string,
    { graceSeconds, propagation }: { readonly graceSeconds?: number; readonly propagation?: string } = {},
  ): Promise<void> {
    const body = {
      ...(graceSeconds === undefined ? {} : { gracePeriodSeconds: graceSeconds }),
      ...(propagation === undefined ? {} : { propagationPolicy: propagation }),
    };
    const request = { user: USER, method: "DELETE", path, query: {}, body } as const;
    const answer = await this.#server.answer(request);
    if (answer.status !== NOT_FOUND) accepted(answer.status, answer.body);
  }

  async #send(method: ServerRequest["method"], path: string, more: Partial<ServerRequest> = {}): Promise<KubeObject> {
    const { status, body } = await this.#server.answer({ user: USER, method, path, query: {}, ...more });
    return accepted(status, body);
  }
}

function accepted(status: number, body: KubeObject): KubeObject {
  if (status >= REFUSED_FROM) throw new AdminRefused(status, `${status} ${body.message}`);
  return body;
}
