import {
  type Add,
  type Answerer,
  allocationAt,
  claimOf,
  detached,
  type Finder,
  isLiving,
  NOT_BEGUN,
  ownedBy,
  type Pod,
  type Publisher,
  podAt,
  type Reader,
  type Reading,
  type State,
  type Step,
  vmAt,
  vmOf,
  withAllocation,
  withClaim,
  withList,
  withPod,
} from "./model.ts";
import { isUsable, type Rules } from "./rules.ts";

type Outcome = { readonly address: number } | { readonly refused: string };

/** The next request of the ADD of a pod; the runtime repeats what was refused. */
export function addStep(state: State, rules: Rules, pod: number): Step {
  const { add } = podAt(state, pod);
  const { text, to } = requestOf(state, rules, pod, add);
  return { text: `ADD ${pod}: ${text}`, to };
}

function requestOf(state: State, rules: Rules, pod: number, add: Add): Step {
  switch (add.next) {
    case "read":
      return read(state, pod);
    case "follow":
      return follow(state, pod, add);
    case "find":
      return find(state, rules, pod, add);
    case "list":
      return list(state, pod, add);
    case "hold":
      return decideAndHold(state, rules, pod, add);
    case "publish":
      return publish(state, rules, pod, add);
    case "hold-published":
      return hold(state, rules, pod, { ...add, writes: () => false });
    case "answer":
      return answer(state, rules, pod, add);
  }
}

const goesOn = (state: State, pod: number, add: Add, text: string): Step => ({
  text,
  to: withPod(state, pod, { add }),
});
const again = (state: State, pod: number, text: string): Step => goesOn(state, pod, NOT_BEGUN, text);

/** What is left of an ADD whose process ends between two requests. */
export function crash(state: State, pod: number): Step {
  return again(state, pod, `ADD ${pod}: crashes`);
}

function read(state: State, pod: number): Step {
  const vm = vmOf(pod);
  const { uid, network, ips, isWritten } = claimOf(state, vm);
  const next = network === podAt(state, pod).network ? "find" : "follow";
  const add: Add = { next, claim: { uid, network, ips, isWritten }, isStale: false };
  return goesOn(state, pod, add, `reads claim ${vm}: network ${network}, lists [${ips}]`);
}

/** The claim is of another network: its VM, by quorum, has to want the interface here. */
function follow(state: State, pod: number, add: Reader): Step {
  const vm = vmOf(pod);
  const { network } = podAt(state, pod);
  if (!claimOf(state, vm).isOwned || vmAt(state, vm).network !== network)
    return again(state, pod, "refused, CLAIM_OTHER_NETWORK");
  return goesOn(state, pod, { ...add, next: "find" }, `its VM is to be on network ${network}`);
}

/** Reads by name what is listed and what is asked for. */
function find(state: State, rules: Rules, pod: number, { claim, isStale }: Reader): Step {
  const { network, asks } = podAt(state, pod);
  const names = [...new Set(asks === null ? claim.ips : [...claim.ips, asks])].filter((one) => isUsable(rules, one));
  const isOwn = (address: number) => allocationAt(state, network, address)?.owner === claim.uid;
  const isFree = (address: number) => allocationAt(state, network, address) === null;
  const own = rules.faults.has("list-is-believed")
    ? claim.ips.filter((one) => isUsable(rules, one) && (isFree(one) || isOwn(one)))
    : names.filter(isOwn);
  const next = mustList(state, rules, pod, { claim, own }) ? "list" : "hold";
  return goesOn(state, pod, { next, claim, isStale, own }, `reads [${names}] of network ${network}: has [${own}]`);
}

interface Known {
  readonly claim: Reading;
  readonly own: readonly number[];
}

/** Whether what was found by name may not be all, and something new could be reserved. */
function mustList(state: State, rules: Rules, pod: number, { claim, own }: Known): boolean {
  const { world, faults } = rules;
  const { asks, network, isTarget } = podAt(state, pod);
  if (faults.has("no-list-by-label") || faults.has("list-is-believed")) return false;
  if (world.retains && own.length === 0) return true;
  const listed = claim.ips.find((one) => own.includes(one));
  const sourceIsMissing = isTarget && !own.some((one) => isUsedBeside(state, pod, network, one));
  const isSure =
    listed !== undefined &&
    (asks === null || asks === listed) &&
    (!sourceIsMissing || faults.has("target-trusts-the-list"));
  return !isSure && !isFirstUse(state, rules, pod, claim);
}

function isFirstUse(state: State, { world, faults }: Rules, pod: number, { ips, isWritten }: Reading): boolean {
  if (ips.length > 0) return false;
  if (faults.has("empty-is-first")) return true;
  if (world.isWithoutVm) return !isWritten || faults.has("empty-is-unwritten");
  return !podAt(state, pod).isTarget && vmAt(state, vmOf(pod)).instances < 2;
}

/** One list by the claim's label, not older than the claim as read; each hit is read by name. */
function list(state: State, pod: number, { claim, isStale, own }: Finder): Step {
  const all = [...new Set([...own, ...ownedBy(state, claim.uid, podAt(state, pod).network)])];
  return goesOn(state, pod, { next: "hold", claim, isStale, own: all }, `lists by label: has [${all}]`);
}

/** A living pod of its VM, other than itself, is attached. */
function isUsedBeside(state: State, pod: number, network: number, address: number): boolean {
  const users = allocationAt(state, network, address)?.pods ?? [];
  return users.some((one) => one !== pod && vmOf(one) === vmOf(pod) && isLiving(podAt(state, one)));
}

