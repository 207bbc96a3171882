import { AllocationClient, type AllocationReading } from "../../allocations/allocation-client.ts";
import { allEnded, soundAddress } from "../../allocations/allocation-object.ts";
import { type Change, giveBack } from "../../allocations/give-back.ts";
import type { Found } from "../../claims/reasons/facts.ts";
import { decideFresh, type RememberedFacts } from "../../claims/reasons/fresh-facts.ts";
import { judge } from "../../claims/reasons/relations.ts";
import type { Rules, Verdict } from "../../claims/reasons/verdict.ts";
import { RefusalError } from "../../ipam/refusals.ts";
import { retainSeconds } from "../../ipam/space/cooldown.ts";
import { machinePaths } from "../../kube/cluster-api.ts";
import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { HOUSEKEEPING_DEADLINE_MS } from "../../kube/object-client.ts";
import type { IPAllocation } from "../../kube/objects.ts";
import type { KeyedMutex } from "../../store/cluster/parts/keyed-mutex.ts";
import { withdrawMachineAddress } from "../../store/cluster/parts/machine-address.ts";
import type { Due } from "./due-verdicts.ts";
import { identityOf } from "./observations.ts";

/** For the facts that it depends on, a machine's IPAddress, and the write, each with its own limit, ms. */
const CARRY_OUT_MS_MAX = 3 * HOUSEKEEPING_DEADLINE_MS;

/** The outcome of a verdict. `changed`: the facts are not as they were seen. `failed`: refused or not answered. */
export type CarryOutOutcome =
  | { readonly kind: "done" }
  | { readonly kind: "changed" }
  | { readonly kind: "failed"; readonly problem: string };

const CHANGED = { kind: "leave", why: { kind: "changed" } } as const;

export interface CarryOutContext extends RememberedFacts {
  readonly api: KubeApi;
  readonly rules: Rules;
  /** One claim at a time, with what is written of its list. */
  readonly claimMutex: KeyedMutex;
}

/** What is released although its claim is there. */
const OF_LIVING_CLAIMS: ReadonlySet<Verdict["why"]> = new Set(["another-counts", "vm-moved", "vm-left"]);

type OnOutcome = (due: Due, outcome: CarryOutOutcome) => void;

/**
 * Carries out verdicts about allocations of one namespace, each of which must be another one's: reads the allocations,
 * then everything that the verdicts depend on, again from the quorum, and once for all of them. Each is judged again,
 * and written only at the version just read: because the facts were read after the allocation, an attachment that they
 * do not show has changed its version. A controller that was suspended in between writes nothing. What is left when
 * `mayGoOn` ends has no outcome.
 */
export async function carryOutGroup(
  context: CarryOutContext,
  group: readonly Due[],
  { mayGoOn, onOutcome }: { readonly mayGoOn: () => boolean; readonly onOutcome: OnOutcome },
): Promise<void> {
  const { clock } = context.api;
  const readings = new Map<Due, { readonly reading: AllocationReading; readonly readMs: number }>();
  for (const due of group) {
    if (!mayGoOn()) return;
    const reading = await outcomeOf(() => readAgain(context.api, due));
    if ("kind" in reading) onOutcome(due, reading);
    else readings.set(due, { reading, readMs: clock.monotonicMs() });
  }
  const answers = new Map<string, Found<unknown>>();
  for (const [due, { reading, readMs }] of readings) {
    if (!mayGoOn()) return;
    // A cool-down begins with its write, not when others of the group were read.
    const serverMs = reading.serverMs === null ? null : reading.serverMs + clock.monotonicMs() - readMs;
    const known = { object: reading.object, serverMs };
    // What the claim says now, and until that is written.
    const isOfClaim = OF_LIVING_CLAIMS.has(due.verdict.why);
    const work = () => carryOut({ ...context, answers: isOfClaim ? new Map() : answers }, due, known);
    onOutcome(due, await outcomeOf(() => (isOfClaim ? oneByOne(context, due, work) : work())));
  }
}

async function oneByOne<T>({ api, claimMutex }: CarryOutContext, { object }: Due, work: () => Promise<T>): Promise<T> {
  const { namespace, name } = object.spec.owner;
  const leave = await claimMutex.enter(`${namespace}/${name}`, api.clock.monotonicMs() + CARRY_OUT_MS_MAX);
  if (leave === null) throw new ApiAway("the list of its claim is being written");
  try {
    return await work();
  } finally {
    leave();
  }
}

