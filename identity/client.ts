import type { Clock } from "../platform/time.ts";
import type { ContentAnswer } from "./content.ts";
import { generationPathOf } from "./generation.ts";
import { IdentityCache } from "./identity-cache.ts";
import { LeanConnection, NoAnswerInTime, type Reply } from "./lean-get.ts";
import { IdentityAway, type IdentitySource, type IdentitySubject } from "./source.ts";
import type { IdentityAnswer, IdentityView } from "./wire.ts";

/** The daemon answers from its own journal: a longer silence means that it hangs, ms. */
const ANSWER_MS_MAX = 5_000;
/** Requests at once; others wait. More make one daemon no faster, and a full queue of its socket refuses them. */
const CONNECTIONS_MAX = 32;

/** The outcome of a request, for the metrics. */
export type IdentityOutcome = "found" | "nobody" | "ambiguous" | "away" | "remembered";

export class IdentityClient implements IdentitySource {
  readonly #daemon: DaemonWay;
  readonly #clock: Clock;
  readonly #onOutcome: (outcome: IdentityOutcome) => void;
  readonly #remembered: IdentityCache;

  /** `daemon`: the way to it; default: over its socket. */
  constructor(
    socketPath: string,
    clock: Clock,
    onOutcome: (outcome: IdentityOutcome) => void = () => {},
    daemon: DaemonWay = new DaemonSocket(socketPath),
  ) {
    this.#daemon = daemon;
    this.#clock = clock;
    this.#onOutcome = onOutcome;
    this.#remembered = new IdentityCache(generationPathOf(socketPath), clock);
  }

  async find(subject: IdentitySubject): Promise<IdentityView | null> {
    const query = queryOf(subject);
    const remembered = this.#remembered.get(query);
    if (remembered !== undefined) {
      this.#onOutcome("remembered");
      return remembered;
    }
    const asked = { generation: this.#remembered.generation, atMs: this.#clock.monotonicMs() };
    try {
      const { outcome, identity } = read(await this.#daemon.get(`/v1/identity?${query}&here=true`));
      this.#onOutcome(outcome);
      this.#remembered.put(query, identity, asked);
      return identity;
    } catch (error) {
      this.#onOutcome("away");
      throw error;
    }
  }

  /** What the claims of a container that runs here name for its guest; null: this daemon keeps no content. */
  async contentOf(container: string): Promise<ContentAnswer | null> {
    const { status, body } = await this.#daemon.get(`/v1/content?container=${encodeURIComponent(container)}`);
    if (status === 200) return JSON.parse(body) as ContentAnswer;
    // A daemon of a cluster.
    if (status === 404) return null;
    throw new IdentityAway(`the daemon answered ${status}: ${sentenceOf(body)}`);
  }

  /** Why the daemon cannot be asked now; null: it can. */
  async notReady(): Promise<string | null> {
    try {
      const { status, body } = await this.#daemon.get("/readyz");
      return status === 200 ? null : `the daemon is not ready: ${sentenceOf(body)}`;
    } catch (error) {
      return (error as Error).message;
    }
  }

  async close(): Promise<void> {
    this.#daemon.close();
  }
}

/** The parameters of the daemon's question: another subject has others. */
function queryOf(subject: IdentitySubject): string {
  const network = `network=${encodeURIComponent(subject.network)}`;
  switch (subject.kind) {
    case "attachment": {
      const { containerId, interface: name } = subject;
      return `container=${encodeURIComponent(containerId)}&interface=${encodeURIComponent(name)}&${network}`;
    }
    case "pod":
      return `pod-uid=${encodeURIComponent(subject.uid)}&${network}`;
    case "address":
      return `${network}&address=${encodeURIComponent(subject.address)}`;
  }
}

/** Throws IdentityAway if it is not an answer of this version's daemon, such as that of one that is starting. */
function read({ status, body }: Reply): {
  readonly outcome: Exclude<IdentityOutcome, "away" | "remembered">;
  readonly identity: IdentityView | null;
} {
  if (status === 200) {
    const { identity } = JSON.parse(body) as IdentityAnswer;
    // Former or future holders of the address are not the guest that sends the request.
    const isThere = identity.state === "running" || identity.state === "migrating";
    return isThere ? { outcome: "found", identity } : { outcome: "nobody", identity: null };
  }
  if (status === 404) return { outcome: "nobody", identity: null };
  // Several identities are behind the address: none of them is answered, as by Neutron's agent.
  if (status === 409) return { outcome: "ambiguous", identity: null };
  throw new IdentityAway(`the daemon answered ${status}: ${sentenceOf(body)}`);
}

function sentenceOf(body: string): string {
  try {
    return String((JSON.parse(body) as { message?: unknown }).message ?? body);
  } catch {
    return body.slice(0, 200).trim();
  }
}

export interface DaemonWay {
  /** GET of a path with its query. Throws IdentityAway. */
  get(path: string): Promise<Reply>;
  close(): void;
}

/** Its read-only socket, with connections that are kept. */
class DaemonSocket implements DaemonWay {
  readonly #socketPath: string;
  readonly #idle: LeanConnection[] = [];
  readonly #open = new Set<LeanConnection>();
  #busyCount = 0;
  readonly #queue: (() => void)[] = [];

  constructor(socketPath: string) {
    this.#socketPath = socketPath;
  }

  async get(path: string): Promise<Reply> {
    if (this.#busyCount >= CONNECTIONS_MAX) await new Promise<void>((resolve) => this.#queue.push(resolve));
    else this.#busyCount += 1;
    try {
      return await this.#ask(path);
    } finally {
      // Its place goes to the next in the queue.
      const next = this.#queue.shift();
      if (next) next();
      else this.#busyCount -= 1;
    }
  }

  async #ask(path: string): Promise<Reply> {
    const kept = this.#idle.pop();
    try {
      return await this.#getOn(kept ?? this.#connect(), path);
    } catch (error) {
      // The failure of an idle connection says nothing about the daemon, which may have been restarted.
      if (kept === undefined || error instanceof NoAnswerInTime) throw this.#away(error as Error);
    }
    try {
      return await this.#getOn(this.#connect(), path);
    } catch (error) {
      throw this.#away(error as Error);
    }
  }

  async #getOn(connection: LeanConnection, path: string): Promise<Reply> {
    const reply = await connection.get(path);
    this.#idle.push(connection);
    return reply;
  }

  #connect(): LeanConnection {
    const connection: LeanConnection = new LeanConnection(this.#socketPath, {
      timeoutMs: ANSWER_MS_MAX,
      ended: () => {
        this.#open.delete(connection);
        const at = this.#idle.indexOf(connection);
        if (at >= 0) this.#idle.splice(at, 1);
      },
    });
    this.#open.add(connection);
    return connection;
  }

  #away({ code, message }: NodeJS.ErrnoException): IdentityAway {
    return new IdentityAway(`the identity socket ${this.#socketPath} cannot be asked: ${code ?? message}`);
  }

  close(): void {
    for (const connection of this.#open) connection.close();
  }
}
