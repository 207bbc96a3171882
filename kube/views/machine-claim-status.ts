import { isDeepStrictEqual } from "node:util";
import { cutMessage } from "../../ipam/claim-conditions.ts";
import type { ConditionView } from "./conditions.ts";
import type { MachineClaimView } from "./machine-claim-view.ts";

const READY = "Ready";
/** Longest message that the schema of Cluster API accepts in either form, characters: that of the old one. */
const MESSAGE_CHARS_MAX = 10_240;

/** Why a claim has no address, in the words of Cluster API. */
export type MachineClaimFailure = "PoolNotReady" | "PoolExhausted" | "AllocationFailed";

/** Says whether somebody must act: a pool that is not ready yet is no fault. */
const SEVERITIES: Readonly<Record<MachineClaimFailure, string>> = {
  PoolNotReady: "Info",
  PoolExhausted: "Warning",
  AllocationFailed: "Error",
};

export type DesiredMachineStatus =
  /** Fulfilled by the IPAddress of this name. */
  | { readonly kind: "fulfilled"; readonly addressRef: string }
  /** Not now, and what to do about it. A reference that is there stays. */
  | { readonly kind: "failed"; readonly reason: MachineClaimFailure; readonly message: string };

/**
 * The JSON merge patch for the status of a claim that was read as `view` in a version, or null when it would change
 * nothing. It holds only against that very resourceVersion. The two forms of conditions are never mixed: v1beta2 has
 * the present one in `conditions`, v1beta1 the old one there and the present one in `v1beta2.conditions`, v1alpha1 the
 * old one only. Without `bothForms`, v1beta1 has the old one only: the server drops the other.
 */
export function machineStatusPatch(
  view: MachineClaimView,
  version: string,
  desired: DesiredMachineStatus,
  time: string,
  { bothForms = true } = {},
): object | null {
  const conditions =
    version === "v1beta2"
      ? merged(view.conditions, PRESENT, desired, time)
      : merged(view.conditions, OLD, desired, time);
  const hasBeside = version === "v1beta1" && bothForms;
  const beside = hasBeside ? merged(view.otherConditions, PRESENT, desired, time) : null;
  const newRef = desired.kind === "fulfilled" && view.addressRef !== desired.addressRef;
  if (!newRef && conditions === null && beside === null) return null;
  return {
    metadata: { resourceVersion: view.resourceVersion },
    status: {
      ...(newRef ? { addressRef: { name: desired.addressRef } } : {}),
      ...(conditions === null ? {} : { conditions }),
      ...(beside === null ? {} : { v1beta2: { conditions: beside } }),
    },
  };
}

interface Form {
  of(desired: DesiredMachineStatus): Omit<ConditionView, "type" | "lastTransitionTime">;
  written(condition: ConditionView): object;
}

/** `severity` may be there only where status is False; there are no empty texts. */
const OLD: Form = {
  of: (desired) => ({
    ...PRESENT.of(desired),
    ...(desired.kind === "failed" ? { severity: SEVERITIES[desired.reason] } : {}),
  }),
  written: ({ reason, message, observedGeneration: _, ...rest }) => ({
    ...rest,
    ...(reason === "" ? {} : { reason }),
    ...(message === "" ? {} : { message }),
  }),
};

/** `metav1.Condition`: every text is there. */
const PRESENT: Form = {
  of: (desired) =>
    desired.kind === "fulfilled"
      ? { status: "True", reason: "AddressAllocated", message: "" }
      : { status: "False", reason: desired.reason, message: cutMessage(desired.message, MESSAGE_CHARS_MAX) },
  written: ({ severity: _, ...condition }) => condition,
};

/** The list with Ready as desired; null: that is no change. Others' conditions stay as they are. */
function merged(
  list: readonly ConditionView[],
  form: Form,
  desired: DesiredMachineStatus,
  time: string,
): readonly object[] | null {
  const known = list.find(({ type }) => type === READY);
  const wanted = form.of(desired);
  const lastTransitionTime = known?.status === wanted.status ? known.lastTransitionTime : time;
  const entry = form.written({ type: READY, lastTransitionTime, ...wanted });
  if (known !== undefined && isDeepStrictEqual(form.written(known), entry)) return null;
  return [...list.filter(({ type }) => type !== READY).map(form.written), entry];
}
