import { RefusalError, refuse } from "../ipam/refusals.ts";
import { ApiAway, CONFLICT, type KubeAnswer, NOT_FOUND } from "./kube-api.ts";

/*
 * What an answer about one object means: nobody else decides that one is absent. Lists and watches are client/.
 *
 *   status                        of a read     of a write
 *   200, 201, 202                 present       done
 *   404 that names the object     absent        absent     deleted meanwhile
 *   404 that does not             not-served    refused    the kind has no definition here
 *   409                           refused       conflict   the name exists, or the version is no longer the one read
 *   403, 422 and others           refused       refused    no retry changes that
 *   429, 5xx, 401, none           ApiAway       ApiAway    the port has tried until the deadline: nothing is known
 */

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind; readers project them
type WireObject = any;

export type ObjectReading =
  /** `serverMs`: the server's clock at the read; null when the answer had none. */
  | { readonly kind: "present"; readonly object: WireObject; readonly serverMs: number | null }
  | { readonly kind: "absent"; readonly answer: KubeAnswer }
  /** The server does not know the kind; its objects may return together with its definition. */
  | { readonly kind: "not-served"; readonly answer: KubeAnswer }
  | { readonly kind: "refused"; readonly answer: KubeAnswer };

export type WriteOutcome =
  | { readonly kind: "done"; readonly object: WireObject }
  | { readonly kind: "conflict"; readonly answer: KubeAnswer }
  | { readonly kind: "absent"; readonly answer: KubeAnswer }
  | { readonly kind: "refused"; readonly answer: KubeAnswer };

export function readingOf(answer: KubeAnswer, path: string): ObjectReading {
  const { status, body, serverMs } = answer;
  if (status === 200) return { kind: "present", object: body, serverMs };
  if (isAbsent(answer, path)) return { kind: "absent", answer };
  return { kind: status === NOT_FOUND ? "not-served" : "refused", answer };
}

/** The answer to a write of the path of one object, its status, or the collection in which it is created. */
export function writeOutcomeOf(answer: KubeAnswer, path: string): WriteOutcome {
  const { status, body } = answer;
  if (status < 300) return { kind: "done", object: body };
  if (status === CONFLICT) return { kind: "conflict", answer };
  return { kind: isAbsent(answer, path) ? "absent" : "refused", answer };
}

/** Whether a 404 is about the object: for a kind that is not served, the answer names no object. */
export function isAbsent({ status, body }: Pick<KubeAnswer, "status" | "body">, path: string): boolean {
  const name = decodeURIComponent(path.replace(/\/status$/, "").replace(/^.*\//, ""));
  return status === NOT_FOUND && body?.reason === "NotFound" && body.details?.name === name;
}

/** Whether nothing can be created any more because the namespace is being deleted. */
export function isNamespaceEnding({ body }: Pick<KubeAnswer, "body">): boolean {
  const causes = (body?.details as { readonly causes?: unknown } | undefined)?.causes;
  return Array.isArray(causes) && causes.some((cause) => cause?.reason === "NamespaceTerminating");
}

/** The object, or null if there is none. Throws ApiAway if that is not known. */
export function knownObject(reading: ObjectReading, path: string): WireObject | null {
  if (reading.kind === "present") return reading.object;
  if (reading.kind === "absent") return null;
  throw new ApiAway(`GET ${path}: ${problemOf(reading.answer)}`);
}

/** As knownObject, but throws RefusalError API_REFUSED; `what` was refused, such as `read pod shop/web-0`. */
export function permittedObject(reading: ObjectReading, what: string): WireObject | null {
  if (reading.kind === "present") return reading.object;
  if (reading.kind === "absent") return null;
  throw refusedBy(reading.answer, what);
}

/** A refusal of the API server that no retry changes (permissions, validation), as a CNI error. */
export function refusedBy(answer: KubeAnswer, what: string): RefusalError {
  const message = (answer.body as { message?: unknown } | null)?.message;
  const problem = `${answer.status} ${typeof message === "string" ? message : "without a message"}`;
  return new RefusalError(refuse("API_REFUSED", { what, problem }));
}

export function problemOf({ status, body }: Pick<KubeAnswer, "status" | "body">): string {
  const message = (body as { message?: unknown } | null)?.message;
  return typeof message === "string" && message !== "" ? `${status} ${message}` : `${status}`;
}
