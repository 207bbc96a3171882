import type { AllocationReading } from "../../../allocations/allocation-client.ts";
import { sameAllocationOwner } from "../../../allocations/allocation-object.ts";
import { toAllocationOwner } from "../../../allocations/owners.ts";
import type { Picture } from "../../../allocations/picture.ts";
import type { HeldAddress } from "../../../ipam/decide-addresses.ts";
import { type Owner, sameOwner, searchSeed } from "../../../ipam/owner.ts";
import { type Address, formatAddress, sameAddress } from "../../../ipam/space/address.ts";
import { type InterfaceAddress, parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import type { AttachWant } from "../../allocations.ts";
import { addressesOf, ownerOf } from "../../journal/rows.ts";
import { takingOf } from "../../journal/uses.ts";
import type { AttachParts, ClusterAttacher } from "./attach-parts.ts";

/** The allocation of an address, as read; null: there is none. */
interface OwnReading {
  readonly address: Address;
  readonly reading: AllocationReading | null;
}

/** Where to look for what an owner has: what a node remembers proves nothing. See docs/decisions/0012. */
export function candidatesOf(
  { directory, picture, context }: Pick<AttachParts, "directory" | "picture" | "context">,
  want: AttachWant,
  { owner, superseded }: Pick<ClusterAttacher, "owner" | "superseded">,
) {
  const { ledger } = directory;
  const space = ledger.networks.get(want.network);
  const former = superseded.find(({ attachment: { row } }) => sameOwner(ownerOf(row), owner));
  /** An earlier attempt was about to reserve them. */
  const begun = space ? takingOf(ledger, owner, space.id).flatMap(addressesOf) : [];
  return {
    /** To its former sandbox. */
    answered: (former?.attachment.ips ?? []).map(({ address }) => parseInterfaceAddress(address)),
    begun,
    others: [
      ...begun.map((one) => one.address),
      ...picture.ownedBy(want.network, owner.uid),
      ...whereItBegan(picture, want, owner, context.clock.monotonicMs()),
    ],
  };
}

/**
 * What a pod or container has: that of its former sandbox, of which all is kept, or cooling ones that an earlier
 * attempt reserved, which are tried first. Each is read.
 */
export async function findOwn(
  parts: AttachParts,
  want: AttachWant,
  attacher: ClusterAttacher,
  deadlineMs: number,
): Promise<{ readonly held: HeldAddress[]; readonly readings: readonly OwnReading[] }> {
  const { picture, client } = parts;
  const { owner } = attacher;
  const { answered, begun, others } = candidatesOf(parts, want, attacher);
  const seen = new Map([...answered.map((one) => one.address), ...others].map((one) => [formatAddress(one), one]));
  const readings: OwnReading[] = await Promise.all(
    [...seen.values()].map(async (address) => ({
      address,
      reading: await client.read(want.network, address, deadlineMs),
    })),
  );
  const own: HeldAddress[] = [];
  for (const { address, reading } of readings) {
    if (reading === null) {
      picture.noteFree(want.network, address);
      // A create whose answer was lost may still arrive: the same name again does no harm.
      const same = begun.find((one) => sameAddress(one.address, address));
      if (same) own.push({ ...same, state: "cooling", adopted: false });
    } else if (sameAllocationOwner(reading.object.spec.owner, toAllocationOwner(owner))) {
      const { prefixLength } = parseInterfaceAddress(reading.object.spec.address);
      own.push({ address, prefixLength, state: "cooling", adopted: false });
    } else {
      const { spec, status, metadata } = reading.object;
      picture.note(want.network, address, spec.owner.uid, status?.state, metadata.resourceVersion);
    }
  }
  const has = (one: InterfaceAddress) =>
    own.some(({ address }) => formatAddress(address) === formatAddress(one.address));
  if (answered.length === 0 || !answered.every(has)) return { held: own, readings };
  return { held: answered.map((one) => ({ ...one, state: "bound", adopted: false })), readings };
}

/** Where the search of an owner begins: an address that is not free there may be what it got before. */
function whereItBegan(
  picture: Picture,
  { network, definition }: Pick<AttachWant, "network" | "definition">,
  owner: Owner,
  nowMs: number,
): Address[] {
  const seed = searchSeed(owner, network);
  if (seed === null) return [];
  return picture
    .space(network)
    .poolsOf(definition, nowMs)
    .flatMap((pool): Address[] => {
      const value = pool.hashStart(seed);
      return pool.stateOf(value) !== "free" ? [{ family: pool.rangeSet.family, value }] : [];
    });
}
