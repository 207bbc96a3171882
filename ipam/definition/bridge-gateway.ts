import type { Address } from "../space/address.ts";
import { IntervalSet } from "../space/interval-set.ts";
import { makeRangeSet, type RangeSet, type SubnetDefinition } from "../space/range-set.ts";
import type { NetworkDefinition } from "./network-definition.ts";
import { redefined } from "./plugin-config.ts";
import { impliedGateway } from "./subnet-ranges.ts";

/**
 * For a network whose node is the gateway: a subnet without a gateway gets its first address as one, as the bridge
 * plugin does, and it is not allocated. Returns the same object when all have one. See docs/decisions/0021.
 */
export function withBridgeGateways(definition: NetworkDefinition): NetworkDefinition {
  const rangeSets = definition.rangeSets.map(withGateways);
  const changed = rangeSets.some((set, i) => set !== definition.rangeSets[i]);
  return changed ? redefined(definition, rangeSets) : definition;
}

/** Computes withBridgeGateways once for each definition. */
export class BridgeGateways {
  readonly #derived = new WeakMap<NetworkDefinition, NetworkDefinition>();

  of(definition: NetworkDefinition): NetworkDefinition {
    const known = this.#derived.get(definition);
    if (known !== undefined) return known;
    const derived = withBridgeGateways(definition);
    this.#derived.set(definition, derived);
    return derived;
  }
}

/** The gateways of a definition, which a bridge with isGateway, or ptp, takes for the node. */
export function gatewaysOf(definition: NetworkDefinition): Address[] {
  return definition.rangeSets.flatMap(({ subnets }) =>
    subnets.flatMap(({ gateway }) => (gateway === null ? [] : [gateway])),
  );
}

function withGateways(set: RangeSet): RangeSet {
  const subnets = set.subnets.map(withGateway);
  if (subnets.every((subnet, i) => subnet === set.subnets[i])) return set;
  return makeRangeSet(subnets);
}

function withGateway(subnet: SubnetDefinition): SubnetDefinition {
  const gateway = subnet.gateway === null ? impliedGateway(subnet.cidr) : null;
  if (gateway === null) return subnet;
  const one = IntervalSet.of(gateway.value, gateway.value);
  return {
    ...subnet,
    gateway,
    usable: subnet.usable.subtract(one),
    automatic: subnet.automatic.subtract(one),
  };
}
