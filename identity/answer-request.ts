import { parse } from "node:querystring";
import { type Refusal, refuse } from "../ipam/refusals.ts";
import { statusOf } from "../platform/api-error.ts";
import type { Log } from "../platform/log.ts";
import { refusalOf } from "../store/refusal-of.ts";
import { type ContentService, readContentQuery } from "./content.ts";
import { readIdentityQuery } from "./query.ts";
import type { IdentityService } from "./service.ts";

/** What answers are made from. */
export interface IdentityRequestParts {
  readonly service: IdentityService;
  /** null: in Kubernetes, which keeps content itself. */
  readonly content: ContentService | null;
  readonly log: Log;
  notReady(): string | null;
}

/** One answer of the socket. */
export interface IdentityReply {
  readonly status: number;
  readonly type: "application/json" | "text/plain";
  readonly body: string;
}

/** Answers a GET for a path with its query. Never rejects. */
export async function answerRequest(
  { service, content, log, notReady }: IdentityRequestParts,
  url: string,
): Promise<IdentityReply> {
  const cut = url.indexOf("?");
  const path = cut < 0 ? url : url.slice(0, cut);
  switch (path) {
    case "/healthz":
      return { status: 200, type: "text/plain", body: "ok\n" };
    case "/readyz": {
      const reason = notReady();
      return reason === null
        ? { status: 200, type: "text/plain", body: "ready\n" }
        : refusalReply(refuse("NOT_READY", { reason }));
    }
    case "/v1/identity":
    case "/v1/content":
      if (path === "/v1/content" && content === null) break;
      try {
        const query = parse(cut < 0 ? "" : url.slice(cut + 1));
        const answered =
          content !== null && path === "/v1/content"
            ? content.answer(readContentQuery(query))
            : await service.answer(readIdentityQuery(query));
        return { status: 200, type: "application/json", body: JSON.stringify(answered) };
      } catch (error) {
        const refusal = refusalOf(error);
        if (refusal.code === "INTERNAL_ERROR") log.error({ err: error as Error, url }, refusal.message);
        return refusalReply(refusal);
      }
  }
  return refusalReply(refuse("NOT_FOUND", { what: `route GET ${path}` }));
}

/** A refusal as it is answered. */
export function refusalReply({ code, message, hint }: Refusal): IdentityReply {
  const body = JSON.stringify({ code, message, hint });
  return { status: statusOf(code), type: "application/json", body };
}
