import { ITEMS_MAX } from "../admin/limits.ts";
import type { Clock } from "../platform/time.ts";
import type { AllocationView, Page } from "../store/records.ts";
import type { Client, Query } from "./client.ts";
import { withProgress } from "./progress.ts";

/** Every allocation that matches the filter, from all pages. */
export async function allAllocations(clock: Clock, client: Client, filter: Query): Promise<AllocationView[]> {
  const items: AllocationView[] = [];
  await withProgress(clock, () => `${items.length} allocations read`, readPages(client, filter, items));
  return items;
}

async function readPages(client: Client, filter: Query, items: AllocationView[]): Promise<void> {
  let token: string | undefined;
  do {
    const page: Page<AllocationView> = await client.get("/v1/allocations", {
      ...filter,
      limit: String(ITEMS_MAX),
      continue: token,
    });
    // Not push(...items): thousands of arguments overflow the stack of some machines.
    for (const item of page.items) items.push(item);
    token = page.continue;
  } while (token !== undefined);
}
