import type { AnsweredAddress } from "../../allocations/records.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { FormerHolders } from "../../ipam/former-holders.ts";
import type { HeldState } from "../../ipam/former-state.ts";
import { describeOwner, ownerOfClaim } from "../../ipam/owner.ts";
import { parseAddress } from "../../ipam/space/address.ts";
import { type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { Ledger } from "./ledger.ts";
import { ownerOf } from "./rows.ts";
import { inSlices, mapAttachments, mapClaims } from "./slices.ts";

/** Claims and containers of this node with addresses as a former definition gave them; read in slices (inSlices). */
export async function formerHolders(
  directory: { readonly ledger: Ledger },
  definitionOf: (network: string) => NetworkDefinition | undefined,
): Promise<FormerHolders> {
  const found = new FormerHolders();
  const judge = (network: string, holder: string, held: readonly HeldState[]): never[] => {
    const definition = definitionOf(network);
    if (definition !== undefined) found.judge(definition, holder, held);
    return [];
  };
  for await (const _ of inSlices(directory, function* (ledger) {
    yield* mapClaims(ledger, (claim) => judge(claim.network, describeOwner(ownerOfClaim(claim)), publishedBy(claim)));
    yield* mapAttachments(ledger, (row) => {
      const ips = JSON.parse(row.ips) as AnsweredAddress[];
      const { name } = ledger.networkById(row.network_id);
      return judge(
        name,
        describeOwner(ownerOf(row)),
        ips.map((one) => answered(one, definitionOf(name))),
      );
    });
  }));
  return found;
}

export function publishedBy({ ips }: { readonly ips: string }): InterfaceAddress[] {
  return (JSON.parse(ips) as string[]).map(parseInterfaceAddress);
}

/** A gateway that the definition does not name may be a bridge's (isGateway): then the answer's is not judged. */
function answered({ address, gateway }: AnsweredAddress, definition: NetworkDefinition | undefined): HeldState {
  const one = parseInterfaceAddress(address);
  const isNamed = definition?.rangeSets.some(
    ({ family, subnets }) => family === one.address.family && subnets.every((subnet) => subnet.gateway !== null),
  );
  return isNamed ? { ...one, gateway: gateway === undefined ? null : parseAddress(gateway) } : one;
}
