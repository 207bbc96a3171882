import type { CountingDefinition } from "../../claims/definition-catalog.ts";
import { isImported, sourcesOf } from "../../claims/import/import-sources.ts";
import { networkObjectOf } from "../../claims/network-object.ts";
import type { DefinitionsWithPools } from "../../claims/pools/definitions-with-pools.ts";
import {
  evaluatePool,
  type PoolEvaluation,
  type PoolVerdict,
  type ServedPool,
} from "../../claims/pools/evaluate-pool.ts";
import { firstUnrecorded, poolKeyOf, poolOfHolder } from "../../claims/pools/pool-ledger.ts";
import type { Cache, CachedAllocation } from "../../claims/reasons/caches.ts";
import { recoveryMark } from "../../claims/recovery.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import type { IPNetwork } from "../../kube/objects.ts";
import { TurnBudget } from "../../kube/turn-budget.ts";
import type { AddressPoolView } from "../../kube/views/address-pool-view.ts";
import type { MachineAddressView } from "../../kube/views/machine-claim-view.ts";
import type { MachineCaches } from "./machine-caches.ts";

/** The state of a pool for its claims. */
export type PoolState = PoolVerdict | { readonly kind: "absent" };

export interface PoolsOptions {
  readonly api: KubeApi;
  readonly caches: Pick<MachineCaches, "pools" | "metal3Pools" | "claims" | "addresses" | "doubt">;
  readonly definitions: DefinitionsWithPools;
  readonly allocations: Cache<CachedAllocation>;
  /** IPNetwork objects by name. */
  readonly networks: Cache<{ readonly object: IPNetwork }>;
  /** The state of a pool is another than before. */
  readonly onChange: (poolKey: string) => void;
}

/** What the ledger and the IPAddresses tell of a pool, as of the last pass. */
interface LedgerFacts {
  /** The network that the pool named then. */
  readonly network: string;
  /** Addresses that its claims hold, by network. */
  readonly held: ReadonlyMap<string, number>;
  readonly unrecorded: string | null;
}

interface Memo extends Evaluated {
  readonly evaluation: PoolEvaluation;
}

/** What an evaluation was made from. */
interface Evaluated {
  readonly view: AddressPoolView;
  readonly definition: CountingDefinition["definition"] | null;
  readonly object: IPNetwork | null;
  readonly ledger: LedgerFacts | undefined;
  readonly editions: number;
}

const UNSEEN = "the ledger has not been searched yet for what machines have of it";

/** Every AddressPool: whether it gives addresses, and which. */
export class Pools {
  readonly #options: PoolsOptions;
  /** By UID of the pool. */
  #ledger = new Map<string, LedgerFacts>();
  readonly #memos = new Map<string, Memo>();
  /** The last state that `onChange` was called for, by key. */
  readonly #told = new Map<string, string>();
  /** Number of changes of definitions and of Metal3's pools. */
  #editions = 0;

  constructor(options: PoolsOptions) {
    this.#options = options;
  }

  /** The state of a pool, by `namespace/name`, from the newest copies. */
  stateOf(key: string): PoolState {
    const view = this.#options.caches.pools.items.get(key);
    return view === undefined ? { kind: "absent" } : this.#evaluate(view).verdict;
  }

  /** A definition, an IPNetwork or one of Metal3's pools has changed. */
  touchDefinitions(): void {
    this.#editions += 1;
  }

