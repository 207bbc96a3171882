import { timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";

/** Why a request is refused: status, and what the reader can do. */
interface Refused {
  readonly status: 400 | 403 | 405;
  readonly message: string;
}

/** Whoever knows the token from the printed URL. */
export type Verdict =
  | { readonly kind: "welcome"; readonly url: URL }
  /** The token was in the URL: it becomes a cookie, and the URL is asked for again without it. */
  | { readonly kind: "enter"; readonly location: string; readonly cookie: string }
  | ({ readonly kind: "refused" } & Refused);

/**
 * Decides who may read the page. Only this machine can connect, but on it every user and every web site that a browser of
 * it shows: so each request has to bring the token, and has to be meant for this server (DNS rebinding).
 */
export class Visitors {
  readonly #token: string;
  readonly #port: number;

  constructor(token: string, port: number) {
    this.#token = token;
    this.#port = port;
  }

  judge({ method, headers, url = "/" }: IncomingMessage): Verdict {
    const hosts = ["127.0.0.1", "localhost"].map((name) => `${name}:${this.#port}`);
    if (!hosts.includes(headers.host ?? ""))
      return forbidden(`this server is ${hosts[0]} and nobody else: open the URL that holdfast ui printed`);
    if (headers.origin !== undefined && !hosts.some((host) => headers.origin === `http://${host}`))
      return forbidden("other sites cannot ask this server");
    if (method !== "GET" && method !== "HEAD")
      return { kind: "refused", status: 405, message: "this page only reads: GET and HEAD" };
    // Not as a link of this server: `//evil.example` would be one to another.
    const asked = URL.parse(`http://${hosts[0]}${url}`);
    if (asked === null) return { kind: "refused", status: 400, message: "this is no path of this server" };
    const given = asked.searchParams.get("t");
    if (given !== null && this.#isToken(given)) {
      asked.searchParams.delete("t");
      // A path that begins with two slashes would be another server's.
      const location = `${asked.pathname.replace(/^\/+/, "/")}${asked.search}`;
      return {
        kind: "enter",
        location,
        cookie: `${this.#cookie}=${this.#token}; HttpOnly; SameSite=Strict; Path=/`,
      };
    }
    if (cookiesOf(headers.cookie).some(([name, value]) => name === this.#cookie && this.#isToken(value)))
      return { kind: "welcome", url: asked };
    const message =
      "open the URL that holdfast ui printed: it has a token, and only who knows it can read this";
    return { kind: "refused", status: 403, message };
  }

  /** Cookies do not know ports: two servers of one machine need two names. */
  get #cookie(): string {
    return `holdfast-ui-${this.#port}`;
  }

  #isToken(text: string): boolean {
    const [given, wanted] = [Buffer.from(text), Buffer.from(this.#token)];
    return given.length === wanted.length && timingSafeEqual(given, wanted);
  }
}

function forbidden(message: string): Verdict {
  return { kind: "refused", status: 403, message };
}

function cookiesOf(header = ""): [name: string, value: string][] {
  return header.split(";").map((one) => {
    const [name = "", ...value] = one.trim().split("=");
    return [name, value.join("=")];
  });
}
