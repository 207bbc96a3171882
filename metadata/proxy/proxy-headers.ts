import { type HeaderLine, strippedHeaders } from "../../guests/haproxy/client-headers.ts";
import { LISTENER_HEADERS } from "../../guests/haproxy/listener-headers.ts";
import { identityHeaders, type SignedIdentity } from "./signature.ts";

export type Headers = Readonly<Record<string, string | readonly string[]>>;

/** Of the connection, not of the answer (RFC 9110, 7.6.1), or made anew by our own server. */
const CONNECTION_ANSWER_HEADERS: ReadonlySet<string> = new Set([
  "connection",
  "content-length",
  "date",
  "keep-alive",
  "proxy-authenticate",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** A guest that says what it has already would be answered "not modified", which is no answer that passes. */
const CONDITIONS: ReadonlySet<string> = new Set([
  "if-match",
  "if-modified-since",
  "if-none-match",
  "if-unmodified-since",
]);

/** What every service is called by its guests. */
const HOST = "169.254.169.254";

/** As Neutron's agents send them: none of the client's passes. Throws TypeError for a value that none can carry. */
export function novaHeaders(identity: SignedIdentity, secret: Buffer): Headers {
  return identityHeaders(identity, secret);
}

/** The client's own headers without all that tell who asks, and ours. Throws TypeError as above. */
export function serviceHeaders(
  client: readonly HeaderLine[],
  identity: SignedIdentity,
  secret: Buffer | null,
): Headers {
  const passing = strippedHeaders(client).filter(([name]) => !CONDITIONS.has(name.toLowerCase()));
  return {
    ...grouped(passing),
    host: HOST,
    ...identityHeaders(identity, secret),
    [LISTENER_HEADERS.network]: identity.network,
  };
}

/** Of Nova's answers only the body's type is passed on, as by Neutron's agents. */
export function novaAnswerHeaders(answer: readonly HeaderLine[]): Headers {
  return grouped(answer.filter(([name]) => name.toLowerCase() === "content-type"));
}

export function serviceAnswerHeaders(answer: readonly HeaderLine[]): Headers {
  return grouped(answer.filter(([name]) => !CONNECTION_ANSWER_HEADERS.has(name.toLowerCase())));
}

/** `["A", "1", "B", "2"]` as Node has them. */
export function headerLines(raw: readonly string[]): readonly HeaderLine[] {
  const lines: HeaderLine[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) lines.push([raw[at] as string, raw[at + 1] as string]);
  return lines;
}

/** Names in lower case; one that was sent again has all its values. */
function grouped(lines: readonly HeaderLine[]): Headers {
  // Without prototype: a header may be called __proto__.
  const headers: Record<string, string[]> = Object.create(null);
  for (const [name, value] of lines) {
    const key = name.toLowerCase();
    headers[key] = [...(headers[key] ?? []), value];
  }
  return headers;
}
