import { usersOfMacs } from "../allocations/mac-users.ts";
import type { Caches } from "../claims/reasons/caches.ts";
import { isPod } from "../claims/reasons/facts.ts";
import { DUPLICATE_MAC_HINT, describeDuplicates, duplicateMacs } from "../ipam/duplicate-macs.ts";
import { type EventWriter, vmiObject } from "../kube/events.ts";
import type { Clock } from "../platform/time.ts";

interface DuplicateMacsOptions {
  readonly clock: Clock;
  readonly caches: Pick<Caches, "allocations" | "pods">;
  readonly events: Pick<EventWriter, "warn">;
  readonly idle: () => string | null;
}

/** Tells the pods and VMs of interfaces that have one MAC on one network, by events. See docs/decisions/0069. */
export class DuplicateMacs {
  readonly #options: DuplicateMacsOptions;

  constructor(options: DuplicateMacsOptions) {
    this.#options = options;
  }

  async runPass(signal: AbortSignal): Promise<void> {
    const { caches, idle, clock } = this.#options;
    const { allocations, pods } = caches;
    if (idle() !== null || !allocations.known || !pods.known) return;
    const users = await usersOfMacs(allocations.items.values(), clock, ({ namespace, name }) =>
      pods.items.get(`${namespace}/${name}`),
    );
    for (const group of duplicateMacs(users)) {
      if (signal.aborted || idle() !== null) return;
      const message = `${describeDuplicates(group)}; ${DUPLICATE_MAC_HINT}`;
      for (const one of group) this.#tell(one.pods, message);
    }
  }

  #tell(attached: readonly { namespace: string; name: string; uid: string }[], message: string): void {
    const { caches, events } = this.#options;
    for (const { namespace, name, uid } of attached) {
      const pod = caches.pods.items.get(`${namespace}/${name}`);
      if (pod === undefined || pod.terminal || !isPod(pod, uid)) continue;
      events.warn({ apiVersion: "v1", kind: "Pod", namespace, name, uid: pod.uid }, "DuplicateMAC", message);
      if (pod.vmi !== null) events.warn(vmiObject({ namespace, ...pod.vmi }), "DuplicateMAC", message);
    }
  }
}
