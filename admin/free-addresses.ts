import { RefusalError, refuse } from "../ipam/refusals.ts";
import { formatCidr } from "../ipam/space/cidr.ts";
import { freeRange } from "../ipam/space/free-space.ts";
import type { Pool } from "../ipam/space/pool.ts";
import type { FreeAddresses, FreeWant } from "./admin-api.ts";

/** `pools`: no cool-down is over; undefined: no such network. Throws RefusalError NOT_FOUND of network or subnet. */
export function freeAddresses(
  network: string,
  { count, within }: FreeWant,
  pools: readonly Pool[] | undefined,
  isNext: boolean,
): FreeAddresses {
  if (pools === undefined) throw new RefusalError(refuse("NOT_FOUND", { what: `network ${network}` }));
  const ranges = pools.map((pool) => freeRange(pool, { count, within, isNext })).filter((range) => range !== null);
  if (ranges.length === 0 && within !== null)
    throw new RefusalError({
      ...refuse("NOT_FOUND", { what: `subnet ${formatCidr(within)} of network ${network}` }),
      hint: `holdfast show ${network} has its subnets; name one of them, or a part of one`,
    });
  return { network, isNext, ranges };
}
