import type { ApiServer } from "../../harness/kube-fake/api-server.ts";
import { collectGarbage } from "../../harness/kube-fake/controllers/garbage-collector.ts";
import { endNamespaces } from "../../harness/kube-fake/controllers/namespace-controller.ts";
import type { ClusterParts } from "./parts.ts";

/** They look so long after something has changed, ms: from, to. */
const DELAY_MS = [50, 1_500] as const;

const EVENTS = "/events";
/** The API server forgets events after so long, ms. */
const EVENT_TTL_MS = 600_000;

/** Kubernetes' garbage collector and namespace controller: some time after each change, unless they are away. */
export class Caretakers {
  readonly #parts: ClusterParts;
  readonly #server: ApiServer;
  #rounds = 0;
  #isDue = false;
  #isAway = false;
  /** Events in the order in which they were written for the first time. */
  readonly #events: { readonly key: string; readonly atMs: number }[] = [];

  constructor(parts: ClusterParts, server: ApiServer) {
    this.#parts = parts;
    this.#server = server;
    server.etcd.listen(({ storage, key, previous }) => {
      if (storage === EVENTS && previous === null) this.#events.push({ key, atMs: parts.clock.monotonicMs() });
      else if (storage !== EVENTS) this.wake();
    });
  }

  /** Whether kube-controller-manager does not run. */
  set isAway(isAway: boolean) {
    this.#isAway = isAway;
    this.wake();
  }

  get isAway(): boolean {
    return this.#isAway;
  }

  wake(): void {
    if (this.#isDue || this.#isAway) return;
    this.#isDue = true;
    const { clock, faults } = this.#parts;
    this.#rounds += 1;
    const [from, to] = DELAY_MS;
    const ms = from + Math.floor(faults.number(`caretakers ${this.#rounds}`) * (to - from));
    clock.timer(ms, () => void this.#work());
  }

  async #work(): Promise<void> {
    this.#isDue = false;
    this.#forgetEvents();
    if (this.#isAway) return;
    const collected = await collectGarbage(this.#server);
    const ended = await endNamespaces(this.#server);
    if (collected > 0) this.#parts.counts.add("api.garbage-collected");
    if (ended > 0) this.#parts.counts.add("api.namespace-emptied");
  }

  #forgetEvents(): void {
    const { etcd } = this.#server;
    const untilMs = this.#parts.clock.monotonicMs() - EVENT_TTL_MS;
    while ((this.#events[0]?.atMs ?? Number.POSITIVE_INFINITY) < untilMs) {
      const { key } = this.#events.shift() as { key: string };
      if (etcd.get(EVENTS, key) !== null) etcd.delete(EVENTS, key);
    }
  }
}
