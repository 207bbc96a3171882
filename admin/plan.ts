import { claimOfInterface } from "../claims/vm-claims.ts";
import { type AddressDecision, decideAddresses, type HeldAddress, withSource } from "../ipam/decide-addresses.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import type { RequestedAddress } from "../ipam/definition/requested-address.ts";
import { withReservation } from "../ipam/definition/reservations.ts";
import { RefusalError } from "../ipam/refusals.ts";
import { type Address, formatAddress } from "../ipam/space/address.ts";
import type { Pool } from "../ipam/space/pool.ts";
import { placeOf } from "../ipam/space/range-set.ts";
import type { ObjectName } from "../kube/views/claim-reference.ts";
import { MalformedObjectError } from "../kube/views/object-metadata.ts";
import { type PlannedNetwork, type PlannedVm, projectPlannedVm } from "../kube/views/planned-vm.ts";
import type { PlanItem } from "./admin-api.ts";

export interface PlanSpace {
  readonly definition: NetworkDefinition;
  readonly pools: readonly Pool[];
  readonly nowMs: number;
  /** Who has an address, or has it retained, for people; null: nobody. */
  holderOf(address: Address): Promise<string | null>;
  /** What a claim has here, or has retained. */
  ownOf(claim: ObjectName): Promise<readonly Address[]>;
}

/** `not-ours`: another IPAM plugin's, or none's. */
export type SpaceOfNad = PlanSpace | { readonly state: "not-ours" | "refused"; readonly message: string };

/** Of an object that is no VM: nothing. Never throws because of the object. */
export async function planObject(
  object: unknown,
  namespace: string,
  spaceOf: (nad: string) => Promise<SpaceOfNad>,
): Promise<PlanItem[]> {
  let vm: PlannedVm | null;
  try {
    vm = projectPlannedVm(object, namespace);
  } catch (error) {
    if (!(error instanceof RefusalError || error instanceof MalformedObjectError)) throw error;
    return [
      {
        vm: nameOf(object, namespace),
        network: "",
        address: "",
        on: null,
        state: "refused",
        message: error.message,
      },
    ];
  }
  if (vm === null) return [];
  const items: PlanItem[] = [];
  for (const network of vm.networks) items.push(...(await planNetwork(vm, network, spaceOf)));
  return items;
}

async function planNetwork(
  vm: PlannedVm,
  network: PlannedNetwork,
  spaceOf: (nad: string) => Promise<SpaceOfNad>,
): Promise<PlanItem[]> {
  const { nad, requested } = network;
  const all = (on: string | null, state: PlanItem["state"], message: string): PlanItem[] =>
    requested.map(({ address }) => ({ ...placeIn(vm, network, address), on, state, message }));
  if (!network.isThere)
    return all(null, "refused", `the VM has no network ${network.name}, so it would not ask for this`);
  if (nad === null) return all(null, "not-ours", "the pod's own network");
  const space = await spaceOf(nad);
  if ("state" in space) return all(null, space.state, space.message);
  const on = space.definition.name;
  const holders = new Map<string, string>();
  for (const { address } of requested) {
    const holder = await space.holderOf(address);
    if (holder !== null) holders.set(formatAddress(address), holder);
  }
  const own = await space.ownOf({
    namespace: vm.namespace,
    name: claimOfInterface(vm.name, network.name),
  });
  const decide = (asked: readonly RequestedAddress[]) => decisionOf(space, network.mac, asked, holders, own);
  // Of several each is told by itself; they may still not go together.
  const together = decide(requested);
  return requested.map((one): PlanItem => {
    const alone = decide([one]);
    const decision = alone.kind === "refuse" ? alone : together;
    const { address } = one;
    const place = { ...placeIn(vm, network, address), on };
    if (decision.kind !== "refuse") return { ...place, state: "fits" };
    const { code, message } = space.definition.allowPersistentIPs
      ? withSource(decision.refusal, requested)
      : decision.refusal;
    return { ...place, state: "refused", code, message };
  });
}

/** As an ADD of the VM's next start decides: what its claim has stays where nothing else is asked for. */
function decisionOf(
  { definition, pools, nowMs }: PlanSpace,
  mac: string | undefined,
  requested: readonly RequestedAddress[],
  holders: ReadonlyMap<string, string>,
  own: readonly Address[],
): AddressDecision {
  const held = own.flatMap((address): HeldAddress[] => {
    const place = placeOf(definition.rangeSets, address);
    return place === null
      ? []
      : [{ address, prefixLength: place.subnet.cidr.prefixLength, state: "cooling", adopted: false }];
  });
  return decideAddresses({
    ...{ definition, pools, held, mac, nowMs, seed: null },
    requested: withReservation(requested, definition.reservations, mac),
    holderOf: (address) => holders.get(formatAddress(address)) ?? null,
  });
}

function placeIn({ namespace, name }: PlannedVm, network: PlannedNetwork, address: Address) {
  return { vm: `${namespace}/${name}`, network: network.name, address: formatAddress(address) };
}

function nameOf(object: unknown, namespace: string): string {
  const { metadata } = object as { metadata?: { name?: unknown; namespace?: unknown } };
  return `${metadata?.namespace ?? namespace}/${metadata?.name ?? "(no name)"}`;
}
