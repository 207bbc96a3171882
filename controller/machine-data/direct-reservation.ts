import type { ServedPool } from "../../claims/pools/evaluate-pool.ts";
import type { Owner } from "../../ipam/owner.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { CLUSTER_NAME_LABEL } from "../../kube/cluster-api.ts";
import type { MachineDataView } from "../../kube/views/machine-data-view.ts";
import { failureOfPool, failureOfRefusal } from "../capi/claim-facts.ts";
import type { MachineLedger } from "../capi/machine-ledger.ts";
import type { Pools } from "../capi/pools.ts";
import type { PoolOutcome, ReserveDirectly } from "./data-pools.ts";
import { waiting } from "./data-status.ts";

export interface DirectReservationOptions {
  readonly pools: Pick<Pools, "stateOf">;
  readonly ledger: Pick<MachineLedger, "of" | "reserve">;
}

/**
 * Addresses of AddressPools for data objects themselves, where Cluster API's claims are not served: the data object is the
 * owner in the ledger, once for each pool.
 */
export function directReservation({ pools, ledger }: DirectReservationOptions): ReserveDirectly {
  return async (data, poolName) => {
    const state = pools.stateOf(`${data.namespace}/${poolName}`);
    const owner = ownerOf(data, poolName);
    if (state.kind === "unsettled")
      return waiting("WaitingForAddress", `AddressPool ${poolName} is being looked at`);
    if (state.kind !== "served") return waiting("WaitingForAddress", failureOfPool(poolName, state).message);
    const { pool } = state;
    const network = pool.definition.name;
    const held = ledger
      .of(owner)
      .find(
        ({ spec, status }) =>
          spec.owner.uid === data.uid && spec.network === network && status?.state === "Bound",
      );
    if (held !== undefined) return given(pool, parseInterfaceAddress(held.spec.address));
    const outcome = await ledger.reserve({
      owner,
      network,
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
  };
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
