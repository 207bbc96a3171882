import type { ApiServer } from "../../../kube/fake/api-server.ts";
import { collectGarbage } from "../../../kube/fake/controllers/garbage-collector.ts";
import { endNamespaces } from "../../../kube/fake/controllers/namespace-controller.ts";
import type { ClusterParts } from "./parts.ts";

/** They look so long after something has changed, ms: from, to. */
const DELAY_MS = [50, 1_500] as const;

/** Kubernetes' garbage collector and namespace controller: some time after each change, unless they are away. */
export class Caretakers {
  readonly #parts: ClusterParts;
  readonly #server: ApiServer;
  #rounds = 0;
  #isDue = false;
  #isAway = false;

  constructor(parts: ClusterParts, server: ApiServer) {
    this.#parts = parts;
    this.#server = server;
    server.etcd.listen(() => this.wake());
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
    if (this.#isAway) return;
    const collected = await collectGarbage(this.#server);
    const ended = await endNamespaces(this.#server);
    if (collected > 0) this.#parts.counts.add("api.garbage-collected");
    if (ended > 0) this.#parts.counts.add("api.namespace-emptied");
  }
}
