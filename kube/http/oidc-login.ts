import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import { dirname, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import {
  type ClientAuth,
  ClientSecretBasic,
  ClientSecretPost,
  clockTolerance,
  customFetch,
  discovery,
  None,
  ResponseBodyError,
  refreshTokenGrant,
} from "openid-client";
import { readBounded, SMALL_FILE_BYTES_MAX } from "../../platform/files.ts";
import { hearSocketErrors } from "../../platform/socket.ts";
import { type Clock, isoTime } from "../../platform/time.ts";
import { savedTokens, saveTokens } from "./saved-tokens.ts";
import type { Token } from "./user-token.ts";

/** For one answer of the issuer, seconds. */
const ANSWER_SECONDS_MAX = 10;
/** A wrong clock loses no refresh token that was exchanged: when the ID token ends is judged after that. */
const CLOCK_SECONDS_MAX = 1e9;
/** Of one answer: a document or tokens, some KiB. */
const ANSWER_CHARS_MAX = 1 << 18;

/** `users[].user.auth-provider.config` of a kubeconfig whose provider is `oidc`. */
export interface OidcConfig {
  readonly "idp-issuer-url"?: string;
  readonly "client-id"?: string;
  readonly "client-secret"?: string;
  readonly "id-token"?: string;
  readonly "refresh-token"?: string;
  readonly "idp-certificate-authority"?: string;
  readonly "idp-certificate-authority-data"?: string;
}

/** The login of a kubeconfig's user at an OIDC issuer: an ID token, and a refresh token for the next ones. */
export class OidcLogin {
  readonly #config: OidcConfig;
  readonly #from: { readonly file: string; readonly user: string };
  #idToken: string;
  #refreshToken: string | undefined;

  constructor(config: OidcConfig, from: { readonly file: string; readonly user: string }) {
    this.#config = config;
    this.#from = from;
    this.#idToken = config["id-token"] ?? "";
    this.#refreshToken = config["refresh-token"];
  }

  /** Its URL, which can have a name and a password before the host. */
  get issuer(): string {
    return String(this.#config["idp-issuer-url"]).replace(/^([a-z]+:\/\/)?.*@/s, "$1");
  }

  /** What the file says; null: nothing. */
  get first(): Token | null {
    return this.#idToken === "" ? null : tokenOf(this.#idToken);
  }

  /** Whether this is still the login of the file: nobody has corrected it or logged in again since. */
  isOf(config: OidcConfig, user: string): boolean {
    const { "id-token": idToken, "refresh-token": refreshToken, ...others } = config;
    const { "id-token": firstIdToken, "refresh-token": firstRefreshToken, ...first } = this.#config;
    return (
      user === this.#from.user &&
      isDeepStrictEqual(others, first) &&
      [firstIdToken, this.#idToken].includes(idToken) &&
      [firstRefreshToken, this.#refreshToken].includes(refreshToken)
    );
  }

  /** Rejects with issuer, what went wrong and the remedy: no token, and of what the issuer said only its error code. */
  async renew(clock: Clock): Promise<Token> {
    const { "idp-issuer-url": issuer, "client-id": clientId, "client-secret": secret } = this.#config;
    const taken = this.#takeSaved();
    if (taken !== null && (taken.endMs === null || clock.wallMs() < taken.endMs)) return taken;
    const refreshToken = this.#refreshToken;
    if (!issuer || !clientId || !refreshToken)
      throw new Error(
        "the ID token has ended, and to renew it users[].user.auth-provider.config of the kubeconfig lacks " +
          `${!issuer ? "idp-issuer-url" : !clientId ? "client-id" : "refresh-token"}; log in again`,
      );
    try {
      const ca = this.#authority();
      const options = {
        timeout: ANSWER_SECONDS_MAX,
        [customFetch]: (url: string, init: Init) => ask(url, init, ca),
      };
      const metadata = { [clockTolerance]: CLOCK_SECONDS_MAX };
      const server = await discovery(new URL(issuer), clientId, metadata, clientBy(secret), options);
      const given = await refreshTokenGrant(server, refreshToken);
      // Only an issuer that replaces refresh tokens gives one, and takes the old one no more, whatever else it gave.
      this.#refreshToken = given.refresh_token ?? refreshToken;
      this.#idToken = given.id_token ?? this.#idToken;
      const tokens = { "id-token": this.#idToken, "refresh-token": this.#refreshToken };
      saveTokens(this.#from, refreshToken, tokens);
      if (given.id_token === undefined) throw new NoIdToken();
    } catch (error) {
      throw new Error(`the OIDC issuer ${this.issuer} did not renew the ID token: ${whyNot(error)}`);
    }
    const token = tokenOf(this.#idToken);
    if (token.endMs !== null && token.endMs <= clock.wallMs())
      throw new Error(
        `the OIDC issuer ${this.issuer} gave an ID token that ended at ${isoTime(token.endMs)}; set this machine's clock`,
      );
    return token;
  }

  /** What another process was given: an issuer may end a login whose refresh token comes twice. null: nothing. */
  #takeSaved(): Token | null {
    const saved = savedTokens(this.#from);
    const refreshToken = saved?.["refresh-token"];
    if (refreshToken === undefined || refreshToken === this.#refreshToken) return null;
    if (refreshToken === this.#config["refresh-token"]) return null;
    this.#refreshToken = refreshToken;
    this.#idToken = saved?.["id-token"] ?? "";
    return this.#idToken === "" ? null : tokenOf(this.#idToken);
  }

  #authority(): Buffer | null {
    const { "idp-certificate-authority": file, "idp-certificate-authority-data": data } = this.#config;
    if (file) return readBounded(resolve(dirname(this.#from.file), file), SMALL_FILE_BYTES_MAX);
    return data ? Buffer.from(data, "base64") : null;
  }
}

class NoIdToken extends Error {}

type Init = {
  readonly method?: string;
  readonly headers?: object;
  readonly body?: unknown;
  readonly signal?: AbortSignal | null | undefined;
};

/** Only codes: messages and descriptions can repeat what was sent. */
function whyNot(error: unknown): string {
  if (error instanceof NoIdToken) return "its answer has none; ask for the scope openid when you log in";
  if (error instanceof ResponseBodyError && /^[\w-]{1,64}$/.test(error.error))
    return `${error.error}; log in again, and correct client-id and client-secret if that does not help`;
  for (let cause = error, depth = 0; cause instanceof Error && depth < 5; cause = cause.cause, depth += 1) {
    const { code } = cause as NodeJS.ErrnoException;
    if (typeof code === "string" && !code.startsWith("OAUTH_")) return `${code}; ${CHECK}`;
  }
  const { code } = error as NodeJS.ErrnoException;
  return `${typeof code === "string" ? code : "no valid answer"}; ${CHECK}`;
}

const CHECK = "check idp-issuer-url and idp-certificate-authority of the kubeconfig, and that the issuer answers";

/** With its secret, where there is one, in the way that the issuer names, or else that of the standard. */
function clientBy(secret: string | undefined): ClientAuth {
  if (!secret) return None();
  return (server, client, body, headers) => {
    const inBody = server.token_endpoint_auth_methods_supported?.includes("client_secret_post");
    return (inBody ? ClientSecretPost : ClientSecretBasic)(secret)(server, client, body, headers);
  };
}

/** Node's own fetch knows no certificate authority but the system's. */
function ask(url: string, { method = "GET", headers = {}, body, signal }: Init, ca: Buffer | null): Promise<Response> {
  return new Promise((resolve, reject) => {
    const options = {
      method,
      headers: { ...headers },
      agent: false,
      ...(ca && { ca }),
      ...(signal && { signal }),
    };
    const sent = hearSocketErrors(
      request(url, options, (answer) => {
        bodyOf(answer)
          .then((content) => {
            const type = answer.headers["content-type"] ?? "";
            // Throws where there is no body, as with 204.
            return new Response(content, {
              status: answer.statusCode ?? 0,
              headers: { "content-type": type },
            });
          })
          .then(resolve, reject);
      }),
    );
    sent.on("error", reject);
    sent.end(body === undefined || body === null ? undefined : String(body));
  });
}

async function bodyOf(answer: IncomingMessage): Promise<string> {
  let text = "";
  for await (const part of answer.setEncoding("utf8")) {
    text += part;
    if (text.length > ANSWER_CHARS_MAX) throw new Error("too long");
  }
  return text;
}

/** A JWT says when it ends. Whether it is one that counts is the API server's to say. */
function tokenOf(value: string): Token {
  try {
    const { exp } = JSON.parse(Buffer.from(value.split(".")[1] ?? "", "base64url").toString("utf8"));
    return { value, endMs: typeof exp === "number" ? exp * 1_000 : null };
  } catch {
    return { value, endMs: null };
  }
}
