export type HeaderLine = readonly [name: string, value: string];

/** Words at the start of the names that tell who or where a client is, to any of the backends there are. */
export const IDENTITY_PREFIXES: readonly string[] = [
  "x-instance-id",
  "x-tenant-id",
  "x-project-id",
  "x-metadata-provider",
  "x-neutron-",
  "x-ovn-",
  "x-holdfast-",
  "x-forwarded",
  "x-original-",
  "x-real-ip",
  "x-remote-",
  "x-client-ip",
  "x-cluster-client-ip",
  "x-proxyuser-ip",
  "true-client-ip",
  "cf-connecting-ip",
  "client-ip",
  "forwarded",
  "remote-",
];

/** RFC 9110, 7.6.1, and what belongs to the one connection: the next hop makes its own. */
const CONNECTION_HEADERS: ReadonlySet<string> = new Set([
  "connection",
  "content-length",
  "expect",
  "host",
  "http2-settings",
  "keep-alive",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "via",
]);

/** Change the method or the path that was judged. */
const OVERRIDES: ReadonlySet<string> = new Set([
  "x-http-method",
  "x-http-method-override",
  "x-method-override",
  "x-rewrite-url",
]);

/**
 * The client's header lines that may pass to a backend: none that says who asks, in whatever spelling, none of the
 * connection or named by its Connection header, none that cannot be named or told apart safely. Repeated lines stay.
 */
export function strippedHeaders(lines: readonly HeaderLine[]): readonly HeaderLine[] {
  const named = new Set(
    lines
      .filter(([name]) => commonName(name) === "connection")
      .flatMap(([, value]) => value.split(",").map(commonName)),
  );
  return lines.filter(([name, value]) => {
    const common = commonName(name);
    return isToken(name) && isPlain(value) && !isForbidden(common) && !named.has(common);
  });
}

function isForbidden(common: string): boolean {
  return (
    CONNECTION_HEADERS.has(common) ||
    OVERRIDES.has(common) ||
    common.startsWith("proxy-") ||
    IDENTITY_PREFIXES.some((prefix) => common.startsWith(prefix))
  );
}

/** The one name behind all spellings that CGI and WSGI take for it: upper case, all but letters and digits as "_". */
function commonName(name: string): string {
  return name
    .trim()
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, "-");
}

/** RFC 9110, 5.6.2. */
function isToken(name: string): boolean {
  return /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name);
}

function isPlain(value: string): boolean {
  return !/[\0\r\n]/.test(value);
}
