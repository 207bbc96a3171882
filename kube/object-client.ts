import {
  knownObject,
  type ObjectReading,
  permittedObject,
  readingOf,
  type WriteOutcome,
  writeOutcomeOf,
} from "./answers.ts";
import { ApiAway, type KubeApi, type KubeRequest, type Priority } from "./kube-api.ts";

/** For one read or write of housekeeping, ms: it is retried later, so it need not wait out an overload. */
export const HOUSEKEEPING_DEADLINE_MS = 10_000;

type TryGetResult = ObjectReading | { readonly kind: "away"; readonly problem: string };

/** Preconditions of a deletion: only the version that was read is deleted. */
interface Preconditions {
  readonly uid: string;
  readonly resourceVersion: string;
}

/**
 * Reads and writes of single objects of any kind, by their paths. Every read is a quorum read; every write carries the
 * version it was decided on in its body. Without a deadline an operation has HOUSEKEEPING_DEADLINE_MS. Methods throw
 * ApiAway when no definite answer came.
 */
export class ObjectClient {
  readonly #api: Pick<KubeApi, "send" | "clock">;
  readonly #priority: Priority;

  constructor(api: Pick<KubeApi, "send" | "clock">, priority: Priority = "housekeeping") {
    this.#api = api;
    this.#priority = priority;
  }

  async get(path: string, deadlineMs?: number): Promise<ObjectReading> {
    return readingOf(await this.#send({ method: "GET", path }, deadlineMs), path);
  }

  /** As `get`, but never throws ApiAway. */
  async tryGet(path: string, deadlineMs?: number): Promise<TryGetResult> {
    try {
      return await this.get(path, deadlineMs);
    } catch (error) {
      if (error instanceof ApiAway) return { kind: "away", problem: error.message };
      throw error;
    }
  }

  /** The object; null: there is none. Throws ApiAway, also if the read is refused or the kind is not served. */
  async find(path: string, deadlineMs?: number) {
    return knownObject(await this.get(path, deadlineMs), path);
  }

  /** As `find`, but throws RefusalError API_REFUSED if the server refuses. `what`: such as `read pod shop/web-0`. */
  async findPermitted(path: string, what: string, deadlineMs?: number) {
    return permittedObject(await this.get(path, deadlineMs), what);
  }

  /** Insert-if-absent. `conflict`: the name exists. */
  create(collection: string, object: object, deadlineMs?: number): Promise<WriteOutcome> {
    return this.#write({ method: "POST", path: collection, body: object }, deadlineMs);
  }

  replace(path: string, object: object, deadlineMs?: number): Promise<WriteOutcome> {
    return this.#write({ method: "PUT", path, body: object }, deadlineMs);
  }
  patch(path: string, body: object, deadlineMs?: number): Promise<WriteOutcome> {
    return this.#write({ method: "PATCH", patch: "merge", path, body }, deadlineMs);
  }

  /** A merge patch through the subresource; `body` has a `status`. */
  patchStatus(path: string, body: object, deadlineMs?: number): Promise<WriteOutcome> {
    return this.patch(`${path}/status`, body, deadlineMs);
  }

  delete(path: string, preconditions: Preconditions, deadlineMs?: number): Promise<WriteOutcome> {
    return this.#write({ method: "DELETE", path, body: { preconditions } }, deadlineMs);
  }

  async #write(request: Pick<KubeRequest, "method" | "path" | "patch" | "body">, deadlineMs?: number) {
    return writeOutcomeOf(await this.#send(request, deadlineMs), request.path);
  }

  #send(
    request: Pick<KubeRequest, "method" | "path" | "patch" | "body">,
    deadlineMs = this.#api.clock.monotonicMs() + HOUSEKEEPING_DEADLINE_MS,
  ) {
    return this.#api.send({ ...request, priority: this.#priority, deadlineMs });
  }
}
