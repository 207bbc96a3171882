import type { FactKind } from "../../claims/reasons/read-facts.ts";

/** A kind of fact that verdicts rest on; `definition`: what a network is. */
export type DependencyKind = FactKind | "definition";

/** A fact, and the names of the allocations whose verdict rests on it: most have one. */
interface Fact {
  readonly kind: DependencyKind;
  readonly key: string;
  dependents: string | Set<string>;
}

const NOBODY: ReadonlySet<string> = new Set();

/** Which verdicts rest on which facts, as the last judgement of each allocation asked for them. */
export class Dependents {
  readonly #facts = new Map<DependencyKind, Map<string, Fact>>();
  readonly #byName = new Map<string, readonly Fact[]>();

  /** What a judgement asked for takes the place of what the one before it asked for. */
  set(name: string, asked: readonly { readonly kind: DependencyKind; readonly key: string }[]): void {
    const before = this.#byName.get(name) ?? [];
    const isSame = (fact: Fact, index: number) => fact.kind === asked[index]?.kind && fact.key === asked[index].key;
    if (before.length === asked.length && before.every(isSame)) return;
    const facts = asked.map(({ kind, key }) => this.#add(kind, key, name));
    for (const fact of before) if (!facts.includes(fact)) this.#drop(fact, name);
    if (facts.length === 0) this.#byName.delete(name);
    else this.#byName.set(name, facts);
  }

  of(kind: DependencyKind, key: string): Iterable<string> {
    return namesOf(this.#facts.get(kind)?.get(key));
  }

  *ofKind(kind: DependencyKind): Iterable<string> {
    for (const fact of this.#facts.get(kind)?.values() ?? []) yield* namesOf(fact);
  }

  has(kind: DependencyKind, key: string): boolean {
    return this.#facts.get(kind)?.has(key) ?? false;
  }

  #add(kind: DependencyKind, key: string, name: string): Fact {
    const ofKind = this.#facts.get(kind) ?? new Map<string, Fact>();
    this.#facts.set(kind, ofKind);
    const known = ofKind.get(key);
    if (known === undefined) {
      const fact = { kind, key, dependents: name };
      ofKind.set(key, fact);
      return fact;
    }
    if (typeof known.dependents !== "string") known.dependents.add(name);
    else if (known.dependents !== name) known.dependents = new Set([known.dependents, name]);
    return known;
  }

  #drop(fact: Fact, name: string): void {
    if (typeof fact.dependents !== "string") {
      fact.dependents.delete(name);
      if (fact.dependents.size > 0) return;
    }
    this.#facts.get(fact.kind)?.delete(fact.key);
  }
}

function namesOf(fact: Fact | undefined): Iterable<string> {
  if (fact === undefined) return NOBODY;
  return typeof fact.dependents === "string" ? [fact.dependents] : fact.dependents;
}