function decideAndHold(state: State, rules: Rules, pod: number, { claim, isStale, own }: Finder): Step {
  const { faults } = rules;
  const decided = decide(state, rules, pod, { claim, own });
  if ("refused" in decided) return again(state, pod, `refused, ${decided.refused}`);
  const { address } = decided;
  const { network } = podAt(state, pod);
  if (faults.has("publish-before-reserve")) {
    const add: Add = { next: "publish", uid: claim.uid, isStale, address };
    return goesOn(state, pod, add, `chooses ${address} of network ${network}`);
  }
  const isListed = claim.ips.includes(address);
  const isFull = claim.ips.length >= rules.entriesMax;
  const movesPointer = faults.has("node-replaces-the-list") && claim.network !== network;
  const mayAppend = !isFull || faults.has("append-drops-an-entry");
  const writes = (isNew: boolean) =>
    movesPointer || (isListed ? isNew && !faults.has("listed-needs-no-write") : mayAppend);
  return hold(state, rules, pod, { uid: claim.uid, address, isStale, writes });
}

/** What the ADD is to answer, in the order of the design: used, asked for, its own, a wish, a free one. */
function decide(state: State, rules: Rules, pod: number, known: Known): Outcome {
  const { faults } = rules;
  const { claim, own } = known;
  const { network, asks } = podAt(state, pod);
  const isFree = (address: number) => isUsable(rules, address) && allocationAt(state, network, address) === null;

  if (faults.has("wish-before-own") && claim.network === network) {
    const wish = claim.ips.find(isFree);
    if (wish !== undefined) return { address: wish };
  }
  const used = own.find((one) => isUsedBeside(state, pod, network, one));
  if (used !== undefined && !faults.has("target-gets-what-is-asked")) return { address: used };
  if (asks !== null) {
    if (own.includes(asks)) return { address: asks };
    const mayMove = isUsable(rules, asks) && (claimOf(state, vmOf(pod)).isOwned || own.length === 0);
    if (mayMove && isFree(asks)) return { address: asks };
    if (mayMove || own.length === 0) return { refused: `the address ${asks} that is asked for is not to be had` };
  }
  const listed = claim.ips.find((one) => own.includes(one));
  if (own.length > 0) return { address: listed ?? Math.min(...own) };
  if (claim.network === network && claim.ips.length > 0) {
    const wish = claim.ips[0] as number;
    return isFree(wish) ? { address: wish } : { refused: `the listed ${wish} is not to be had` };
  }
  return firstFree(state, rules, network, claim.uid);
}

/** From a place that the UID decides. */
function firstFree(state: State, rules: Rules, network: number, uid: number): Outcome {
  for (let distance = 0; distance < rules.addresses; distance += 1) {
    const address = (uid + distance) % rules.addresses;
    const owner = allocationAt(state, network, address)?.owner;
    const isCandidate = owner === undefined || owner === uid || rules.faults.has("no-owner-check");
    if (isCandidate && isUsable(rules, address)) return { address };
  }
  return { refused: "POOL_FULL" };
}

interface Hold {
  readonly uid: number;
  readonly address: number;
  readonly isStale: boolean;
  /** Whether the claim is to be written, by whether the address is reserved by this step. */
  readonly writes: (isNew: boolean) => boolean;
}

/** Creates the allocation, or adds the pod to its attachments. */
function hold(state: State, rules: Rules, pod: number, { uid, address, isStale, writes }: Hold): Step {
  const { network } = podAt(state, pod);
  const there = allocationAt(state, network, address);
  if (there !== null && there.owner !== uid && !rules.faults.has("no-owner-check"))
    return again(state, pod, `${address} is another's by now; again`);
  const pods = there === null ? [pod] : [...new Set([...there.pods, pod])].sort((a, b) => a - b);
  const held = withAllocation(state, network, address, { owner: uid, pods });
  const add: Add = writes(there?.owner !== uid)
    ? { next: "publish", uid, isStale, address }
    : { next: "answer", address };
  return goesOn(held, pod, add, `holds ${address} of network ${network}`);
}

/** Appends to the list, at the version that was read: the one commit point. */
function publish(state: State, rules: Rules, pod: number, { uid, isStale, address }: Publisher): Step {
  if (isStale) return again(state, pod, "the claim has changed; again");
  const vm = vmOf(pod);
  const { network } = podAt(state, pod);
  const { ips } = claimOf(state, vm);
  const isReplaced = rules.faults.has("node-replaces-the-list");
  const kept = isReplaced ? [] : ips.length < rules.entriesMax ? ips : ips.slice(1);
  const to = ips.includes(address) ? ips : [...kept, address];
  let written = withList(state, vm, to);
  if (isReplaced) written = withClaim(written, vm, { network });
  const isHeld = allocationAt(state, network, address)?.pods.includes(pod) ?? false;
  const add: Add = isHeld ? { next: "answer", address } : { next: "hold-published", uid, isStale: false, address };
  return goesOn(written, pod, add, `publishes ${address}: [${to}]`);
}

/** What an earlier round has reserved and this one does not use goes first. */
function answer(state: State, { faults }: Rules, pod: number, { address }: Answerer): Step {
  const { network } = podAt(state, pod);
  const used = allocationAt(state, network, address);
  const isElsewhere = state.allocations.some((all) => all.some((one) => one !== used && one?.pods.includes(pod)));
  if (isElsewhere && !faults.has("keeps-earlier-rounds"))
    return { text: "lets go what it does not use", to: detached(state, pod, used) };
  const answered: Partial<Pod> = { phase: "up", add: NOT_BEGUN, address };
  return { text: `answers ${address} of network ${network}`, to: withPod(state, pod, answered) };
}