  /** Not concurrently. Throws ApiAway. */
  async runPass(signal: AbortSignal): Promise<void> {
    const { caches, allocations, networks } = this.#options;
    const { pools } = caches;
    if (caches.doubt !== null || !allocations.known || !networks.known) return;
    for (const known of [this.#memos, this.#told])
      for (const key of known.keys()) if (!pools.items.has(key)) known.delete(key);
    await this.#searchLedger();
    if (signal.aborted) return;
    for (const view of pools.items.values()) this.#tell(view.key, this.#evaluate(view).verdict);
  }

  #evaluate(view: AddressPoolView): PoolEvaluation {
    const { definitions, networks, caches } = this.#options;
    const counting = definitions.definitionOf(view.network);
    const object = networkObjectOf(view.network, (name) => networks.items.get(name)?.object);
    const made: Evaluated = {
      view,
      definition: counting?.definition ?? null,
      object,
      ledger: this.#ledger.get(view.uid),
      editions: this.#editions,
    };
    const memo = this.#memos.get(view.key);
    if (memo !== undefined && isSame(memo, made)) return memo.evaluation;
    const { metal3Pools } = caches;
    const evaluation = evaluatePool({
      pool: view,
      counting,
      owner: definitions.ownerOf(view.network),
      own: definitions.poolReading(view.key),
      isNameTaken: !metal3Pools.missing && metal3Pools.items.has(view.key),
      former: formerOf(view, made.ledger),
      unrecorded: this.#whyUnrecorded(made),
      recovering: whyRecovering(object),
    });
    this.#memos.set(view.key, { ...made, evaluation });
    return evaluation;
  }

  #whyUnrecorded({ view: { network }, object, ledger }: Evaluated): string | null {
    if (!isImported(object, sourcesOf(this.#options.definitions, network, null)))
      return `network ${network} is not imported yet: what was in use of it before is recorded first; if it does not end, the log of the controller tells why`;
    return ledger?.network === network ? ledger.unrecorded : UNSEEN;
  }

  #tell(key: string, verdict: PoolVerdict): void {
    const text =
      verdict.kind === "served" ? describeServed(verdict.pool) : `${verdict.reason} ${verdict.message}`;
    if (this.#told.get(key) === text) return;
    this.#told.set(key, text);
    this.#options.onChange(key);
  }

  async #searchLedger(): Promise<void> {
    const { api, caches, allocations, definitions } = this.#options;
    const machines = { claims: caches.claims.items, addresses: caches.addresses.items };
    const views = [...caches.pools.items.values()];
    const held = new Map<string, Map<string, number>>(views.map(({ key }) => [key, new Map()]));
    const budget = new TurnBudget(api.clock);
    for (const { object, address } of [...allocations.items.values()]) {
      if (budget.isSpent) await budget.nextTurn();
      if (address === null || object.status?.state !== "Bound") continue;
      const networks = held.get(poolOfHolder(object.spec.owner, machines) ?? "");
      const { network } = object.spec;
      networks?.set(network, (networks.get(network) ?? 0) + 1);
    }
    const found = new Map<string, LedgerFacts>();
    const members = membersOf(machines.addresses.values());
    for (const view of views) {
      const { network } = view;
      const definition = definitions.definitionOf(network)?.definition ?? null;
      const known = this.#ledger.get(view.uid);
      // Later ones are of claims that this pool serves: the ledger had them first.
      const isSettled = known?.network === network && known.unrecorded === null;
      const unrecorded = isSettled
        ? null
        : definition === null
          ? UNSEEN
          : firstUnrecorded(members.get(view.key) ?? [], definition, {
              claims: machines.claims,
              allocations: allocations.items,
            });
      found.set(view.uid, { network, held: held.get(view.key) ?? new Map(), unrecorded });
    }
    this.#ledger = found;
  }
}

function membersOf(addresses: Iterable<MachineAddressView>): Map<string, MachineAddressView[]> {
  const members = new Map<string, MachineAddressView[]>();
  for (const address of addresses) {
    const key = poolKeyOf(address);
    if (key === null) continue;
    const known = members.get(key);
    if (known === undefined) members.set(key, [address]);
    else known.push(address);
  }
  return members;
}

function formerOf(
  { network: present }: AddressPoolView,
  ledger: LedgerFacts | undefined,
): { readonly network: string; readonly count: number } | null {
  const [former] = [...(ledger?.held ?? [])].filter(([network]) => network !== present);
  return former === undefined ? null : { network: former[0], count: former[1] };
}

function whyRecovering(object: IPNetwork | null): string | null {
  const mark = object === null ? null : recoveryMark(object);
  return mark === null ? null : `nobody new gets an address of the network now: ${mark}`;
}

function isSame(a: Evaluated, b: Evaluated): boolean {
  return (
    a.view === b.view &&
    a.definition === b.definition &&
    a.object === b.object &&
    a.ledger === b.ledger &&
    a.editions === b.editions
  );
}

/** Of what claims depend on. */
function describeServed({ view, definition }: ServedPool): string {
  return `${view.uid} ${view.generation} ${definition.fingerprint}`;
}
