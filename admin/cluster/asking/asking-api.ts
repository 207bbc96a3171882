import { isAbsent } from "../../../kube/answers.ts";
import {
  ApiAway,
  FORBIDDEN,
  type KubeAnswer,
  type KubeApi,
  type KubeRequest,
  type ListAnswer,
  type ListRequest,
  NOT_FOUND,
  UNAUTHORIZED,
  type WatchEnd,
  type WatchRequest,
} from "../../../kube/kube-api.ts";
import { ALLOCATIONS_PATH, NETWORKS_PATH } from "../../../kube/objects.ts";
import type { Clock } from "../../../platform/time.ts";
import { away, type ClusterProblem, forbidden, silent, unknownResource, unknownUser } from "./cluster-problem.ts";

/** For the request that explains a failed list, ms. */
const EXPLAIN_MS = 3_000;

/** What Holdfast does not work without; definitions of other projects may be missing, as in a management cluster. */
function isRequired(path: string): boolean {
  return [ALLOCATIONS_PATH, NETWORKS_PATH].some((one) => path === one || path.startsWith(`${one}/`));
}

export interface AskingOptions {
  readonly server: string;
  /** A list without an object for so long, ms, is given up; 0: never. */
  readonly silenceMs: number;
}

/** The Kubernetes API for interactive use: failures are thrown as ClusterProblem. */
export class AskingApi implements KubeApi {
  readonly #api: KubeApi;
  readonly #options: AskingOptions;

  constructor(api: KubeApi, options: AskingOptions) {
    this.#api = api;
    this.#options = options;
  }

  get clock(): Clock {
    return this.#api.clock;
  }

  async send(request: KubeRequest): Promise<KubeAnswer> {
    const answer = await this.#api.send(request).catch((error: unknown) => {
      throw error instanceof ApiAway ? this.#away(error) : error;
    });
    const { status, body } = answer;
    if (status === FORBIDDEN) throw forbidden(request.path, body?.message ?? "403");
    if (status === NOT_FOUND && !isAbsent(answer, request.path) && isRequired(request.path))
      throw unknownResource(request.path);
    return answer;
  }

  async list(request: ListRequest): Promise<ListAnswer> {
    const { silenceMs, server } = this.#options;
    const silence = new AbortController();
    const timer = this.#api.clock.timer(silenceMs, () => silence.abort()).unref();
    if (silenceMs === 0) timer.cancel();
    const each: ListRequest["each"] = (object) => {
      if (silenceMs > 0) timer.restart();
      request.each(object);
    };
    try {
      const answer = await this.#api.list({ ...request, each, signal: silence.signal });
      if (answer.kind === "missing" && isRequired(request.path)) throw unknownResource(request.path);
      return answer;
    } catch (error) {
      if (!(error instanceof ApiAway)) throw error;
      throw silence.signal.aborted ? silent(server, silenceMs) : await this.#explain(request.path, error);
    } finally {
      timer.cancel();
    }
  }

  watch(request: WatchRequest): Promise<WatchEnd> {
    return this.#api.watch(request);
  }

  /** A failed list has only a text: a single request distinguishes a refusal from silence. */
  async #explain(path: string, error: ApiAway): Promise<unknown> {
    try {
      const deadlineMs = this.#api.clock.monotonicMs() + EXPLAIN_MS;
      const query = { limit: "1" };
      await this.send({ method: "GET", path, query, priority: "housekeeping", deadlineMs });
      return this.#away(error);
    } catch (problem) {
      return problem;
    }
  }

  #away({ problem, status, code }: ApiAway): ClusterProblem {
    const { server } = this.#options;
    return status === UNAUTHORIZED ? unknownUser(server) : away(server, problem, code);
  }
}
