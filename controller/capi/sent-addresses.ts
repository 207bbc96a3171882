import type { MachineAddressView, MachineClaimView } from "../../kube/views/machine-claim-view.ts";
import type { Clock } from "../../platform/time.ts";
import type { FollowedCache } from "../followed-resources.ts";

/** After this long, ms, the followed copy counts although it does not show what was read or written. */
const LAG_MS_MAX = 10_000;

interface Known {
  readonly view: MachineAddressView;
  readonly untilMs: number;
}

/**
 * The followed IPAddresses, with those that were just read or written and are not followed yet; and those that are
 * gone, as long as their claims are not.
 */
export class SentAddresses {
  readonly #cache: FollowedCache<MachineAddressView>;
  readonly #clock: Clock;
  readonly #newer = new Map<string, Known>();
  readonly #gone = new Map<string, MachineAddressView>();

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

  /** What an IPAddress of this very claim told that is gone, as written; null: not known. */
  lastOf({ key, uid }: MachineClaimView): string | null {
    const gone = this.#gone.get(key);
    const isOfClaim = gone?.owners.some((one) => one.kind === "IPAddressClaim" && one.uid === uid);
    return isOfClaim ? (gone?.address ?? null) : null;
  }

  learned(view: MachineAddressView): void {
    const followed = this.#cache.items.get(view.key);
    if (followed !== undefined && isAsNew(followed, view)) this.#newer.delete(view.key);
    else this.#newer.set(view.key, { view, untilMs: this.#clock.monotonicMs() + LAG_MS_MAX });
  }

  followed(view: MachineAddressView): void {
    this.#gone.delete(view.key);
    const newer = this.#newer.get(view.key)?.view;
    // What was read or written comes along, or something newer: that ends the wait.
    if (newer !== undefined && (newer.uid !== view.uid || isAsNew(view, newer))) this.#newer.delete(view.key);
  }

  gone(view: MachineAddressView): void {
    const { key, uid } = view;
    this.#gone.set(key, view);
    if (this.#newer.get(key)?.view.uid === uid) this.#newer.delete(key);
  }

  forget(key: string): void {
    this.#gone.delete(key);
  }

  /** When the first of those is late, ms. */
  get lateMs(): number {
    return Math.min(...[...this.#newer.values()].map(({ untilMs }) => untilMs), Number.POSITIVE_INFINITY);
  }

  /** Keys of those for which the followed copy counts from now on, although it never showed what was known. */
  takeLate(): string[] {
    const nowMs = this.#clock.monotonicMs();
    const late = [...this.#newer].filter(([, { untilMs }]) => untilMs <= nowMs).map(([key]) => key);
    for (const key of late) this.#newer.delete(key);
    return late;
  }
}

/** Whether a version is not older than another one of the same object. */
function isAsNew(view: MachineAddressView, other: MachineAddressView): boolean {
  if (view.uid !== other.uid) return false;
  const [version, otherVersion] = [versionOf(view), versionOf(other)];
  if (version === null || otherVersion === null) return view.resourceVersion === other.resourceVersion;
  return version >= otherVersion;
}

/** null: the server's versions are no numbers. */
function versionOf({ resourceVersion }: MachineAddressView): bigint | null {
  return /^\d+$/.test(resourceVersion) ? BigInt(resourceVersion) : null;
}
