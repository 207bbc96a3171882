import { isDeepStrictEqual } from "node:util";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import type { TurnBudget } from "../../kube/turn-budget.ts";
import type { AddressPoolView } from "../../kube/views/address-pool-view.ts";
import type { ConditionView } from "../../kube/views/conditions.ts";
import type { MachineAddressView } from "../../kube/views/machine-claim-view.ts";
import { isoTime } from "../../platform/time.ts";
import { gatewayFor, type PoolEvaluation, prefixLengthFor } from "./evaluate-pool.ts";
import { addressIn, type PoolCounts } from "./pool-ledger.ts";
import type { PoolSpace } from "./pool-space.ts";

export interface PoolFindings {
  /** null: not counted. */
  readonly counts: PoolCounts | null;
  /** Preallocated addresses that are not kept, a sentence each. */
  readonly notKept: readonly string[];
  /** Keys of IPAddresses that differ from what a new one would be. */
  readonly outdated: readonly string[];
}

/** Objects that a message names; the others are counted. */
const SHOWN_MAX = 5;
/** Conditions of an AddressPool that are written here; others belong to somebody else. */
const OWN_CONDITIONS = ["Ready", "PreallocationsKept", "AddressesCurrent"];
const COUNT_KEYS = ["size", "allocated", "cooling", "free", "outOfRange"] as const;

interface Condition {
  readonly type: string;
  readonly status: "True" | "False";
  readonly reason: string;
  readonly message: string;
}

/** The merge patch of `status` that shows a pool as it is; null: it shows that already. */
export function statusPatch(
  pool: AddressPoolView,
  { verdict, space }: PoolEvaluation,
  findings: PoolFindings,
  wallMs: number,
): Readonly<Record<string, unknown>> | null {
  const { status, generation: observedGeneration } = pool;
  const ready: Condition =
    verdict.kind === "served"
      ? { type: "Ready", status: "True", reason: "Serving", message: describeServing(pool) }
      : { type: "Ready", status: "False", reason: verdict.reason, message: verdict.message };
  const wanted = [ready, ...notKeptCondition(findings), ...outdatedCondition(findings)];
  const conditions = wanted.map((one) => {
    const known = status.conditions.find(({ type }) => type === one.type);
    const since = known?.status === one.status ? known.lastTransitionTime : "";
    return { ...one, lastTransitionTime: since || isoTime(wallMs) };
  });
  const counts = countsOf(space, findings.counts);
  const isOwn = ({ type }: ConditionView) => OWN_CONDITIONS.includes(type);
  const others = status.conditions.filter((one) => !isOwn(one));
  const shown = status.conditions.filter(isOwn);
  const isShown =
    status.observedGeneration === observedGeneration &&
    COUNT_KEYS.every((key) => status.counts[key] === (counts?.[key] ?? "")) &&
    isDeepStrictEqual(shown.map(compared), conditions.map(compared));
  if (isShown) return null;
  const removed = Object.fromEntries(COUNT_KEYS.filter((key) => status.counts[key]).map((key) => [key, null]));
  return {
    ...(counts ?? removed),
    observedGeneration,
    conditions: [
      ...conditions.map((one) => ({ ...one, observedGeneration })),
      ...others.map(({ severity: _, lastTransitionTime, ...one }) =>
        lastTransitionTime === "" ? one : { ...one, lastTransitionTime },
      ),
    ],
  };
}

function compared({ type, status, reason, message, lastTransitionTime }: ConditionView): readonly string[] {
  return [type, status, reason, message, lastTransitionTime];
}

/** IPAddresses of a pool with another prefix length or gateway than it gives now: Cluster API lets none change. */
export async function outdatedAddresses(
  addresses: readonly MachineAddressView[],
  definition: NetworkDefinition,
  space: PoolSpace,
  budget: TurnBudget,
): Promise<string[]> {
  const outdated: string[] = [];
  for (const { key, address: text, prefix, gateway } of addresses) {
    if (budget.isSpent) await budget.nextTurn();
    const address = addressIn(text);
    const length = address && prefixLengthFor(definition, address);
    // One that is in no subnet any more is counted as out of range.
    if (address === null || length === null) continue;
    const told = addressIn(gateway ?? "");
    const isCurrent = prefix === length && (told && formatAddress(told)) === gatewayFor(definition, space, address);
    if (!isCurrent) outdated.push(key);
  }
  return outdated.sort();
}

/** Decimal strings: the numbers of an IPv6 network fit no integer. */
function countsOf(
  space: PoolSpace | null,
  counts: PoolCounts | null,
): Record<(typeof COUNT_KEYS)[number], string> | null {
  if (space === null || counts === null) return null;
  const { allocated, cooling, outOfRange } = counts;
  const { size } = space.offered;
  return {
    size: `${size}`,
    allocated: `${allocated}`,
    cooling: `${cooling}`,
    free: `${size - BigInt(allocated) - BigInt(cooling)}`,
    outOfRange: `${outOfRange}`,
  };
}

function describeServing({ network }: AddressPoolView): string {
  return `machine claims get addresses of network ${network}`;
}

function notKeptCondition({ notKept }: PoolFindings): Condition[] {
  if (notKept.length === 0) return [];
  const message = shortened(notKept, "; ");
  return [{ type: "PreallocationsKept", status: "False", reason: "AddressHeld", message }];
}

function outdatedCondition({ outdated }: PoolFindings): Condition[] {
  if (outdated.length === 0) return [];
  const message = `IPAddresses with another prefix length or gateway than new ones get: ${shortened(outdated, ", ")}; they keep theirs, because Cluster API lets no IPAddress change`;
  return [{ type: "AddressesCurrent", status: "False", reason: "GatewayOrPrefixChanged", message }];
}

function shortened(all: readonly string[], separator: string): string {
  const more = all.length > SHOWN_MAX ? `${separator}and ${all.length - SHOWN_MAX} more` : "";
  return `${all.slice(0, SHOWN_MAX).join(separator)}${more}`;
}
