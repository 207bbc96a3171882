import { readTarget } from "../documents/request-path.ts";

/** What web servers commonly take for a request line. */
const TARGET_CHARS_MAX = 8_000;
/** TRACE would show the guest what was signed for it, and CONNECT is not for a metadata service. */
const METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);
const READING: ReadonlySet<string> = new Set(["GET", "HEAD"]);
/** What Nova's handler serves below its root: OpenStack's tree, and Amazon's by its name or by a version. */
const NOVA_TREE = /^(openstack|ec2|latest|1\.0|\d{4}-\d{2}-\d{2})$/;
/** Signs that mean the same in a path whether they are escaped or not (RFC 3986, 3.3). */
const PLAIN_IN_SEGMENT = /%(?:21|24|26|27|28|29|2A|2B|2C|3A|3B|3D|40)/g;

export type ProxyTarget =
  | { readonly kind: "path"; readonly path: string }
  | {
      readonly kind: "bad";
      readonly status: 400 | 404 | 405 | 414;
      readonly why: string;
      readonly headers?: Readonly<Record<string, string>>;
    };

/**
 * For a Service, which is its network's own: in origin form (RFC 9112, 3.2.1) and else exactly as the guest sent it,
 * because dots, slashes and escapes mean what the Service takes them for. Where the guest sent a whole URL, its
 * authority falls away: the network decides who is asked.
 */
export function serviceTarget(method: string, target: string): ProxyTarget {
  if (!METHODS.has(method)) return { kind: "bad", status: 405, why: "This method is not possible here." };
  return originForm(target);
}

/**
 * For Nova, which answers for all instances and may have more behind the same address: a path of its metadata, resolved
 * here as our own documents' paths are, so that no dots and escapes are left to whatever is in between. It is only
 * read; a password may be posted.
 */
export function novaTarget(method: string, target: string): ProxyTarget {
  const sent = originForm(target);
  if (sent.kind === "bad") return sent;
  const [, path = "", query = ""] = /^([^?]*)(.*)$/s.exec(sent.path) ?? [];
  const read = readTarget(path);
  if (read.kind === "bad") return read;
  const { segments } = read;
  const [tree, , file, ...below] = segments;
  if (tree !== undefined && !NOVA_TREE.test(tree)) return { kind: "bad", status: 404, why: "There is no such path." };
  const isPassword = tree === "openstack" && file === "password" && below.length === 0;
  if (!READING.has(method) && !(method === "POST" && isPassword)) {
    const allow = isPassword ? "GET, HEAD, POST" : "GET, HEAD";
    return { kind: "bad", status: 405, why: `Only ${allow} are possible here.`, headers: { allow } };
  }
  const end = segments.length > 0 && path.endsWith("/") ? "/" : "";
  return { kind: "path", path: `/${segments.map(escaped).join("/")}${end}${query}` };
}

const escaped = (segment: string): string =>
  encodeURIComponent(segment).replace(PLAIN_IN_SEGMENT, (sign) => decodeURIComponent(sign));

function originForm(target: string): ProxyTarget {
  if (target.length > TARGET_CHARS_MAX) return { kind: "bad", status: 414, why: "The path is too long." };
  const authority = /^https?:\/\/[^/?#]*/i.exec(target)?.[0] ?? "";
  const rest = target.slice(authority.length).replace(/#.*$/s, "");
  const path = authority !== "" && !rest.startsWith("/") ? `/${rest}` : rest;
  if (!path.startsWith("/")) return { kind: "bad", status: 400, why: "Expected a path that starts with a slash." };
  if (!/^[\x21-\x7e]+$/.test(path))
    return { kind: "bad", status: 400, why: "The path has a character that is not allowed in a URL." };
  return { kind: "path", path };
}
