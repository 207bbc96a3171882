import { createSign, generateKeyPairSync, type KeyObject, randomUUID } from "node:crypto";
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { makeCertificate } from "../certificate.ts";
import { newDirectory } from "../daemon.ts";

export const CLIENT = "holdfast-test";
const SECRET = "client-s3cret";
/** Who has every right, whatever his name. */
const GROUPS = ["system:masters"];

/**
 * An OIDC issuer over HTTPS, with an authority of its own. It renews logins while `grants`, and is asked by the API
 * server for its keys.
 */
export class OidcIssuer {
  readonly directory = newDirectory();
  /** Whether it renews; else it answers `invalid_grant`, and repeats the refresh token in the description. */
  grants = true;
  /** Each refresh token is good once, and another one comes with the ID token. */
  replaces = false;
  /** How long its ID tokens live, seconds. */
  lifeSeconds = 600;
  /** Of a client with a secret; null: it says nothing about it. */
  methods: readonly string[] | null = ["client_secret_basic", "client_secret_post"];
  /** Whether it needs the client's secret; else the client has none. */
  isConfidential = true;
  /** Of its answers to whoever renews; null: as they are meant. */
  status: number | null = null;
  /** Added to its configuration, characters. */
  padding = 0;
  /** How often it was asked to renew a login. */
  asked = 0;
  /** Every token that it has given. */
  readonly given: string[] = [];
  readonly #server: Server;
  readonly #keys = generateKeyPairSync("rsa", { modulusLength: 2048 });
  readonly #ca: string;
  #refreshToken = "";

  private constructor() {
    const { certificate, key } = makeCertificate(this.directory);
    this.#ca = certificate;
    this.#server = createServer({ cert: certificate, key }, (asked, answer) => void this.#answer(asked, answer));
    writeFileSync(this.keyFile, this.#keys.privateKey.export({ type: "pkcs8", format: "pem" }));
  }

  static async start(): Promise<OidcIssuer> {
    const issuer = new OidcIssuer();
    issuer.#server.listen(0, "127.0.0.1");
    await once(issuer.#server, "listening");
    return issuer;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    rmSync(this.directory, { recursive: true, force: true });
  }

  get url(): string {
    return `https://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** PEM, with which tokens are signed. */
  get keyFile(): string {
    return join(this.directory, "signing.pem");
  }

  /** For kube-apiserver. */
  get flags(): string[] {
    return [
      `--oidc-issuer-url=${this.url}`,
      `--oidc-client-id=${CLIENT}`,
      `--oidc-ca-file=${join(this.directory, "tls.crt")}`,
      "--oidc-username-claim=sub",
      "--oidc-username-prefix=-",
      "--oidc-groups-claim=groups",
    ];
  }

  /**
   * The `user` of a kubeconfig after a login whose ID token lives so long, seconds; it may have ended already. `more`:
   * other keys of it.
   */
  login(lifeSeconds: number, more: object = {}): object {
    this.#refreshToken = this.#remember(`refresh-${randomUUID()}`);
    const config = {
      "idp-issuer-url": this.url,
      "idp-certificate-authority-data": Buffer.from(this.#ca).toString("base64"),
      "client-id": CLIENT,
      ...(this.isConfidential ? { "client-secret": SECRET } : {}),
      "id-token": this.#remember(signedToken(this.#keys.privateKey, this.url, lifeSeconds)),
      "refresh-token": this.#refreshToken,
      ...more,
    };
    return { "auth-provider": { name: "oidc", config } };
  }

  #remember(token: string): string {
    this.given.push(token);
    return token;
  }

  async #answer(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    let body = "";
    for await (const part of asked) body += part;
    const send = (status: number, content: object) =>
      answer.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(content));
    if (asked.url === "/.well-known/openid-configuration") send(200, this.#configuration());
    else if (asked.url === "/keys")
      send(200, { keys: [{ ...this.#keys.publicKey.export({ format: "jwk" }), alg: "RS256", use: "sig" }] });
    else if (asked.url === "/token") this.#renew(asked, new URLSearchParams(body), send);
    else send(404, {});
  }

  #configuration(): object {
    return {
      issuer: this.url,
      authorization_endpoint: `${this.url}/authorize`,
      token_endpoint: `${this.url}/token`,
      jwks_uri: `${this.url}/keys`,
      response_types_supported: ["code"],
      subject_types_supported: ["public"],
      id_token_signing_alg_values_supported: ["RS256"],
      padding: "x".repeat(this.padding),
      ...(this.methods ? { token_endpoint_auth_methods_supported: this.methods } : {}),
    };
  }

  #renew({ headers }: IncomingMessage, form: URLSearchParams, send: (status: number, content: object) => void): void {
    this.asked += 1;
    if (this.status !== null) {
      send(this.status, {});
      return;
    }
    const basic = Buffer.from(headers.authorization?.slice("Basic ".length) ?? "", "base64").toString("utf8");
    const inBody = form.get("client_secret") === SECRET && this.methods?.includes("client_secret_post");
    const proven = this.isConfidential
      ? decodeURIComponent(basic) === `${CLIENT}:${SECRET}` || inBody
      : form.get("client_id") === CLIENT;
    if (!proven) {
      send(401, { error: "invalid_client" });
      return;
    }
    const token = form.get("refresh_token");
    if (!this.grants || token !== this.#refreshToken) {
      send(400, { error: "invalid_grant", error_description: `${token} is no longer good` });
      return;
    }
    if (this.replaces) this.#refreshToken = this.#remember(`refresh-${randomUUID()}`);
    send(200, {
      access_token: this.#remember(`access-${randomUUID()}`),
      token_type: "Bearer",
      expires_in: Math.max(1, this.lifeSeconds),
      id_token: this.#remember(signedToken(this.#keys.privateKey, this.url, this.lifeSeconds)),
      ...(this.replaces ? { refresh_token: this.#refreshToken } : {}),
    });
  }
}

function signedToken(key: KeyObject, issuer: string, lifeSeconds: number): string {
  const nowSeconds = Math.floor(Date.now() / 1_000);
  const claims = {
    ...{ iss: issuer, aud: CLIENT, sub: "somebody", groups: GROUPS, jti: randomUUID() },
    ...{ iat: Math.min(nowSeconds, nowSeconds + lifeSeconds), exp: nowSeconds + lifeSeconds },
  };
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const text = `${part({ alg: "RS256", typ: "JWT" })}.${part(claims)}`;
  return `${text}.${createSign("RSA-SHA256").update(text).sign(key).toString("base64url")}`;
}
