/*
 * claims/pools/: what an AddressPool gives to machine claims (Cluster API's IPAddressClaims)
 *
 *   pool-space      which addresses a pool gives
 *   evaluate-pool   whether it gives any now, and if not, why
 *   pool-ledger     what is held of it
 *   pool-status     what `kubectl get addresspools` shows
 */

import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import type { Refusal } from "../../ipam/refusals.ts";
import type { Address, Family } from "../../ipam/space/address.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import type { IntervalSet } from "../../ipam/space/interval-set.ts";
import { placeOf } from "../../ipam/space/range-set.ts";
import type { AddressPoolView } from "../../kube/views/address-pool-view.ts";
import type { NadReading } from "../../networks/nad-reading.ts";
import type { CountingDefinition } from "../../networks/nad-verdict.ts";
import { describeNetworkOwner, type NetworkOwner, NODES_OWN } from "../../networks/network-owner.ts";
import { describeDefinition } from "../../networks/pool-definition.ts";
import { type PoolProblem, type PoolSpace, readPoolSpace, type WaitingReason } from "./pool-space.ts";

export interface ServedPool extends Omit<PoolSpace, "gateway" | "offered"> {
  readonly view: AddressPoolView;
  readonly definition: NetworkDefinition;
  readonly family: Family;
  /** What claims of the pool get by themselves: without what is preallocated to one of them. */
  readonly usable: IntervalSet;
  gatewayFor(address: Address): string | null;
  prefixLengthFor(address: Address): number | null;
  readonly dnsServers: readonly string[];
}

export type PoolVerdict =
  | { readonly kind: "served"; readonly pool: ServedPool }
  | { readonly kind: "waiting"; readonly reason: WaitingReason; readonly message: string };

export interface PoolFacts {
  readonly pool: AddressPoolView;
  /** The definition of its network in force; null: nothing defines it. */
  readonly counting: CountingDefinition | null;
  /** Of the network; null: it has none yet. */
  readonly owner: NetworkOwner | null;
  /** What its own `spec.definition` means; null: it has none. */
  readonly own: Exclude<NadReading, { kind: "not-ours" }> | null;
  /** A definition of its network that is invalid, where nothing defines it; null: there is none. */
  readonly broken: BrokenDefinition | null;
  /** Metal3 has an IPPool of the same name in the namespace. */
  readonly isNameTaken: boolean;
  /** Another network of which claims of this pool hold addresses; null: there is none. */
  readonly former: { readonly network: string; readonly count: number } | null;
  /** What was in use before and is not recorded yet, a sentence; null: everything is. */
  readonly unrecorded: string | null;
  /** Addresses of its network that others use without holding them; the pool gives none of them. */
  readonly avoided: readonly Address[];
  /** Why nobody new gets an address of the network; null: that is not so. */
  readonly recovering: string | null;
}

/** Which definition it is, such as `NetworkAttachmentDefinition shop/blue`, and why it is refused. */
interface BrokenDefinition {
  readonly by: string;
  readonly refusal: Refusal;
}

/** `space`: the pool's addresses, as far as its keys tell them; also of a pool that gives none now. */
export interface PoolEvaluation {
  readonly verdict: PoolVerdict;
  readonly space: PoolSpace | null;
  readonly definition: NetworkDefinition | null;
}

/** Whether a pool gives addresses, and which. Pure. */
export function evaluatePool(facts: PoolFacts): PoolEvaluation {
  const { pool, counting } = facts;
  const definition = counting?.definition ?? null;
  const { space, problem } =
    definition === null ? { space: null, problem: notFound(facts) } : readPoolSpace(pool, definition, facts.avoided);
  const why = whyRefused(facts) ?? problem ?? whyNotNow(facts);
  if (why !== null) return { verdict: { kind: "waiting", ...why }, space, definition };
  if (space === null || definition === null) throw new Error(`pool ${pool.key} without a problem has no space`);
  return { verdict: { kind: "served", pool: servedPool(pool, definition, space) }, space, definition };
}

