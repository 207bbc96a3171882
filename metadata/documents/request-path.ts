type RequestPath =
  | { readonly kind: "path"; readonly segments: readonly string[] }
  | { readonly kind: "bad"; readonly status: 400 | 414; readonly why: string };

/** Far longer than any path that is served; cloud-init's are below 80. */
const TARGET_CHARS_MAX = 2_048;

/**
 * Reads a request target (RFC 9112, 3.2): origin form, or absolute form whose authority is not looked at, because the
 * network decides who is asked and not the client. The query falls away. Escapes are decoded once and then dots and
 * slashes are resolved, so that one thing has one path whatever its spelling; what climbs above the root stays there.
 */
export function readTarget(target: string): RequestPath {
  if (target.length > TARGET_CHARS_MAX) return { kind: "bad", status: 414, why: "The path is too long." };
  const path = withoutAuthority(target).replace(/[?#].*$/s, "");
  if (!path.startsWith("/")) return bad("Expected a path that starts with a slash.");
  const decoded = decode(path);
  if (decoded === null) return bad("The path has an escape that does not stand for UTF-8.");
  // biome-ignore lint/suspicious/noControlCharactersInRegex: nothing that is served has one
  if (/[\u0000-\u001f\u007f]/.test(decoded)) return bad("The path has a control character.");
  return { kind: "path", segments: resolve(decoded) };
}

function withoutAuthority(target: string): string {
  const absolute = /^https?:\/\/[^/?#]*/i.exec(target);
  if (!absolute) return target;
  const rest = target.slice(absolute[0].length);
  return rest.startsWith("/") ? rest : `/${rest}`;
}

function decode(path: string): string | null {
  try {
    return decodeURIComponent(path);
  } catch {
    return null;
  }
}

function resolve(path: string): readonly string[] {
  const segments: string[] = [];
  for (const segment of path.split("/")) {
    if (segment === "..") segments.pop();
    else if (segment !== "" && segment !== ".") segments.push(segment);
  }
  return segments;
}

function bad(why: string): RequestPath {
  return { kind: "bad", status: 400, why };
}
