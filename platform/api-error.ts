import type { FastifyReply } from "fastify";
import type { Refusal, RefusalCode } from "../ipam/refusals.ts";

/** The body of every error of the socket API. */
export interface ApiError {
  readonly code: RefusalCode;
  readonly message: string;
  readonly hint: string;
}

const STATUS: Partial<Record<RefusalCode, number>> = {
  READ_ONLY: 403,
  NOT_FOUND: 404,
  IN_USE: 409,
  ADDRESS_TAKEN: 409,
  DEFINITION_CONFLICT: 409,
  CLAIM_TERMINATING: 409,
  ADDRESS_AMBIGUOUS: 409,
  NOT_READY: 503,
  STORAGE_FAILED: 503,
  API_AWAY: 503,
  INTERNAL_ERROR: 500,
};

export function statusOf(code: RefusalCode): number {
  return STATUS[code] ?? 400;
}

export function sendApiError(reply: FastifyReply, refusal: Refusal): FastifyReply {
  const { code, message, hint } = refusal;
  return reply.code(statusOf(code)).send({ code, message, hint } satisfies ApiError);
}
