import type { Clock } from "../platform/time.ts";
import type { ContentAnswer } from "./content.ts";
import { DaemonSocket, type DaemonWay } from "./daemon-socket.ts";
import { generationPathOf } from "./generation.ts";
import { IdentityCache } from "./identity-cache.ts";
import type { Reply } from "./lean-get.ts";
import { IdentityAway, type IdentitySource, type IdentitySubject } from "./source.ts";
import type { IdentityAnswer, IdentityView } from "./wire.ts";

/** The outcome of a request, for the metrics. */
export type IdentityOutcome = "found" | "nobody" | "ambiguous" | "away" | "remembered";

/** Asks the daemon of this node, over its read-only socket. */
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
