import type { AllocationFilter } from "../allocations/filter.ts";
import type { Attachment, PodIdentity } from "../allocations/records.ts";
import { isMachine } from "../ipam/owner.ts";
import { sameAddress } from "../ipam/space/address.ts";
import { parseInterfaceAddress } from "../ipam/space/cidr.ts";
import { invalid } from "../platform/api-query.ts";
import { composeIdentity, type NetworkFacts, stateOf } from "./compose.ts";
import { type Holding, userKey } from "./holding.ts";
import { type GuestQuestion, type IdentityQuestion, nobody, onlyNetwork } from "./query.ts";
import type { IdentityAnswer, IdentityInterface, IdentityView, IdentityVm } from "./wire.ts";

/** A source that knows all allocations: this node's database if it is standalone, else the Kubernetes API. */
export interface AllocationSource {
  /** Everything that the identity holds, at least one address. Throws RefusalError and, in Kubernetes, ApiAway. */
  find(question: IdentityQuestion): Promise<readonly Holding[]>;
  /** The VM behind what was found; null: there is none. */
  vm(holdings: readonly Holding[]): Promise<IdentityVm | null>;
}

/** The VMs behind the attachments of this node. */
export interface LocalVms {
  /** From memory; undefined: not known yet; null: there is none. */
  known(holdings: readonly Holding[]): IdentityVm | null | undefined;
  /** Resolves when they are known. Throws ApiAway. */
  learn(holdings: readonly Holding[]): Promise<void>;
  /** The same of a pod, whatever its addresses. */
  knownOf(pod: PodIdentity): IdentityVm | null | undefined;
  learnOf(pod: PodIdentity): Promise<void>;
  /** `namespace/name` of the VM, if it is known without a request; null: none. */
  nameOf(attachment: Attachment): string | null;
}

/** A pod of this node whose containers run. */
export interface RunningPod extends PodIdentity {
  readonly node: string;
  /** RFC 3339. */
  readonly since: string;
}

/** Interfaces of this node's pods with addresses that another component allocated. */
export interface PodInterfaces {
  /** The running pod with that UID, if it has an interface on the network; null: there is none. */
  podOn(uid: string, network: string): RunningPod | null;
  /** All of such a pod; none of a pod that does not run. */
  of(pod: PodIdentity): readonly IdentityInterface[];
}

export async function answerFrom(
  source: AllocationSource,
  question: IdentityQuestion,
  facts: NetworkFacts,
): Promise<IdentityAnswer> {
  const holdings = await source.find(question);
  const vm = await source.vm(holdings);
  return answerOf(question, holdings, vm, facts);
}

export function answerOf(
  question: IdentityQuestion,
  holdings: readonly Holding[],
  vm: IdentityVm | null,
  facts: NetworkFacts,
): IdentityAnswer {
  return { network: networkOf(question, holdings), identity: composeIdentity(holdings, vm, facts) };
}

/** The network that the question means; null: none in particular. */
export function networkOf(question: IdentityQuestion | GuestQuestion, holdings: readonly Holding[]): string | null {
  if (question.kind === "attachment" || question.kind === "pod-uid") return question.network;
  return question.kind === "address" ? (matchingHolding(question, holdings)?.network ?? null) : null;
}

/** The holding with the address of the question; undefined: it has none any more. */
export function matchingHolding(question: IdentityQuestion, holdings: readonly Holding[]): Holding | undefined {
  if (question.kind !== "address") return holdings[0];
  return holdings.find(
    ({ network, address }) =>
      (question.network === undefined || question.network === network) &&
      sameAddress(parseInterfaceAddress(address.address).address, question.address),
  );
}

/** Of the one network that has it. A cooling address counts if it is bound on none; a machine is no guest of a node. */
export function ofOneNetwork(
  question: Extract<IdentityQuestion, { kind: "address" }>,
  found: readonly Holding[],
): Holding[] {
  const guests = found.filter(({ owner }) => !isMachine(owner.kind));
  const bound = guests.filter(({ state }) => state === "Bound");
  const counting = bound.length > 0 ? bound : guests;
  if (counting.length === 0) throw nobody(question, false);
  const network = onlyNetwork(
    question.address,
    counting.map((one) => one.network),
  );
  return counting.filter((one) => one.network === network);
}

export function filterOf({
  kind,
  name,
}: Extract<IdentityQuestion, { kind: "pod" | "vm" | "container" }>): AllocationFilter {
  return { [kind]: name };
}

const RANK: Readonly<Record<IdentityView["state"], number>> = {
  running: 0,
  migrating: 0,
  stopped: 1,
  "released-recently": 2,
};

/** The holdings of the one identity that a name means: running before stopped, stopped before cooling. */
export function ofOneIdentity(
  question: Extract<IdentityQuestion, { kind: "pod" | "vm" | "container" }>,
  found: readonly Holding[],
): Holding[] {
  const groups = new Map<string, Holding[]>();
  for (const one of found) {
    const key = identityKey(question, one);
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  if (groups.size === 0) throw nobody(question, false);
  const ranked = [...groups].map(([key, holdings]) => ({ key, holdings, rank: RANK[stateOf(holdings)] }));
  const best = Math.min(...ranked.map(({ rank }) => rank));
  const [first, ...others] = ranked.filter(({ rank }) => rank === best);
  if (first === undefined || others.length === 0) return first?.holdings ?? [];
  const keys = [first, ...others].map(({ key }) => key).join(", ");
  return invalid(question.kind, question.name, `that means several: ${keys}; ask by namespace/name, or by an address`);
}

function identityKey(
  { kind, name }: Extract<IdentityQuestion, { kind: "pod" | "vm" | "container" }>,
  { owner, vm, uses }: Holding,
): string {
  if (kind === "container") return name;
  if (kind === "vm") return `${owner.namespace}/${vm?.name ?? ""} (UID ${vm?.uid || "unknown"})`;
  const named = (pod: { namespace: string; name: string }) =>
    pod.name === name || `${pod.namespace}/${pod.name}` === name;
  const pod = uses.map((use) => use.pod).find((one) => one !== null && named(one)) ?? owner;
  return `${pod.namespace}/${pod.name} (UID ${pod.uid})`;
}

export function sharesUser(one: Holding, others: readonly Holding[]): boolean {
  const users = new Set(others.flatMap(({ uses }) => uses.map(userKey)));
  return one.uses.some((use) => users.has(userKey(use)));
}
