/**
 * Where the listener of a network is attached, from the bridge plugin's configuration. Stored for each network, because
 * only an ADD contains it and a restarted daemon must know it too.
 */

import { isInterfaceName } from "../../ipam/definition/interface-name.ts";

export interface BridgePlan {
  readonly bridge: string;
  /** null: untagged. */
  readonly vlan: number | null;
  readonly preserveDefaultVlan: boolean;
  /** null: the bridge's default. */
  readonly mtu: number | null;
}

/** The plan of a network, and its attachments with another plan (`planAttachmentKey`): those get no metadata. */
export interface KeptPlan extends BridgePlan {
  readonly others?: readonly string[];
}

export type RequestedPlan = { readonly plan: BridgePlan } | { readonly refused: string };

/** Defaults of the bridge plugin. */
const BRIDGE_DEFAULT = "cni0";
const VLAN_MAX = 4094;

/** Reads the plan from the configuration that the runtime gives the network's plugin, which passes it on as it is. */
export function readPlan(conf: Readonly<Record<string, unknown>>): RequestedPlan {
  const { type, bridge = BRIDGE_DEFAULT, vlan = 0, vlanTrunk, preserveDefaultVlan, mtu } = conf;
  if (type !== "bridge")
    return { refused: `a listener needs a bridge, and the plugin is ${describeValue(type)}` };
  if (Array.isArray(vlanTrunk) && vlanTrunk.length > 0) {
    return {
      refused: "the guest chooses its VLAN itself there (vlanTrunk), so nobody knows which one to answer",
    };
  }
  if (typeof bridge !== "string" || !isInterfaceName(bridge || BRIDGE_DEFAULT)) {
    return { refused: `bridge is ${describeValue(bridge)}: expected the name of an interface` };
  }
  if (typeof vlan !== "number" || !Number.isInteger(vlan) || vlan < 0 || vlan > VLAN_MAX) {
    return { refused: `vlan is ${describeValue(vlan)}: expected a whole number from 1 to ${VLAN_MAX}` };
  }
  return {
    plan: {
      bridge: bridge || BRIDGE_DEFAULT,
      vlan: vlan === 0 ? null : vlan,
      preserveDefaultVlan: preserveDefaultVlan !== false,
      mtu: typeof mtu === "number" && Number.isInteger(mtu) && mtu > 0 ? mtu : null,
    },
  };
}

export function planAttachmentKey(one: { readonly containerId: string; readonly interface: string }): string {
  return `${one.containerId}/${one.interface}`;
}

/** Parses the stored form. Throws when it was not written here. */
export function parsePlan(text: string): KeptPlan {
  const plan = JSON.parse(text) as KeptPlan;
  if (typeof plan.bridge !== "string") throw new Error(`a listener plan without a bridge: ${text}`);
  return plan;
}

export function formatPlan({ others = [], ...plan }: KeptPlan): string {
  return JSON.stringify(others.length === 0 ? plan : { ...plan, others });
}

export function isOther(kept: KeptPlan, key: string): boolean {
  return kept.others?.includes(key) ?? false;
}

/** On which bridge, and in which VLAN: `br-blue`, `br-blue VLAN 7`. */
export function describePlan({ bridge, vlan }: BridgePlan): string {
  return vlan === null ? bridge : `${bridge} VLAN ${vlan}`;
}

/**
 * The stored plan after an attachment with the plan `requested`. The plan of living attachments stays; an attachment
 * with another plan is listed. null: nothing is known, and this attachment has no usable plan.
 */
export function planAfter(
  kept: KeptPlan | null,
  requested: RequestedPlan,
  key: string,
  living: ReadonlySet<string>,
): KeptPlan | null {
  const others = kept?.others?.filter((other) => other !== key && living.has(other)) ?? [];
  if (kept === null) return "plan" in requested ? requested.plan : null;
  if ("plan" in requested && samePlace(kept, requested.plan)) return { ...requested.plan, others };
  const holdsOn = [...living].some((other) => other !== key && !others.includes(other));
  if (!holdsOn && "plan" in requested) return { ...requested.plan, others };
  return { ...kept, others: [...others, key] };
}

/**
 * The plan of an attachment, checked against the network's owner: sharing a network does not allow to move its
 * listener. `owners` are the places in the owner's own definitions; none: not known.
 */
export function refusedOutsideOwnersPlaces(
  requested: RequestedPlan,
  owners: readonly RequestedPlan[],
): RequestedPlan {
  if (!("plan" in requested)) return requested;
  const places = owners.flatMap((one) => ("plan" in one ? [one.plan] : []));
  const [first] = places;
  if (first === undefined || places.some((place) => samePlace(place, requested.plan))) return requested;
  return {
    refused: `this interface is on ${describePlan(requested.plan)}, and the network's owner has it on ${describePlan(first)}`,
  };
}

function samePlace(a: BridgePlan, b: BridgePlan): boolean {
  return a.bridge === b.bridge && a.vlan === b.vlan;
}

function describeValue(value: unknown): string {
  return value === undefined ? "not named" : JSON.stringify(value).slice(0, 120);
}
