import { setMaxListeners } from "node:events";
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { createSecureContext } from "node:tls";
import { hearSocketErrors } from "../../platform/socket.ts";
import type { Clock } from "../../platform/time.ts";
import { Contact } from "../client/contact.ts";
import { ExchangeFailure, failureOf, type Limit, messageOf } from "../client/limit.ts";
import type { OnRequest } from "../kube-api.ts";
import { UNAUTHORIZED } from "../kube-api.ts";
import type { KubeConnection } from "./kube-config.ts";

/** Requests beyond this number wait for a connection: reads have no queue of their own. */
const CONNECTIONS_MAX = 64;
/** Idle connections that are kept: as many as there are writes in flight at once. */
const IDLE_CONNECTIONS_MAX = 32;
/** TCP keep-alive, ms: a watch may be silent for a minute, and its peer may be gone. */
const TCP_KEEP_ALIVE_MS = 30_000;

export interface HttpExchange {
  readonly verb: string;
  readonly method: string;
  readonly path: string;
  readonly query?: Readonly<Record<string, string>> | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly limit: Limit;
}

/** HTTP over few, long-lived connections; watches have their own. By Node's client: see docs/decisions/0049. */
export class Connections {
  readonly contact: Contact;
  readonly #connection: KubeConnection;
  readonly #server: ReturnType<typeof partsOf>;
  readonly #clock: Clock;
  readonly #onRequest: OnRequest | undefined;
  readonly #agent: HttpAgent;
  readonly #watchAgent: HttpAgent;
  readonly #life = lifeOf();

  constructor(connection: KubeConnection, clock: Clock, onRequest: OnRequest | undefined) {
    this.#connection = connection;
    this.#server = partsOf(connection.server);
    this.#clock = clock;
    this.contact = new Contact(clock);
    this.#onRequest = onRequest;
    const secure = connection.server.protocol === "https:";
    // Created once: with a context per connection, each would hold the authorities and the certificate again. They are
    // not passed to the agent either, which would put them into the key of its connection pool at every request.
    const { ca: _ca, cert: _cert, key: _key, ...checks } = connection.tls;
    const tls = secure ? { ...checks, secureContext: createSecureContext(connection.tls) } : {};
    const agent = (options: object): HttpAgent => {
      const made = secure ? new HttpsAgent({ ...options, ...tls }) : new HttpAgent(options);
      // All connections lead to one server: Node would put a name together from thirty options for each request.
      made.getName = () => "";
      return made;
    };
    const keepAliveMsecs = TCP_KEEP_ALIVE_MS;
    // The newest connection first: it is the least likely to have been closed meanwhile.
    this.#agent = agent({
      keepAlive: true,
      keepAliveMsecs,
      maxSockets: CONNECTIONS_MAX,
      maxFreeSockets: IDLE_CONNECTIONS_MAX,
      scheduling: "lifo",
    });
    this.#watchAgent = agent({ keepAlive: true, keepAliveMsecs, maxFreeSockets: 0 });
  }

  get life(): AbortSignal {
    return this.#life.signal;
  }

  /**
   * Sends and waits for the answer's headers. A stale connection is replaced at once, and a 401 is retried once with
   * credentials read again. Throws ExchangeFailure. Ends with the exchange's limit, also later.
   */
  async open(exchange: HttpExchange): Promise<IncomingMessage> {
    let auth = await this.#auth(exchange.limit);
    let response = await this.#openFresh(exchange, auth.headers);
    if (response.statusCode !== UNAUTHORIZED) return response;
    const nowMs = this.#clock.monotonicMs();
    if (await this.#connection.renew(auth.generation, nowMs).catch(() => false)) {
      response.resume();
      auth = await this.#auth(exchange.limit);
      response = await this.#openFresh(exchange, auth.headers);
    }
    return response;
  }

  /** Drops idle connections: they may lead to a server that is gone. */
  dropIdle(): void {
    for (const sockets of Object.values(this.#agent.freeSockets))
      for (const socket of [...(sockets ?? [])]) socket.destroy();
  }

  close(): void {
    this.#life.abort();
    this.#agent.destroy();
    this.#watchAgent.destroy();
  }

  async #auth(limit: Limit) {
    try {
      const auth = this.#connection.authHeaders(this.#clock);
      // A plug-in may hang.
      return auth instanceof Promise ? await limit.race(auth) : auth;
    } catch (error) {
      const { credentialsFrom } = this.#connection;
      if (error instanceof ExchangeFailure)
        throw new ExchangeFailure(`${messageOf(error)} from ${credentialsFrom}, which gives the credentials`);
      throw new ExchangeFailure(`the credentials cannot be read: ${messageOf(error)}`);
    }
  }

  async #openFresh(exchange: HttpExchange, auth: Readonly<Record<string, string>>): Promise<IncomingMessage> {
    try {
      return await this.#openOnce(exchange, auth);
    } catch (error) {
      if (!(error instanceof ExchangeFailure && error.stale) || exchange.limit.isOver) throw error;
      this.dropIdle();
      return this.#openOnce(exchange, auth);
    }
  }

  async #openOnce(exchange: HttpExchange, auth: Readonly<Record<string, string>>): Promise<IncomingMessage> {
    const startMs = this.#clock.monotonicMs();
    try {
      const response = await this.#request(exchange, auth);
      this.contact.answered(response.statusCode ?? 0);
      this.#onRequest?.(exchange.verb, response.statusCode ?? 0, this.#clock.monotonicMs() - startMs);
      return response;
    } catch (error) {
      this.contact.trouble();
      this.#onRequest?.(exchange.verb, "away", this.#clock.monotonicMs() - startMs);
      throw error;
    }
  }

  #request(exchange: HttpExchange, auth: Readonly<Record<string, string>>): Promise<IncomingMessage> {
    const { hostname, port, prefix, request } = this.#server;
    const search = exchange.query ? `?${new URLSearchParams(exchange.query)}` : "";
    const { body, limit } = exchange;
    const options = {
      hostname,
      port,
      method: exchange.method,
      path: `${prefix}${exchange.path}${search}`,
      agent: exchange.verb === "WATCH" ? this.#watchAgent : this.#agent,
      headers: {
        ...auth,
        "user-agent": "holdfast",
        ...exchange.headers,
        ...(body === undefined ? {} : { "content-length": Buffer.byteLength(body) }),
      },
    };
    return new Promise((resolve, reject) => {
      const sent = hearSocketErrors(request(options, resolve));
      sent.on("error", (error) => {
        const { code } = error as NodeJS.ErrnoException;
        const stale = sent.reusedSocket && (code === "ECONNRESET" || code === "EPIPE");
        reject(limit.isOver ? limit.reasonOf(error) : failureOf(error, stale));
      });
      // Not by the option `signal`, for which Node watches both streams of every request for their end.
      limit.whenOver((reason) => sent.destroy(reason));
      sent.end(body);
    });
  }
}

function partsOf({ protocol, hostname, port, pathname }: URL) {
  const secure = protocol === "https:";
  return {
    // An IPv6 address has brackets in a URL only.
    hostname: hostname.replace(/^\[|\]$/g, ""),
    port: port || (secure ? 443 : 80),
    prefix: pathname.replace(/\/$/, ""),
    request: secure ? httpsRequest : httpRequest,
  };
}

/** Every request under way listens to it, however many there are. */
function lifeOf(): AbortController {
  const life = new AbortController();
  setMaxListeners(0, life.signal);
  return life;
}
