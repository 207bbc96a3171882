import { existsSync } from "node:fs";
import type { RequestOptions } from "node:https";
// The package's index loads a model of every Kubernetes object, 60 MB of memory.
import { bufferFromFileOrString, KubeConfig } from "@kubernetes/client-node/dist/config.js";
import { readBounded, SMALL_FILE_BYTES_MAX } from "../../platform/files.ts";
import { SingleFlight } from "../../platform/single-flight.ts";
import type { Clock } from "../../platform/time.ts";
import { messageOf } from "../client/limit.ts";
import { completeUsers, type GivenToken, givenToken, unsupportedProvider } from "./given-token.ts";

/** Headers are put together again after this, ms: token files change, and tokens end. */
const HEADERS_MS = 5_000;
/** Whoever asks so soon after a failure, ms, is told it; then everything is read again, the kubeconfig first. */
const FAILURE_MS = 2_000;
/** After a 401 everything is read again, but not more often than this, ms: a plug-in may start a process each time. */
const RENEW_MS_MIN = 1_000;
const SERVICE_ACCOUNT_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token";

type TlsOptions = Pick<RequestOptions, "ca" | "cert" | "key" | "servername" | "rejectUnauthorized">;

/** Headers with the credentials. `generation` changes when they were read again. */
interface AuthHeaders {
  readonly headers: Readonly<Record<string, string>>;
  readonly generation: number;
}

export interface KubeConnection {
  /** With the path prefix of every request, if there is one. */
  readonly server: URL;
  /** Read once: a changed certificate authority or client certificate requires a restart. */
  readonly tls: TlsOptions;
  /** Who gives the credentials, for messages. */
  readonly credentialsFrom: string;
  /** Nearly always known already; rejects when a token file, plug-in or issuer fails. */
  authHeaders(clock: Clock): AuthHeaders | Promise<AuthHeaders>;
  /** After a 401 to headers of this generation: reads everything again. False: they are the newest there are. */
  renew(generation: number, nowMs: number): Promise<boolean>;
}

export class KubeConfigError extends Error {
  override readonly name = "KubeConfigError";
  readonly problem: string;
  readonly hint: string;

  constructor(problem: string, hint: string) {
    super(`${problem}; ${hint}`);
    this.problem = problem;
    this.hint = hint;
  }
}

/** A kubeconfig's files, of which the first has precedence, and which of its contexts; default: the current one. */
export interface KubeFiles {
  readonly files: readonly string[];
  readonly context?: string | undefined;
}

/** null: as a pod of the cluster. Throws KubeConfigError with file and hint: it is missing, no YAML or incomplete. */
export function loadKubeConfig(file: string | KubeFiles | null): KubeConnection {
  const config = read(file);
  const cluster = config.getCurrentCluster();
  return new Connection(file, config, new URL(cluster?.server as string));
}

class Connection implements KubeConnection {
  readonly server: URL;
  readonly tls: TlsOptions;
  readonly #file: string | KubeFiles | null;
  /** The one that was current at the start: another one's credentials are for another server. */
  readonly #context: string;
  #config: KubeConfig;
  #given: GivenToken | null;
  #generation = 0;
  #cached: { readonly auth: AuthHeaders; readonly untilMs: number } | null = null;
  #failed: { readonly error: unknown; readonly untilMs: number } | null = null;
  #renewedMs = Number.NEGATIVE_INFINITY;
  readonly #asking = new SingleFlight<AuthHeaders>();

  constructor(file: string | KubeFiles | null, config: KubeConfig, server: URL) {
    this.#file = file;
    this.#config = config;
    this.#context = config.getCurrentContext();
    this.#given = givenToken(config, null);
    this.server = server;
    this.tls = tlsOf(file, config);
  }

  get credentialsFrom(): string {
    return this.#given?.from ?? "the kubeconfig";
  }

