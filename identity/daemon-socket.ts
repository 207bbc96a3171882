import { LeanConnection, NoAnswerInTime, type Reply } from "./lean-get.ts";
import { IdentityAway } from "./source.ts";

/** The daemon answers from its own journal: a longer silence means that it hangs, ms. */
const ANSWER_MS_MAX = 5_000;
/** Requests at once; others wait. More make one daemon no faster, and a full queue of its socket refuses them. */
const CONNECTIONS_MAX = 32;

/** How a daemon is asked. */
export interface DaemonWay {
  /** GET of a path with its query. Throws IdentityAway. */
  get(path: string): Promise<Reply>;
  close(): void;
}

/** Its read-only socket, with connections that are kept. */
export class DaemonSocket implements DaemonWay {
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
