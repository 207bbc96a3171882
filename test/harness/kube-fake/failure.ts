import type { KubeObject } from "./objects.ts";

/** Something that is wrong with one field, as the server says it. */
export interface FieldProblem {
  readonly reason:
    | "FieldValueRequired"
    | "FieldValueInvalid"
    | "FieldValueNotSupported"
    | "FieldValueDuplicate"
    | "FieldValueForbidden"
    | "FieldValueTooLong"
    | "NamespaceTerminating";
  readonly field: string;
  /** Without the field. */
  readonly message: string;
}

export const required = (field: string, detail = ""): FieldProblem => ({
  reason: "FieldValueRequired",
  field,
  message: `Required value${detail === "" ? "" : `: ${detail}`}`,
});
export const invalidValue = (field: string, value: unknown, detail: string): FieldProblem => ({
  reason: "FieldValueInvalid",
  field,
  message: `Invalid value: ${textOf(value)}: ${detail}`,
});
export const forbiddenField = (field: string, detail: string): FieldProblem => ({
  reason: "FieldValueForbidden",
  field,
  message: `Forbidden: ${detail}`,
});
export const notSupported = (field: string, value: unknown, values: readonly unknown[]): FieldProblem => ({
  reason: "FieldValueNotSupported",
  field,
  message: `Unsupported value: ${textOf(value)}: supported values: ${values.map((one) => `"${one}"`).join(", ")}`,
});
export const duplicate = (field: string, value: string): FieldProblem => ({
  reason: "FieldValueDuplicate",
  field,
  message: `Duplicate value: ${value}`,
});

function textOf(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  return value === null || typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** Of what, in the server's words: `ipallocations` of group `ipam.holdfast.dev`. */
export interface Qualified {
  readonly group: string;
  readonly plural: string;
  readonly kind: string;
}

/** An answer that says no: a Status object and its HTTP status. */
export class Failure extends Error {
  readonly code: number;
  readonly body: KubeObject;
  /** Of the header Retry-After. */
  readonly retryAfterSeconds: number;

  constructor(code: number, reason: string, message: string, more: KubeObject = {}) {
    super(message);
    const { metadata = {}, details } = more;
    this.code = code;
    this.retryAfterSeconds = details?.retryAfterSeconds ?? 0;
    this.body = {
      kind: "Status",
      apiVersion: "v1",
      metadata,
      status: "Failure",
      message,
      ...(reason === "" ? {} : { reason }),
      ...(details === undefined ? {} : { details }),
      code,
    };
  }
}

/** A path that leads nowhere: plain text, which a client takes for a Status without a reason. */
export function noSuchPath(): Failure {
  const failure = new Failure(404, "", "404 page not found\n");
  Object.assign(failure, { body: { kind: "Status", code: 404, message: failure.message } });
  return failure;
}

/** A version that a group does not have. */
export const noSuchVersion = () =>
  new Failure(404, "NotFound", "the server could not find the requested resource", { details: {} });

const dotted = ({ group }: Qualified, word: string) => (group === "" ? word : `${word}.${group}`);
const detailsOf = ({ group, plural }: Qualified, name: string) => ({
  ...(name === "" ? {} : { name }),
  ...(group === "" ? {} : { group }),
  kind: plural,
});

export const notFound = (of: Qualified, name: string) =>
  new Failure(404, "NotFound", `${dotted(of, of.plural)} "${name}" not found`, {
    details: detailsOf(of, name),
  });

export function alreadyExists(of: Qualified, name: string, isBeingDeleted = false): Failure {
  const why = `${isBeingDeleted ? "object is being deleted: " : ""}${dotted(of, of.plural)} "${name}" already exists`;
  return new Failure(409, "AlreadyExists", why, { details: detailsOf(of, name) });
}

export const STALE = "the object has been modified; please apply your changes to the latest version and try again";

export const conflict = (of: Qualified, name: string, why: string) =>
  new Failure(409, "Conflict", `Operation cannot be fulfilled on ${dotted(of, of.plural)} "${name}": ${why}`, {
    details: detailsOf(of, name),
  });

export function invalid(of: Qualified, name: string, problems: readonly FieldProblem[]): Failure {
  const texts = [...new Set(problems.map(({ field, message }) => `${field}: ${message}`))];
  const all = texts.length === 1 ? texts[0] : `[${texts.join(", ")}]`;
  const { group, kind } = of;
  return new Failure(422, "Invalid", `${dotted(of, kind)} "${name}" is invalid: ${all}`, {
    details: {
      ...(name === "" ? {} : { name }),
      ...(group === "" ? {} : { group }),
      kind,
      causes: problems.map(({ reason, field, message }) => ({ reason, message, field })),
    },
  });
}

export const badRequest = (message: string) => new Failure(400, "BadRequest", message);

/** `name` "" for a collection. */
export function forbidden(of: Qualified, name: string, why: string, causes?: readonly FieldProblem[]): Failure {
  const what = name === "" ? dotted(of, of.plural) : `${dotted(of, of.plural)} "${name}"`;
  const details = {
    ...detailsOf(of, name),
    ...(causes ? { causes: causes.map(({ reason, field, message }) => ({ reason, message, field })) } : {}),
  };
  return new Failure(403, "Forbidden", `${what} is forbidden: ${why}`, { details });
}

export const notAllowed = () =>
  new Failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {
    details: {},
  });

/** `next`: a token that leads on all the same. */
export const expired = (message: string, next?: string) =>
  new Failure(410, "Expired", message, next === undefined ? {} : { metadata: { continue: next } });

export const tooNew = (wanted: number, current: number) =>
  new Failure(504, "Timeout", `Timeout: Too large resource version: ${wanted}, current: ${current}`, {
    details: {
      causes: [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }],
      retryAfterSeconds: 1,
    },
  });
