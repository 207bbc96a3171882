import {
  type CachedAllocation,
  type Caches,
  cachedMemory,
  cachedReader,
  claimsNamed,
  type FactIndexes,
  migratedGuests,
  poolsByNamespace,
} from "../../claims/reasons/caches.ts";
import type { SweptPod } from "../../claims/reasons/fact-views.ts";
import type { Facts } from "../../claims/reasons/facts.ts";
import { type FactMemory, type NamedClaim, notedFacts } from "../../claims/reasons/read-facts.ts";
import { judge } from "../../claims/reasons/relations.ts";
import type { Rules, Verdict } from "../../claims/reasons/verdict.ts";
import { cooldownSeconds, retainSeconds } from "../../ipam/space/cooldown.ts";
import type { AddressPoolView } from "../../kube/views/address-pool-view.ts";
import { type DependencyKind, Dependents } from "./dependents.ts";

type Mark = (name: string) => void;

/**
 * Judges allocations by the caches, and knows which verdicts a change may have made another one. It holds what each
 * judgement asked for (notedFacts), so nothing that `judge` reads is forgotten here.
 */
export class Judgements {
  readonly #caches: Caches;
  readonly #rules: Rules;
  readonly #mark: Mark;
  readonly #dependents = new Dependents();
  readonly #indexes: LiveIndexes;
  readonly #facts: Facts;
  /** The rules, of which definitions are noted. */
  readonly #notedRules: Rules;
  /** What the judgement under way has asked for. */
  #asked: { readonly kind: DependencyKind; readonly key: string }[] = [];
  readonly #counts = new Map<string, { readonly word: string; count: number }>();
  readonly #counted = new Map<string, { readonly word: string; count: number }>();
  /** What definitions of networks said to a judgement, by network. */
  readonly #definitions = new Map<string, string>();
  /** Which kinds of facts were known, when that was looked at last. */
  readonly #known = new Map<DependencyKind, boolean>();