  authHeaders(clock: Clock): AuthHeaders | Promise<AuthHeaders> {
    const nowMs = clock.monotonicMs();
    if (this.#cached && nowMs < this.#cached.untilMs) return this.#cached.auth;
    if (this.#failed && nowMs < this.#failed.untilMs) return Promise.reject(this.#failed.error);
    return this.#asking.run(() => this.#ask(clock));
  }

  async renew(generation: number, nowMs: number): Promise<boolean> {
    if (generation !== this.#generation) return true;
    if (nowMs - this.#renewedMs < RENEW_MS_MIN) return false;
    this.#renewedMs = nowMs;
    const before = this.#given;
    this.#readAgain();
    if (this.#given === before) before?.token.drop();
    this.#cached = null;
    this.#asking.forget();
    return true;
  }

  /** With a new object, because the old one's authenticators cache what they read. */
  #readAgain(): void {
    this.#config = readOf(this.#file, this.#context, this.server);
    this.#given = givenToken(this.#config, this.#given);
    this.#generation += 1;
    this.#failed = null;
  }

  async #ask(clock: Clock): Promise<AuthHeaders> {
    let generation = this.#generation;
    try {
      // Somebody may have corrected it, or logged in again.
      if (this.#failed) this.#readAgain();
      generation = this.#generation;
      return await this.#headers(clock, generation);
    } catch (error) {
      // Not of newer ones.
      if (generation === this.#generation) this.#failed = { error, untilMs: clock.monotonicMs() + FAILURE_MS };
      throw error;
    }
  }

  async #headers(clock: Clock, generation: number): Promise<AuthHeaders> {
    const options: RequestOptions = {};
    await this.#config.applyToHTTPSOptions(options);
    const headers: Record<string, string> = {};
    // A token file may end in a newline, which a header must not contain.
    for (const [name, value] of Object.entries(options.headers ?? {}))
      if (value !== undefined) headers[name] = String(value).trim();
    if (typeof options.auth === "string")
      headers.Authorization = `Basic ${Buffer.from(options.auth).toString("base64")}`;
    let ms = HEADERS_MS;
    if (this.#given && headers.Authorization === undefined) {
      const token = await this.#given.token.get(clock);
      headers.Authorization = `Bearer ${token.value}`;
      ms = Math.min(ms, token.ms);
    }
    const auth = { headers, generation };
    if (generation === this.#generation) this.#cached = { auth, untilMs: clock.monotonicMs() + ms };
    return auth;
  }
}

/** `context`: in place of the current one. */
function read(file: string | KubeFiles | null, context?: string): KubeConfig {
  const config = new KubeConfig();
  const where = nameOf(file);
  if (file === null) loadInCluster(config);
  else if (typeof file === "string") loadFile(config, file);
  else loadFiles(config, file);
  if (context !== undefined) config.setCurrentContext(context);
  const cluster = config.getCurrentCluster();
  if (!cluster) throw broken(where, `it has no cluster for its current context ${config.currentContext ?? ""}`.trim());
  if (!URL.canParse(cluster.server) || !/^https?:/.test(cluster.server))
    throw broken(where, `its server ${withoutCredentials(cluster.server)} is no http or https URL`);
  if (cluster.proxyUrl !== undefined) throw broken(where, "it wants a proxy (proxy-url), which is not supported");
  const provider = unsupportedProvider(config);
  if (provider !== null)
    throw new KubeConfigError(
      `kubeconfig ${where} cannot be used: its user's auth-provider ${provider} is not supported`,
      "write a user with exec, for the plug-in that came in its place, such as gke-gcloud-auth-plugin or kubelogin",
    );
  // Without TLS there is nothing to verify; the library refuses to give headers unless told so.
  if (cluster.server.startsWith("http:"))
    config.clusters = config.clusters.map((one) => ({ ...one, skipTLSVerify: true }));
  return config;
}

/** The same context again. Throws a KubeConfigError when it is gone, or its server is another one by now. */
function readOf(file: string | KubeFiles | null, context: string, server: URL): KubeConfig {
  const config = read(file, context);
  if (new URL(config.getCurrentCluster()?.server as string).href !== server.href)
    throw broken(nameOf(file), `the server of its context ${context} is another one now; start this process again`);
  return config;
}

function nameOf(file: string | KubeFiles | null): string {
  if (file === null) return "the cluster's environment";
  return typeof file === "string" ? file : file.files.join(":");
}

function loadFile(config: KubeConfig, file: string): void {
  try {
    // The library reads a file of any length.
    const text = readBounded(file, SMALL_FILE_BYTES_MAX).toString("utf8");
    config.loadFromFile(file);
    completeUsers(config, file, text);
  } catch (error) {
    throw broken(file, whyUnreadable(error));
  }
}

/** What parsers say shows lines of the file, which hold tokens and keys: of them only the line's number is taken. */
function whyUnreadable(error: unknown): string {
  const { code, mark, linePos } = error as {
    code?: unknown;
    mark?: { line?: number };
    linePos?: readonly { line?: number }[];
  };
  const line = mark?.line === undefined ? linePos?.[0]?.line : mark.line + 1;
  if (line !== undefined) return `line ${line} is not valid YAML of a kubeconfig`;
  const message = messageOf(error);
  const isHarmless = typeof code === "string" || /^\w+\[\d+\]\.\w+ is missing$/.test(message);
  return isHarmless ? message : "it is not valid YAML of a kubeconfig";
}

/** A URL can have a name and a password before its host. */
function withoutCredentials(url: string): string {
  return url.replace(/^([a-z]+:\/\/)?.*@/s, "$1");
}

/** As kubectl does: of two entries of one name the first counts; files that are not there count for nothing. */
function loadFiles(config: KubeConfig, { files, context }: KubeFiles): void {
  const there = files.length === 1 ? files : files.filter(existsSync);
  for (const file of there) {
    const one = new KubeConfig();
    loadFile(one, file);
    config.clusters = merged(config.clusters, one.clusters);
    config.users = merged(config.users, one.users);
    config.contexts = merged(config.contexts, one.contexts);
    config.currentContext ||= one.currentContext;
  }
  if (there.length === 0) throw broken(files.join(":"), "none of these files is there");
  if (context === undefined) return;
  const names = config.contexts.map(({ name }) => name);
  if (!names.includes(context))
    throw broken(there.join(":"), `it has no context ${context}, but ${names.join(", ") || "none"}`);
  config.currentContext = context;
}

function merged<One extends { readonly name: string }>(first: One[] = [], second: One[] = []): One[] {
  return [...first, ...second.filter(({ name }) => !first.some((one) => one.name === name))];
}

function loadInCluster(config: KubeConfig): void {
  if (process.env.KUBERNETES_SERVICE_HOST === undefined || !existsSync(SERVICE_ACCOUNT_TOKEN))
    throw new KubeConfigError(
      `no kubeconfig file is set and this is no pod with a service account (${SERVICE_ACCOUNT_TOKEN} or KUBERNETES_SERVICE_HOST is missing)`,
      "set the path of a kubeconfig file, or run as a pod",
    );
  config.loadFromCluster();
}

function tlsOf(file: string | KubeFiles | null, config: KubeConfig): TlsOptions {
  const cluster = config.getCurrentCluster();
  const user = config.getCurrentUser();
  const read = (path: string | undefined, data: string | undefined) => {
    try {
      return bufferFromFileOrString(path, data);
    } catch (error) {
      throw broken(nameOf(file), messageOf(error));
    }
  };
  const ca = read(cluster?.caFile, cluster?.caData);
  const cert = read(user?.certFile, user?.certData);
  const key = read(user?.keyFile, user?.keyData);
  return {
    ...(ca ? { ca } : {}),
    ...(cert ? { cert } : {}),
    ...(key ? { key } : {}),
    ...(cluster?.tlsServerName ? { servername: cluster.tlsServerName } : {}),
    ...(cluster?.skipTLSVerify ? { rejectUnauthorized: false } : {}),
  };
}

function broken(where: string, problem: string): KubeConfigError {
  return new KubeConfigError(
    `kubeconfig ${where} cannot be used: ${problem}`,
    "write one that names a reachable server and a user, e.g. with kubectl config view --flatten --minify",
  );
}
