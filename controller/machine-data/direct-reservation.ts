import type { ServedPool } from "../../claims/pools/evaluate-pool.ts";
import type { Owner } from "../../ipam/owner.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { CLUSTER_NAME_LABEL } from "../../kube/cluster-api.ts";
import type { MachineDataView } from "../../kube/views/machine-data-view.ts";
import { failureOfPool, failureOfRefusal } from "../capi/claim-facts.ts";
import type { MachineLedger } from "../capi/machine-ledger.ts";
import type { PoolState, Pools } from "../capi/pools.ts";
import type { DirectAddresses, PoolOutcome } from "./data-pools.ts";
import { waiting } from "./data-status.ts";

export interface DirectReservationOptions {
  readonly pools: Pick<Pools, "stateOf">;
  readonly ledger: Pick<MachineLedger, "of" | "reserve">;
}

/** Where Cluster API's claims are not served: the data object is the owner in the ledger, once for each pool. */
export function directReservation({ pools, ledger }: DirectReservationOptions): DirectAddresses {
  return {
    held(data, poolName) {
      const held = ledger
        .of(ownerOf(data, poolName))
        .filter(({ spec, status }) => spec.owner.uid === data.uid && status?.state === "Bound");
      if (held.length === 0) return null;
      const state = pools.stateOf(`${data.namespace}/${poolName}`);
      if (state.kind !== "served") return notServed(poolName, state);
      const { pool } = state;
      const found = held.find(({ spec }) => spec.network === pool.definition.name);
      return found === undefined ? null : given(pool, parseInterfaceAddress(found.spec.address));
    },
    async reserve(data, poolName) {
      const state = pools.stateOf(`${data.namespace}/${poolName}`);
      if (state.kind !== "served") return notServed(poolName, state);
      const { pool } = state;
      const outcome = await ledger.reserve({
        owner: ownerOf(data, poolName),
        network: pool.definition.name,
        definition: pool.definition,
        request: {
          kind: "single",
          family: pool.family,
          within: pool.requestable,
          automatic: pool.usable,
          requested: null,
        },
      });
      if (outcome.kind === "refused")
        return waiting("WaitingForAddress", failureOfRefusal(poolName, outcome.refusal).message);
      const [address] = outcome.addresses;
      if (address === undefined) throw new Error(`AddressPool ${poolName} reserved no address`);
      return given(pool, address);
    },
  };
}

function notServed(pool: string, state: Exclude<PoolState, { readonly kind: "served" }>): PoolOutcome {
  const message =
    state.kind === "unsettled" ? `AddressPool ${pool} is being looked at` : failureOfPool(pool, state).message;
  return waiting("WaitingForAddress", message);
}

/** The pool takes the place of an interface: a data object has one address of each. */
function ownerOf({ uid, namespace, name, labels }: MachineDataView, pool: string): Owner {
  const cluster = labels[CLUSTER_NAME_LABEL];
  return { kind: "machineData", uid, interface: pool, namespace, name, ...(cluster ? { cluster } : {}) };
}

function given(pool: ServedPool, { address, prefixLength }: InterfaceAddress): PoolOutcome {
  const { dnsServers } = pool;
  const prefix = pool.prefixLengthFor(address) ?? prefixLength;
  const result = { address: formatAddress(address), prefix, gateway: pool.gatewayFor(address), dnsServers };
  return { kind: "given", result };
}
