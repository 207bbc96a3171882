import { setMaxListeners } from "node:events";
import type { ApiServer } from "../api-server.ts";
import { overTheWire } from "../objects.ts";
import {
  type AttemptOutcome,
  type Clock,
  Contact,
  type HasClock,
  type KubeRequest,
  type KubeTransport,
  type ListPageOutcome,
  type ListPageRequest,
  type WatchAttempt,
  type WatchEnd,
} from "../port.ts";
import type { ServerRequest, User } from "../requests.ts";
import { type Arrival, type Attempt, Exchange } from "./exchange.ts";
import { FakeWatch } from "./fake-watch.ts";
import type { Link } from "./link.ts";

interface FakeTransportOptions extends HasClock {
  readonly server: () => ApiServer;
  readonly user: User;
  readonly link: Link;
}

/** Attempts that reach the server by a call, over a link that may lose them. Nobody waits for a turn. */
export class FakeTransport implements KubeTransport {
  readonly clock: Clock;
  readonly contact: Contact;
  readonly watches = new Set<FakeWatch>();
  readonly #options: FakeTransportOptions;
  readonly #exchange: Exchange;
  readonly #life = new AbortController();

  constructor(options: FakeTransportOptions) {
    this.clock = options.clock;
    this.contact = new Contact(options.clock);
    this.#options = options;
    this.#exchange = new Exchange(options.link, options.clock);
    // Every request under way listens to it.
    setMaxListeners(0, this.#life.signal);
  }

  get life(): AbortSignal {
    return this.#life.signal;
  }

  close(): void {
    this.#life.abort();
  }

  inTurn<T>(_request: KubeRequest, work: () => Promise<T>): Promise<T> {
    return work();
  }

  exchange({ method, path, query = {}, body, patch }: KubeRequest, limitMs: number): Promise<AttemptOutcome> {
    const request: ServerRequest = {
      user: this.#options.user,
      method,
      path,
      query,
      ...(body === undefined ? {} : { body: overTheWire(body) }),
      ...(patch === undefined ? {} : { patch }),
    };
    const serve = this.#serve;
    return this.#once(request, { verb: "send", limitMs, signals: [this.life], serve });
  }

  async page(request: ListPageRequest, silenceMs: number): Promise<ListPageOutcome> {
    const signals = [request.signal, this.life];
    const attempt: Attempt = { verb: "list", limitMs: silenceMs, signals, serve: this.#serve };
    const arrival = await this.#once(this.#get(request), attempt);
    if (arrival.kind === "nothing" || arrival.status !== 200) return arrival;
    const { body, cutAfter } = arrival;
    const items = body.items.slice(0, cutAfter);
    request.arrived?.(Buffer.byteLength(JSON.stringify({ ...body, items })));
    for (const object of items) request.each(object);
    if (cutAfter !== undefined) return { kind: "nothing", problem: "aborted" };
    const { resourceVersion, continue: next = "" } = body.metadata;
    return { kind: "read", resourceVersion, next };
  }

  async watch(request: WatchAttempt, openMs: number): Promise<WatchEnd | AttemptOutcome> {
    const { link, server } = this.#options;
    const asked = this.#get(request);
    const watch = new FakeWatch({
      request,
      told: (object) => link.told?.(asked, object),
      life: this.life,
      arrival: () => this.#exchange.wait(link.eventMs?.()),
    });
    const arrival = await this.#once(asked, {
      verb: "watch",
      limitMs: openMs,
      signals: [request.signal, this.life],
      serve: async () => watch.open(server(), asked),
    });
    if (request.signal.aborted || this.life.aborted || arrival.kind === "nothing" || arrival.status !== 200) {
      watch.end({ kind: "closed" });
      return arrival;
    }
    this.watches.add(watch);
    return watch.follow().finally(() => this.watches.delete(watch));
  }

  readonly #serve = (request: ServerRequest) => this.#options.server().answer(request);

  #get({ path, query = {}, metadataOnly = false }: ListPageRequest | WatchAttempt) {
    return { user: this.#options.user, method: "GET", path, query, metadataOnly } as const;
  }

  async #once(request: ServerRequest, attempt: Attempt): Promise<Arrival> {
    const arrival = await this.#exchange.once(request, attempt);
    if (arrival.kind === "answered") this.contact.answered(arrival.status);
    else this.contact.trouble();
    return arrival;
  }
}
