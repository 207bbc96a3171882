import type { KubeObject } from "../../harness/kube-fake/objects.ts";
import type { ServerRequest } from "../../harness/kube-fake/requests.ts";
import { routeOf } from "../../harness/kube-fake/routes.ts";
import type { Charge, Retry } from "../world.ts";
import type { Verb } from "./troubles.ts";

/** What a client has been refused and asks again, by what it asks. */
interface Refused {
  readonly heardMs: number;
  readonly retryAfterMs: number;
}

interface Kept extends Charge {
  requests: number;
  refused: number;
  bytes: number;
}

/** What everybody asks of the API server, as the server counts it. */
export class Bill {
  readonly retries: Retry[] = [];
  /** What is charged from now on belongs to it. */
  phase = "first";
  readonly #charges = new Map<string, Kept>();
  readonly #refused = new Map<string, Refused>();
  readonly #nowMs: () => number;

  /** `nowMs`: of the world. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  get charges(): readonly Charge[] {
    return [...this.#charges.values()];
  }

  /** A client sends it. */
  sent(link: string, request: ServerRequest, verb: Verb): void {
    const key = keyOf(link, request, verb);
    const refused = this.#refused.get(key);
    if (refused === undefined) return;
    this.#refused.delete(key);
    const { heardMs, retryAfterMs } = refused;
    const { client, what } = this.#chargeOf(link, request, verb);
    this.retries.push({ client, what, phase: this.phase, waitedMs: this.#nowMs() - heardMs, retryAfterMs });
  }

  /** The client reads that it has to wait. */
  refused(link: string, request: ServerRequest, verb: Verb, retryAfterMs: number): void {
    this.#refused.set(keyOf(link, request, verb), { heardMs: this.#nowMs(), retryAfterMs });
  }

  answered(
    link: string,
    request: ServerRequest,
    verb: Verb,
    { status, body }: { readonly status: number; readonly body: KubeObject },
  ): void {
    const charge = this.#chargeOf(link, request, verb);
    charge.requests += 1;
    if (status >= 400) charge.refused += 1;
    if (body !== null) charge.bytes += bytesOf(body);
  }

  /** An event of a watch. */
  told(link: string, request: ServerRequest, object: KubeObject): void {
    this.#chargeOf(link, request, "watch").bytes += bytesOf(object);
  }

  #chargeOf(link: string, request: ServerRequest, verb: Verb): Kept {
    const [client = link] = link.split("/");
    const { labelSelector, fieldSelector, resourceVersion } = request.query;
    const route = routeOf(request.path);
    const resource = route.kind === "resource" ? route.plural : request.path;
    const namespace = route.kind === "resource" && route.name === null ? route.namespace : null;
    const selector = labelSelector ?? fieldSelector ?? (namespace === null ? "" : `namespace ${namespace}`);
    const what = {
      verb: verb === "send" ? request.method : verb,
      resource,
      selector,
      isCached: resourceVersion !== undefined,
    };
    const key = [this.phase, client, ...Object.values(what)].join(" ");
    const known = this.#charges.get(key);
    if (known !== undefined) return known;
    const fresh = { client, phase: this.phase, what, requests: 0, refused: 0, bytes: 0 };
    this.#charges.set(key, fresh);
    return fresh;
  }
}

/** Two requests of one key are, but for writes, attempts at one thing. */
function keyOf(link: string, { method, path, query }: ServerRequest, verb: Verb): string {
  return `${link} ${verb} ${method} ${path} ${query.labelSelector ?? ""} ${query.fieldSelector ?? ""}`;
}

const bytesOf = (object: KubeObject) => Buffer.byteLength(JSON.stringify(object));
