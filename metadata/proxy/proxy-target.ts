/** The request target for a backend, or why there is none. */
export type ProxyTarget =
  | { readonly kind: "path"; readonly path: string }
  | { readonly kind: "bad"; readonly status: 400 | 414; readonly why: string };

/** What web servers commonly take for a request line. */
const TARGET_CHARS_MAX = 8_000;

/**
 * The request target for a backend, with query: in origin form (RFC 9112, 3.2.1) and else exactly as the guest sent it,
 * because dots, slashes and escapes mean what the backend takes them for. Where the guest sent a whole URL, its
 * authority falls away: the network decides who is asked.
 */
export function proxyTarget(target: string): ProxyTarget {
  if (target.length > TARGET_CHARS_MAX) return { kind: "bad", status: 414, why: "The path is too long." };
  const authority = /^https?:\/\/[^/?#]*/i.exec(target)?.[0] ?? "";
  const rest = target.slice(authority.length).replace(/#.*$/s, "");
  const path = authority !== "" && !rest.startsWith("/") ? `/${rest}` : rest;
  if (!path.startsWith("/"))
    return { kind: "bad", status: 400, why: "Expected a path that starts with a slash." };
  if (!/^[\x21-\x7e]+$/.test(path))
    return { kind: "bad", status: 400, why: "The path has a character that is not allowed in a URL." };
  return { kind: "path", path };
}
