import type { DaemonWay } from "../../../../identity/client.ts";
import { answerRequest } from "../../../../identity/server.ts";
import { IdentityAway } from "../../../../identity/source.ts";
import type { Log } from "../../../../platform/log.ts";
import type { Machine, World } from "../../world.ts";

/** As the client of the socket waits, ms. */
const ANSWER_MS_MAX = 5_000;
/** Each way between the daemon and who asks it, ms. */
const WAY_MS_MAX = 4;

/**
 * The way to the daemon of a node, as its socket is one: what is under way when the daemon ends is lost, and one that
 * is not there refuses.
 */
export class NodeDaemonWay implements DaemonWay {
  readonly #world: World;
  readonly #machine: Machine;
  readonly #log: Log;
  #requests = 0;

  constructor(world: World, machine: Machine) {
    this.#world = world;
    this.#machine = machine;
    const line = (...parts: unknown[]) => world.story.tell(`daemon ${machine.name}`, textOf(parts));
    this.#log = { debug: () => {}, info: () => {}, warn: line, error: line };
  }

  get(path: string): Promise<{ readonly status: number; readonly body: string }> {
    const { clock, faults } = this.#world;
    this.#requests += 1;
    const place = `identity ${this.#machine.name} ${this.#requests}`;
    const wayMs = (back: string) => faults.number(`${place} ${back}`) * WAY_MS_MAX;
    const asked = this.#machine.daemon;
    if (asked === null) return Promise.reject(new IdentityAway("there is no daemon"));
    return new Promise((resolve, reject) => {
      const timeout = clock.timer(ANSWER_MS_MAX, () => reject(new IdentityAway("no answer in time")));
      const end = (settle: () => void) => {
        timeout.cancel();
        if (this.#machine.daemon === asked) settle();
        else reject(new IdentityAway("the daemon has ended"));
      };
      const answer = async () => {
        if (this.#machine.daemon !== asked) return end(() => {});
        const { core } = asked;
        const parts = { service: core.identity, content: core.content, log: this.#log };
        const reply = await answerRequest({ ...parts, notReady: () => core.notReady() }, path);
        clock.timer(wayMs("answer"), () => end(() => resolve(reply)));
      };
      clock.timer(wayMs("question"), () => void answer().catch((error) => end(() => reject(error))));
    });
  }

  close(): void {}
}

function textOf(parts: readonly unknown[]): string {
  return parts
    .map((part) => (typeof part === "string" ? part : ((part as { err?: Error }).err?.message ?? JSON.stringify(part))))
    .join(" ");
}