async function outcomeOf<T>(work: () => Promise<T>): Promise<T | CarryOutOutcome> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ApiAway || error instanceof RefusalError) return { kind: "failed", problem: error.message };
    throw error;
  }
}

/** The allocation as it was judged, or what became of it. */
async function readAgain(api: KubeApi, { object }: Due): Promise<AllocationReading | CarryOutOutcome> {
  const { name, uid, resourceVersion } = object.metadata;
  const deadlineMs = api.clock.monotonicMs() + HOUSEKEEPING_DEADLINE_MS;
  const reading = await clientOf(api).readNamed(name, deadlineMs);
  const found = reading?.object.metadata;
  return found?.uid === uid && found.resourceVersion === resourceVersion && reading !== null
    ? reading
    : { kind: "changed" };
}

async function carryOut(
  context: CarryOutContext,
  { object, verdict }: Due,
  first: AllocationReading,
): Promise<CarryOutOutcome> {
  const { api } = context;
  const { name, uid, resourceVersion } = object.metadata;
  const outcome = await giveBack<CarryOutOutcome>(
    clientOf(api),
    { name, uid, reading: first },
    (reading) =>
      reading.object.metadata.resourceVersion === resourceVersion
        ? changeFor(atServerTime(context, reading.serverMs), reading.object, identityOf(object.metadata, verdict))
        : CHANGED,
    api.clock.monotonicMs() + CARRY_OUT_MS_MAX,
  );
  if (outcome.kind === "left") return outcome.why;
  return { kind: outcome.kind === "done" ? "done" : "changed" };
}

function clientOf(api: KubeApi): AllocationClient {
  return new AllocationClient(api, "housekeeping");
}

/** The change of a fresh verdict, if it is the same as the one that was seen. */
async function changeFor(
  context: CarryOutContext,
  object: IPAllocation,
  seen: string,
): Promise<Change<CarryOutOutcome>> {
  const fresh = await decideFresh(context.api, context, (facts) =>
    judge({ object, address: soundAddress(object) }, facts, context.rules),
  );
  if (fresh.kind === "keep" && fresh.why === "unknown") {
    const problem = "not everything that it depends on could be read";
    return { kind: "leave", why: { kind: "failed", problem } };
  }
  if (identityOf(object.metadata, fresh) !== seen) return CHANGED;
  switch (fresh.kind) {
    case "release":
    case "withdraw": {
      const withdrawn = await withdraw(context, object);
      if (withdrawn !== "gone") {
        const { namespace, name } = object.spec.owner;
        const problem = `IPAddress ${namespace}/${name} was written meanwhile`;
        return { kind: "leave", why: { kind: "failed", problem } };
      }
      const holderEnded =
        fresh.why === "retention-over" ||
        fresh.why === "pod-completed" ||
        (fresh.why === "claim-gone" && allEnded(object));
      if (fresh.kind === "withdraw") return { kind: "leave", why: { kind: "done" } };
      return retention(object, fresh, context.rules) ?? { kind: "cool", holderEnded };
    }
    case "repair":
      return { kind: "cool", since: object.status?.since, holderEnded: object.status?.holderEnded };
    case "record":
    case "prune":
    case "delete":
      return fresh;
    default:
      return CHANGED;
  }
}

/** An ended retention is measured by the clock that began it. */
function atServerTime(context: CarryOutContext, serverMs: number | null): CarryOutContext {
  return serverMs === null ? context : { ...context, rules: { ...context.rules, wallMs: () => serverMs } };
}

/** What a claim had that has ended is retained for its name; null: it is released as everything else. */
function retention({ spec }: IPAllocation, { why }: Verdict, rules: Rules): Change<never> | null {
  const seconds = retainSeconds(rules.definitionOf(spec.network));
  if (why !== "claim-gone" || spec.owner.kind !== "IPAMClaim" || seconds === 0) return null;
  return { kind: "retain", seconds };
}

/** No machine is told of the address any more. */
function withdraw({ api, machines }: CarryOutContext, object: IPAllocation) {
  const { owner } = object.spec;
  const paths = machinePaths("ipaddresses", owner, machines.servedPath("ipaddresses"));
  const believed = machines.addressAt(`${owner.namespace}/${owner.name}`);
  return withdrawMachineAddress(api, object, { paths, believed });
}
