import { IdentityClient, type IdentityOutcome } from "../../../../identity/client.ts";
import type { IdentitySubject } from "../../../../identity/source.ts";
import type { IdentityView } from "../../../../identity/wire.ts";
import { BackendProxy } from "../../../../metadata/proxy/proxy.ts";
import { type AnswerContext, answerGuest } from "../../../../metadata/server/answer-guest.ts";
import { GuestMemory, Seeds, TokenRules } from "../../../../metadata/server/guest-memory.ts";
import { createKubeTenantSource, type KubeTenants } from "../../../../metadata/tenant/create-kube-tenant-source.ts";
import { type Log, QuietLog } from "../../../../platform/log.ts";
import type { Machine, World } from "../../world.ts";
import { NodeDaemonWay } from "./daemon-way.ts";

const KEY_BYTES = 32;
const NOWHERE = "/nonexistent/identity.sock";

interface MetadataServer {
  readonly tenants: KubeTenants;
  readonly context: AnswerContext;
}

/** What a guest is told. */
export interface Told {
  readonly status: number;
  readonly body: string;
}

/**
 * What answers guests of one node: the daemon's answers as the product's client reads them, and a metadata server over
 * it.
 */
export class SimulatedMetadata {
  readonly #world: World;
  readonly #machine: Machine;
  #identities: IdentityClient | null = null;
  #server: MetadataServer | null = null;
  #starts = 0;

  constructor(world: World, machine: Machine) {
    this.#world = world;
    this.#machine = machine;
  }

  /** Who that is, by what is remembered and else by the daemon; null: nobody. Throws IdentityAway. */
  find(subject: IdentitySubject): Promise<IdentityView | null> {
    this.#identities ??= this.#newIdentities();
    return this.#identities.find(subject);
  }

  /** The document of a path, as the listener passes the question on. */
  async ask(subject: IdentitySubject, url: string): Promise<Told> {
    const server = this.#server ?? this.#startServer();
    this.#server = server;
    const { answer } = await answerGuest(
      {
        incoming: { method: "GET", url, headers: {} },
        lines: [],
        origin: { subject, source: null, claimed: null, clientForwarded: false },
        body: Buffer.alloc(0),
        left: () => new AbortController().signal,
      },
      server.context,
    );
    if (answer === null) throw new Error("the guest has not left");
    return { status: answer.status, body: `${answer.body}` };
  }

  /** Its process is killed. The next question finds a new one. */
  kill(): void {
    if (this.#server !== null) this.#world.cluster.cut(this.#link);
    this.#server = null;
    this.#identities = null;
  }

  get #link(): string {
    return `metadata ${this.#machine.name}/${this.#starts}`;
  }

  #newIdentities(): IdentityClient {
    const { clock, counts } = this.#world;
    const way = new NodeDaemonWay(this.#world, this.#machine);
    const onOutcome = (outcome: IdentityOutcome) => counts.add(`metadata.identity.${outcome}`);
    // Nothing is remembered where there is no such file.
    return new IdentityClient(this.#machine.identitySocket ?? NOWHERE, clock, onOutcome, way);
  }

  #startServer(): MetadataServer {
    const { cluster, clock, story } = this.#world;
    const { name } = this.#machine;
    this.#starts += 1;
    const quiet = () => {};
    const log: Log = { debug: quiet, info: quiet, warn: quiet, error: quiet };
    const tenants = createKubeTenantSource({
      kubeconfig: null,
      node: name,
      log,
      clock,
      secret: () => null,
      connect: cluster.connect("holdfast-metadata", this.#link, name),
    });
    void tenants.start();
    story.tell(`metadata server ${name}`, "starts");
    const quietLog = new QuietLog(log, clock);
    const key = clock.randomBytes(KEY_BYTES);
    const context: AnswerContext = {
      identities: { find: (subject) => this.find(subject), close: async () => {} },
      tenants,
      proxy: new BackendProxy({ timeoutMs: 1_000, log: quietLog, clock, onOutcome: () => {} }),
      defaultBackend: () => null,
      keys: () => [key],
      tokenRules: new TokenRules(),
      memory: new GuestMemory(clock),
      seeds: new Seeds(clock),
      log: quietLog,
      clock,
    };
    return { tenants, context };
  }
}
