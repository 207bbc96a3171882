import { addressOf, wasImported } from "../../allocations/allocation-object.ts";
import { describeHolder } from "../../allocations/owners.ts";
import { poolKeyOf } from "../../claims/pools/pool-ledger.ts";
import {
  type Address,
  AddressSyntaxError,
  formatAddress,
  parseAddress,
  sameAddress,
} from "../../ipam/space/address.ts";
import type { InterfaceAddress } from "../../ipam/space/cidr.ts";
import { describeRangeSet, placeOf } from "../../ipam/space/range-set.ts";
import { allocationName } from "../../kube/object-names.ts";
import type { IPAllocation } from "../../kube/objects.ts";
import type { MachineAddressView, MachineClaimView } from "../../kube/views/machine-claim-view.ts";
import type { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import { owned } from "../../store/cluster/parts/holdings.ts";
import { type ClaimFailure, ownerOfMachineClaim } from "./claim-facts.ts";
import type { MachineCaches } from "./machine-caches.ts";
import type { MachineLedger } from "./machine-ledger.ts";

/** An address that a machine was sent, and that the ledger has for its claim. */
export interface Recorded {
  readonly kind: "recorded";
  readonly address: Address;
  readonly allocation: string;
  /** It was not given by Holdfast but found: it counts only where the pool gives it. */
  readonly isImported: boolean;
}

export type RecordedOutcome =
  | Recorded
  | ({ readonly kind: "failed" } & ClaimFailure)
  | { readonly kind: "later"; readonly problem: string };

export interface RecordedAddressesOptions {
  readonly caches: Pick<MachineCaches, "pools">;
  readonly ledger: Pick<MachineLedger, "of" | "record">;
  readonly definitions: Pick<DefinitionCatalog, "definitionOf">;
}

/**
 * Brings the ledger in line with IPAddresses: what a machine was told is its claim's, whether it was moved here,
 * restored, made by a former self or by another provider. An address that somebody else holds is never taken.
 */
export class RecordedAddresses {
  readonly #options: RecordedAddressesOptions;

  constructor(options: RecordedAddressesOptions) {
    this.#options = options;
  }

  /** `told` answers the claim. Throws ApiAway when the outcome is unknown, and NotRecorded. */
  async record(claim: MachineClaimView, sent: MachineAddressView): Promise<RecordedOutcome> {
    const { ledger, definitions } = this.#options;
    const address = parsedAddress(sent.address);
    if (address === null)
      return failed(`IPAddress ${sent.name} has ${JSON.stringify(sent.address)}, which is no IP address; delete it`);
    const owner = ownerOfMachineClaim(claim);
    const known = ledger.of(owner).filter((object) => sameAddress(addressOf(object), address));
    const own = known.find(({ spec, status }) => spec.owner.uid === claim.uid && status?.state === "Bound");
    if (own !== undefined && own.spec.owner.cluster === owner.cluster) return recordedAs(address, own);
    if (own !== undefined) return this.#write(claim, sent, own.spec.network, owned(own), own);
    const former = known[0];
    const network = former?.spec.network ?? this.#networkOf(claim);
    const definition = network === null ? null : (definitions.definitionOf(network)?.definition ?? null);
    const subnet = definition === null ? undefined : placeOf(definition.rangeSets, address)?.subnet;
    // What the claim takes over is on record: also of a network that nothing defines now.
    if (former !== undefined) {
      const prefixLength = subnet?.cidr.prefixLength ?? owned(former).prefixLength;
      return this.#write(claim, sent, former.spec.network, { address, prefixLength }, former);
    }
    if (network === null || definition === null) {
      const message = `IPAddress ${sent.name} has ${formatAddress(address)} of network ${network ?? "unknown"}, which nothing defines now; create a NetworkAttachmentDefinition of it again`;
      return { kind: "failed", reason: "PoolNotReady", message };
    }
    if (subnet === undefined) {
      const subnets = definition.rangeSets.map(describeRangeSet).join(", ");
      return failed(
        `IPAddress ${sent.name} has ${formatAddress(address)}, which is not in ${subnets} of network ${network}; add a subnet that holds it, or delete the IPAddress`,
      );
    }
    // A router answers for it: the ledger has it for nobody, and two hosts would have it.
    if (subnet.gateway !== null && sameAddress(subnet.gateway, address))
      return failed(
        `IPAddress ${sent.name} has ${formatAddress(address)}, which is the gateway of network ${network}; delete the IPAddress, or give the network another gateway`,
      );
    const { prefixLength } = subnet.cidr;
    return this.#write(claim, sent, network, { address, prefixLength }, undefined);
  }

  async #write(
    claim: MachineClaimView,
    sent: MachineAddressView,
    network: string,
    { address, prefixLength }: InterfaceAddress,
    former: IPAllocation | undefined,
  ): Promise<RecordedOutcome> {
    const isImported = former === undefined || wasImported(former);
    const owner = ownerOfMachineClaim(claim);
    const one = { address, prefixLength };
    const importedFrom = isImported ? `IPAddress ${claim.namespace}/${sent.name}` : undefined;
    const outcome = await this.#options.ledger.record(owner, network, one, importedFrom);
    switch (outcome.kind) {
      case "recorded":
        return recordedAs(address, outcome.object);
      case "own":
        return { kind: "recorded", address, allocation: allocationName(network, address), isImported };
      case "held":
        return failed(
          `IPAddress ${sent.name} has ${formatAddress(address)}, which is held by ${describeHolder(outcome.object.spec.owner)} on network ${network}; release it there (holdfast who ${formatAddress(address)}), or delete the IPAddress`,
        );
      case "changed":
        return { kind: "later", problem: `others keep writing the allocation of ${formatAddress(address)}` };
    }
  }

  #networkOf(claim: MachineClaimView): string | null {
    return this.#options.caches.pools.items.get(poolKeyOf(claim) ?? "")?.network ?? null;
  }
}

function recordedAs(address: Address, object: IPAllocation): Recorded {
  return { kind: "recorded", address, allocation: object.metadata.name, isImported: wasImported(object) };
}

function failed(message: string): RecordedOutcome {
  return { kind: "failed", reason: "AllocationFailed", message };
}

/** null: it is no address. */
export function parsedAddress(text: string): Address | null {
  try {
    return parseAddress(text);
  } catch (error) {
    if (error instanceof AddressSyntaxError) return null;
    throw error;
  }
}
