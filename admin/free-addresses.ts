import { RefusalError, refuse } from "../ipam/refusals.ts";
import { formatCidr } from "../ipam/space/cidr.ts";
import type { FreeRange } from "../ipam/space/free-space.ts";
import type { FreeAddresses, FreeWant } from "./admin-api.ts";

/**
 * The answer about a network: `found` as the store gives it, by range set. Throws RefusalError NOT_FOUND that names network or
 * subnet.
 */
export function freeAddresses(
  network: string,
  { within }: FreeWant,
  found: readonly (FreeRange | null)[] | null,
  isNext: boolean,
): FreeAddresses {
  if (found === null) throw new RefusalError(refuse("NOT_FOUND", { what: `network ${network}` }));
  const ranges = found.filter((range) => range !== null);
  if (ranges.length === 0 && within !== null)
    throw new RefusalError({
      ...refuse("NOT_FOUND", { what: `subnet ${formatCidr(within)} of network ${network}` }),
      hint: `holdfast show ${network} has its subnets; name one of them, or a part of one`,
    });
  return { network, isNext, ranges };
}
