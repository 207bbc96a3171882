import {
  type CachedAllocation,
  type Caches,
  claimsNamed,
  type FactIndexes,
  migratedGuests,
  poolsByNamespace,
} from "../../claims/reasons/caches.ts";
import type { SweptPod } from "../../claims/reasons/fact-views.ts";
import type { NamedClaim } from "../../claims/reasons/read-facts.ts";
import type { AddressPoolView } from "../../kube/views/address-pool-view.ts";

export class LiveIndexes implements FactIndexes {
  readonly #caches: Caches;
  /** Names of the allocations that were judged by a claim of this `namespace/name`. */
  readonly #judgedByClaim: (claim: string) => Iterable<string>;
  readonly #podsByClaim = new Map<string, Set<string>>();
  /** Allocations with a guest that came from another namespace: hardly ever any. */
  readonly #withGuests = new Map<string, CachedAllocation>();
  #guests: FactIndexes["guestRunsElsewhere"] | null = null;
  #pools: ReturnType<typeof poolsByNamespace> | null = null;

  constructor(caches: Caches, judgedByClaim: (claim: string) => Iterable<string>) {
    this.#caches = caches;
    this.#judgedByClaim = judgedByClaim;
  }

  /** Returns whether a guest from another namespace came or went. */
  allocationChanged(now: CachedAllocation | null, before: CachedAllocation | null): boolean {
    const [hasGuests, hadGuests] = [now, before].map((one) => one !== null && hasMigrated(one));
    if (hasGuests && now !== null) this.#withGuests.set(now.key, now);
    else if (hadGuests && before !== null) this.#withGuests.delete(before.key);
    if (hasGuests || hadGuests) this.#guests = null;
    return hasGuests === true || hadGuests === true;
  }

  podChanged(now: SweptPod | null, before: SweptPod | null): void {
    if (before !== null) {
      for (const claim of claimsNamed(before)) {
        const pods = this.#podsByClaim.get(claim);
        pods?.delete(before.key);
        if (pods?.size === 0) this.#podsByClaim.delete(claim);
      }
    }
    if (now === null) return;
    for (const claim of claimsNamed(now)) {
      const pods = this.#podsByClaim.get(claim);
      if (pods === undefined) this.#podsByClaim.set(claim, new Set([now.key]));
      else pods.add(now.key);
    }
  }

  poolsChanged(): void {
    this.#pools = null;
  }

  podsNaming(claim: string): SweptPod[] {
    return [...(this.#podsByClaim.get(claim) ?? [])].flatMap((key) => this.#caches.pods.items.get(key) ?? []);
  }

  addressPools(namespace: string): readonly AddressPoolView[] {
    this.#pools ??= poolsByNamespace(this.#caches.machines?.pools.items ?? new Map());
    return this.#pools.get(namespace) ?? [];
  }

  /** An allocation that was not judged yet counts as one that the pod is not attached to: what may be kept is kept. */
  attachedToClaim(pod: Pick<SweptPod, "uid" | "staticUid">, { key, uid }: NamedClaim): boolean {
    for (const name of this.#judgedByClaim(key)) {
      const { spec, status } = this.#caches.allocations.items.get(name)?.object ?? {};
      if (spec?.owner?.uid !== uid) continue;
      const users = Object.values(status?.attachments ?? {}).map((one) => one.pod?.uid);
      if (users.some((user) => user !== undefined && (user === pod.uid || user === pod.staticUid))) return true;
    }
    return false;
  }

  guestRunsElsewhere(namespace: string, claim: string, network: string): boolean {
    this.#guests ??= migratedGuests(this.#withGuests);
    return this.#guests(namespace, claim, network);
  }
}

function hasMigrated({ object }: CachedAllocation): boolean {
  return Object.values(object.status?.attachments ?? {}).some((one) => one.migratedFrom !== undefined);
}