/** In the order in which an administrator would mend them: the pool's name, its network, its definition. */
function whyRefused({ pool, counting, own, isNameTaken, former }: PoolFacts): PoolProblem | null {
  if (pool.deletionTimestamp !== null)
    return {
      reason: "Deleting",
      message: `the AddressPool is being deleted since ${pool.deletionTimestamp}`,
    };
  if (isNameTaken) {
    const message = `metadata.name is ${JSON.stringify(pool.name)}: Metal3 has an IPPool of this name in namespace ${pool.namespace} and answers the same claims; give the AddressPool another name, or delete the IPPool`;
    return { reason: "NameTaken", message };
  }
  if (former !== null) {
    const message = `spec.network is ${JSON.stringify(pool.network)}: claims of this pool hold addresses of network ${former.network} (${former.count} in all); set it back to ${JSON.stringify(former.network)}, or delete those claims first`;
    return { reason: "NetworkChanged", message };
  }
  if (own === null || counting === null) return null;
  const conflict = (message: string) => ({ reason: "DefinitionConflict", message }) as const;
  if (own.kind === "broken") return conflict(own.refusal.message);
  if (own.definition.fingerprint === counting.definition.fingerprint) return null;
  return conflict(
    `spec.definition differs from that of ${describeDefinition(counting.by)}, which defines network ${pool.network}; make them equal, or remove spec.definition`,
  );
}

function notFound({ pool, own, owner, broken }: PoolFacts): PoolProblem {
  if (own?.kind === "broken") return { reason: "DefinitionInvalid", message: own.refusal.message };
  const network = JSON.stringify(pool.network);
  if (broken !== null) {
    const message = `spec.network is ${network}: ${broken.by} defines it and is invalid: ${broken.refusal.message}; correct it, or give spec.definition`;
    return { reason: "DefinitionInvalid", message };
  }
  const reason = "NetworkNotFound";
  const move = `move the network (holdfast networks own ${pool.network} --namespace NAMESPACE)`;
  const message =
    owner === null || owner.definedIn === NODES_OWN
      ? `spec.network is ${network}: no NetworkAttachmentDefinition defines it; create one, or give spec.definition`
      : `spec.network is ${network}: it belongs to ${describeNetworkOwner(owner)}, where no NetworkAttachmentDefinition defines it now; create it there again, give spec.definition, or ${move}`;
  return { reason, message };
}

function whyNotNow({ pool, unrecorded, recovering }: PoolFacts): PoolProblem | null {
  if (pool.paused) {
    const message = "the annotation cluster.x-k8s.io/paused is set; remove it";
    return { reason: "Paused", message };
  }
  if (unrecorded !== null) return { reason: "NotImported", message: unrecorded };
  return recovering === null ? null : { reason: "Recovering", message: recovering };
}

function servedPool(view: AddressPoolView, definition: NetworkDefinition, space: PoolSpace): ServedPool {
  const { gateway: _, offered: __, ...rest } = space;
  return {
    ...rest,
    view,
    definition,
    gatewayFor: (address) => gatewayFor(definition, space, address),
    prefixLengthFor: (address) => prefixLengthFor(definition, address),
    dnsServers: definition.dns.nameservers ?? [],
  };
}

/** The gateway that is told with an address of a pool, canonical; null: there is none. */
export function gatewayFor({ rangeSets }: NetworkDefinition, { gateway }: PoolSpace, address: Address): string | null {
  const told = gateway ?? placeOf(rangeSets, address)?.subnet.gateway ?? null;
  return told === null ? null : formatAddress(told);
}

/** The prefix length of the address' subnet; null: it is in none of the network's. */
export function prefixLengthFor({ rangeSets }: NetworkDefinition, address: Address): number | null {
  return placeOf(rangeSets, address)?.subnet.cidr.prefixLength ?? null;
}
