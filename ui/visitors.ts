import { timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";

interface Refused {
  readonly status: 400 | 401 | 403 | 405;
  readonly message: string;
}

export type Verdict =
  /** A file of the page, which is the same for everybody: it has no secret. */
  | { readonly kind: "file"; readonly url: URL }
  /** What the source knows, for whoever sent the token. */
  | { readonly kind: "data"; readonly url: URL }
  | ({ readonly kind: "refused" } & Refused);

const SCHEME = /^Bearer +([\w-]+)$/i;

/**
 * Decides who may read. Only this machine can connect, but that is each of its users, and each web site that a browser
 * on it shows. So data needs the token, in a header that no browser adds by itself, and each request has to be meant
 * for this server (DNS rebinding) and to come from this page.
 */
export class Visitors {
  readonly #token: string;
  /** The first one is that of the printed URL. */
  readonly #hosts: readonly string[];

  constructor({ token, host, port }: { readonly token: string; readonly host: string; readonly port: number }) {
    this.#token = token;
    this.#hosts = [host, "127.0.0.1", "localhost"].map((name) => `${name}:${port}`);
  }

  judge({ method, headers, url = "/" }: IncomingMessage): Verdict {
    const { host = "", origin } = headers;
    if (!this.#hosts.includes(host)) {
      // The name of the printed URL is for its reader alone.
      const [, address] = this.#hosts;
      return refused(403, `this server is ${address} and nobody else: open the URL that holdfast ui printed`);
    }
    if ((origin !== undefined && origin !== `http://${host}`) || isForeign(headers))
      return refused(403, "other sites cannot ask this server");
    if (method !== "GET" && method !== "HEAD") return refused(405, "this page only reads: GET and HEAD");
    // Not as a link of this server: `//evil.example` would be one to another.
    const asked = URL.parse(`http://${host}${url}`);
    if (asked === null) return refused(400, "this is no path of this server");
    if (asked.pathname !== "/stream" && !asked.pathname.startsWith("/api/")) return { kind: "file", url: asked };
    const [, given = ""] = SCHEME.exec(headers.authorization ?? "") ?? [];
    if (this.#isToken(given)) return { kind: "data", url: asked };
    return refused(401, "open the URL that holdfast ui printed: only a page that was opened by it can read this");
  }

  #isToken(text: string): boolean {
    const [given, wanted] = [Buffer.from(text), Buffer.from(this.#token)];
    return given.length === wanted.length && timingSafeEqual(given, wanted);
  }
}

/** Whether another site asks, which includes one of another port: it may lead the reader here, and nothing else. */
function isForeign(headers: IncomingMessage["headers"]): boolean {
  const { "sec-fetch-site": site, "sec-fetch-dest": destination } = headers;
  return (site === "same-site" || site === "cross-site") && destination !== "document";
}

function refused(status: Refused["status"], message: string): Verdict {
  return { kind: "refused", status, message };
}
