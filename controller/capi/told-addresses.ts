import type { MachineAddressView } from "../../kube/views/machine-claim-view.ts";
import type { Clock } from "../../platform/time.ts";
import type { FollowedCache } from "../followed-resources.ts";

/** After this long, ms, the followed copy counts although it does not show what was read or written. */
const LAG_MS_MAX = 10_000;

interface Known {
  readonly view: MachineAddressView;
  readonly untilMs: number;
}

/** The followed IPAddresses, with those that were just read or written and are not followed yet. */
export class ToldAddresses {
  readonly #cache: FollowedCache<MachineAddressView>;
  readonly #clock: Clock;
  readonly #newer = new Map<string, Known>();

  constructor(cache: FollowedCache<MachineAddressView>, clock: Clock) {
    this.#cache = cache;
    this.#clock = clock;
  }

  /** By `namespace/name`. */
  get(key: string): MachineAddressView | undefined {
    const newer = this.#newer.get(key);
    if (newer === undefined) return this.#cache.items.get(key);
    if (this.#clock.monotonicMs() < newer.untilMs) return newer.view;
    this.#newer.delete(key);
    return this.#cache.items.get(key);
  }

  /** One was just read or written. */
  learned(view: MachineAddressView): void {
    this.#newer.set(view.key, { view, untilMs: this.#clock.monotonicMs() + LAG_MS_MAX });
  }

  /** The followed copy of one has changed. */
  followed(view: MachineAddressView): void {
    const newer = this.#newer.get(view.key)?.view;
    // Another version of the same object is an older one: every version comes along, and this one ends the wait.
    const isOlder = newer?.uid === view.uid && newer.resourceVersion !== view.resourceVersion;
    if (!isOlder) this.#newer.delete(view.key);
  }

  gone({ key, uid }: MachineAddressView): void {
    if (this.#newer.get(key)?.view.uid === uid) this.#newer.delete(key);
  }
}
