import { type KubeAnswer, KubeApi } from "../harness/kube-api.ts";
import { pause } from "../harness/wait.ts";

const TRY_AGAIN_MS = 500;
const CONFLICT = 409;
const NOT_FOUND = 404;
/** 429: too many requests. The others: the server or its etcd is away. */
const PASSING: ReadonlySet<number> = new Set([429, 500, 502, 503, 504]);

/** A client that repeats each request until the API server has answered it. */
export class PatientApi extends KubeApi {
  readonly #api: KubeApi;

  constructor(api: KubeApi) {
    super();
    this.#api = api;
  }

  override async call(
    method: string,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<KubeAnswer> {
    let isRepeated = false;
    for (;;) {
      const answer = await this.#api.call(method, path, body, headers).catch(() => null);
      if (answer !== null && !isPassing(method, answer)) {
        const existing =
          isRepeated && method === "POST" && answer.status === CONFLICT ? await this.#created(path, body) : answer;
        if (existing !== null) return existing;
      }
      isRepeated = true;
      await pause(TRY_AGAIN_MS);
    }
  }

  override close(): void {
    this.#api.close();
  }

  /** What an earlier attempt created, whose answer was lost; null: it is not there. */
  async #created(path: string, body: unknown): Promise<KubeAnswer | null> {
    const { name } = (body as { readonly metadata: { readonly name: string } }).metadata;
    const answer = await this.call("GET", `${path}/${name}`);
    return answer.status === NOT_FOUND ? null : answer;
  }
}

/** Whether another attempt may be answered otherwise. A server that has just started lacks some definitions. */
function isPassing(method: string, { status, body }: KubeAnswer): boolean {
  if (status === NOT_FOUND) return method === "POST" || body?.details?.name === undefined;
  return PASSING.has(status) || (method === "PATCH" && status === CONFLICT);
}
