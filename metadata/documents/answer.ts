import { Buffer } from "node:buffer";

/** One HTTP answer. Header names are lower-case. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** To be done, durably, before the answer is sent. */
  readonly effect?: Effect;
}

/** The guest's encrypted password, to be kept if none is kept yet; if one is, answer 409 instead. */
interface Effect {
  readonly kind: "keepPassword";
  readonly instanceUuid: string;
  readonly password: Buffer;
}

const TEXT = "text/plain; charset=UTF-8";

export function textAnswer(body: string | Buffer, contentType = TEXT): Answer {
  return answer(200, { "content-type": contentType }, body);
}

/** 200 with names, one on each line, without a line break after the last (as Nova writes its listings). */
export function listAnswer(names: readonly string[]): Answer {
  return textAnswer(names.join("\n"));
}

export function jsonAnswer(value: unknown, contentType = "application/json"): Answer {
  return textAnswer(JSON.stringify(value), contentType);
}

export function sentence(status: number, text: string, headers: Record<string, string> = {}): Answer {
  return answer(status, { "content-type": TEXT, ...headers }, `${text}\n`);
}

export const NOT_FOUND: Answer = sentence(404, "There is nothing at this path.");

/** The answer to HEAD: the headers of GET, the length of its body among them, and no body. */
export function withoutBody({ effect: _, ...got }: Answer): Answer {
  return { ...got, body: Buffer.alloc(0) };
}

function answer(status: number, headers: Record<string, string>, body: string | Buffer): Answer {
  const bytes = typeof body === "string" ? Buffer.from(body, "utf8") : body;
  return { status, headers: { ...headers, "content-length": String(bytes.length) }, body: bytes };
}
