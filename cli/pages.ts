import type { Answer } from "../admin/answers.ts";
import { ITEMS_MAX } from "../admin/limits.ts";
import type { AllocationView } from "../allocations/records.ts";
import type { Clock } from "../platform/time.ts";
import type { Client, Query } from "./client.ts";
import { Progress } from "./progress.ts";

const LISTS = { "/v1/allocations": "allocations", "/v1/claims": "claims" } as const;
type List = keyof typeof LISTS;

/** Everything that matches the filter, page by page, so that nobody has all of it in memory. */
export async function* pagesOf<Path extends List>(
  clock: Clock,
  client: Client,
  path: Path,
  filter: Query,
): AsyncGenerator<Answer<"GET", Path>["items"]> {
  let token: string | undefined;
  let read = 0;
  const progress = new Progress(clock, () => `${read} ${LISTS[path]} read`);
  try {
    do {
      const query = { ...filter, limit: String(ITEMS_MAX), continue: token };
      const page: Answer<"GET", Path> = await client.get(path, query);
      // What was read is perhaps shown at once.
      progress.erase();
      yield page.items;
      read += page.items.length;
      token = page.continue;
    } while (token !== undefined);
  } finally {
    progress.end();
  }
}

/** For a filter which leaves few. */
export async function allAllocations(clock: Clock, client: Client, filter: Query): Promise<AllocationView[]> {
  return allOf(pagesOf(clock, client, "/v1/allocations", filter));
}

export async function allOf<Item>(pages: AsyncIterable<readonly Item[]>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const page of pages) for (const item of page) items.push(item);
  return items;
}
