/**
 * Where the listener of a network is to be plugged in: what the bridge plugin's configuration says. Kept for each
 * network, because an ADD alone tells it and a daemon that was started anew must know it too.
 */

import { isInterfaceName } from "../../ipam/definition/interface-name.ts";

export interface BridgePlan {
  readonly bridge: string;
  /** null: untagged. */
  readonly vlan: number | null;
  readonly preserveDefaultVlan: boolean;
  /** null: the bridge's. */
  readonly mtu: number | null;
}

/** The plan of a network, and which of its attachments came by another one (`attachmentKey`): those get no metadata. */
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

/** The kept form, as it was written. Throws when it was not written here. */
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
 * What is kept once an attachment has come by `asked`. The plan by which living attachments came stays; an attachment
 * that came by another is listed. null: nothing is known, and this one says nothing of use.
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
 * The plan by which an attachment asks, once the owner of its network has been heard: who shares a network does not
 * move its listener to another place. `owners` are the places that the owner's own definitions name; none: nobody says.
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