  constructor({ caches, rules, mark }: { caches: Caches; rules: Rules; mark: Mark }) {
    this.#caches = caches;
    this.#rules = rules;
    this.#mark = mark;
    this.#indexes = new LiveIndexes(caches, (claim) => this.#dependents.of("claim", claim));
    const note = (kind: DependencyKind, key: string) => this.#note(kind, key);
    const indexes = this.#indexes;
    this.#facts = notedFacts(cachedReader(caches, indexes), cachedMemory(caches, indexes), note);
    this.#notedRules = {
      ...rules,
      definitionOf: (network) => {
        note("definition", network);
        return rules.definitionOf(network);
      },
    };
  }

  /** What no object says, for judgements on other facts. */
  get memory(): FactMemory {
    return cachedMemory(this.#caches, this.#indexes);
  }

  get counts(): ReadonlyMap<string, number> {
    return new Map([...this.#counts.values()].map(({ word, count }) => [word, count]));
  }

  /** Returns the verdict, and whether the one before it said the same. */
  judge(one: CachedAllocation): { readonly verdict: Verdict; readonly isNews: boolean } {
    this.#asked = [];
    const verdict = judge(one, this.#facts, this.#notedRules);
    const former = this.#formerOf(one);
    this.#dependents.set(one.key, this.#asked);
    for (const name of former) this.#mark(name);
    return { verdict, isNews: this.#count(one.key, `${verdict.kind} ${verdict.why}`) };
  }

  /**
   * Before an allocation is judged by its owner's name for the first time: those of former claims of that name, which
   * were judged as if no pod were attached to this one.
   */
  #formerOf({ key, object }: CachedAllocation): readonly string[] {
    const { kind, namespace, name, uid } = object.spec?.owner ?? {};
    if (kind !== "IPAMClaim") return [];
    const others = [...this.#dependents.of("claim", `${namespace}/${name}`)];
    if (others.includes(key)) return [];
    const { items } = this.#caches.allocations;
    return others.filter((other) => items.get(other)?.object.spec?.owner?.uid !== uid);
  }

  forget(name: string): void {
    this.#dependents.set(name, []);
    this.#count(name, null);
  }

  allocationChanged(now: CachedAllocation | null, before: CachedAllocation | null): void {
    for (const one of [now, before]) {
      if (one === null) continue;
      this.#mark(one.key);
      this.factChanged("allocation", one.key);
      const { kind, namespace, name } = one.object.spec?.owner ?? {};
      // A former claim's address is kept for pods that are not attached to its successor's.
      if (kind === "IPAMClaim") this.factChanged("claim", `${namespace}/${name}`);
    }
    if (this.#indexes.allocationChanged(now, before)) this.#markKind("guests");
  }

  podChanged(now: SweptPod | null, before: SweptPod | null): void {
    this.#indexes.podChanged(now, before);
    for (const one of [now, before]) {
      if (one === null) continue;
      this.factChanged("pod", one.key);
      if (one.vmi !== null) this.factChanged("launchers", `${one.namespace} ${one.vmi.uid}`);
      for (const claim of claimsNamed(one)) this.factChanged("pods-naming", claim);
    }
  }

  poolChanged(namespace: string): void {
    this.#indexes.poolsChanged();
    this.factChanged("address-pools", namespace);
  }

  /** An object has changed that is looked up by its name. */
  factChanged(kind: DependencyKind, key: string): void {
    for (const name of this.#dependents.of(kind, key)) this.#mark(name);
  }

  definitionsChanged(): void {
    this.#markKind("nad");
    for (const [network, text] of [...this.#definitions]) {
      // With the next judgement by it, it is noted again.
      if (!this.#dependents.has("definition", network)) this.#definitions.delete(network);
      if (this.#definitionText(network) === text) continue;
      this.#definitions.delete(network);
      this.factChanged("definition", network);
    }
  }

  /** Facts of a kind have become known, or unknown: a definition was installed or removed, or contact was lost. */
  markBecameKnown(): void {
    const { allocations, claims, pods, nodes, machines } = this.#caches;
    const kinds: Partial<Record<DependencyKind, boolean>> = {
      ...{ allocation: allocations.known, claim: claims.known, node: nodes.known },
      ...{ pod: pods.known, "pods-naming": pods.known, launchers: pods.known },
      addressClaim: machines?.claims.known ?? false,
      address: machines?.addresses.known ?? false,
      cluster: machines?.clusters.known ?? false,
      network: machines?.networks.known ?? false,
      machineData: machines?.data?.known ?? false,
      "address-pools": machines?.pools.known ?? false,
    };
    for (const [kind, known] of Object.entries(kinds) as [DependencyKind, boolean][]) {
      if (this.#known.get(kind) === known) continue;
      this.#known.set(kind, known);
      this.#markKind(kind);
    }
  }

  #markKind(kind: DependencyKind): void {
    for (const name of this.#dependents.ofKind(kind)) this.#mark(name);
  }

  #note(kind: DependencyKind, key: string): void {
    if (this.#asked.some((one) => one.kind === kind && one.key === key)) return;
    this.#asked.push({ kind, key });
    if (kind === "definition" && !this.#definitions.has(key)) this.#definitions.set(key, this.#definitionText(key));
  }

  /** What of a definition verdicts rest on. */
  #definitionText(network: string): string {
    const definition = this.#rules.definitionOf(network);
    const ranges = definition?.rangeSets.map(({ fingerprint }) => fingerprint) ?? [];
    return [definition === null, cooldownSeconds(definition), retainSeconds(definition), ...ranges].join(" ");
  }

  /** null: it is not counted any more. Returns whether it was counted as something else before. */
  #count(name: string, word: string | null): boolean {
    const before = this.#counted.get(name);
    if (before?.word === word) return false;
    if (before !== undefined) {
      before.count -= 1;
      this.#counted.delete(name);
      if (before.count === 0) this.#counts.delete(before.word);
    }
    if (word === null) return before !== undefined;
    const entry = this.#counts.get(word) ?? { word, count: 0 };
    entry.count += 1;
    this.#counts.set(word, entry);
    this.#counted.set(name, entry);
    return true;
  }
}

class LiveIndexes implements FactIndexes {
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

  namesOf(claim: string): Iterable<string> {
    return this.#caches.namesOf?.(claim) ?? [];
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
