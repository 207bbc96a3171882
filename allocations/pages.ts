import { RefusalError, refuse } from "../ipam/refusals.ts";
import type { PageRequest } from "./filter.ts";
import type { Page } from "./records.ts";

/** Of a page as JSON, characters: 400 ordinary allocations. A page that would be longer ends before its limit. */
const PAGE_CHARS_MAX = 256 << 10;

/** An item of a list, and the token of a page that begins after it. */
export interface Listed<Item> {
  readonly item: Item;
  token(): string;
}

/** The first of some items. A token names an item and not a number, so that changes between two pages lose nothing. */
export async function pageOf<Item>(
  slices: AsyncIterable<Iterable<Listed<Item>>>,
  { limit }: Pick<PageRequest, "limit">,
): Promise<Page<Item>> {
  const items: Item[] = [];
  let last: Listed<Item> | null = null;
  let chars = 0;
  for await (const slice of slices) {
    for (const listed of slice) {
      if (last !== null && (items.length === limit || chars > PAGE_CHARS_MAX)) return { items, continue: last.token() };
      items.push(listed.item);
      chars += JSON.stringify(listed.item).length;
      last = listed;
    }
  }
  return { items };
}

/** The two parts of an item's position, by which the list is sorted. */
export function encodeToken(first: string, second: string): string {
  return Buffer.from(JSON.stringify([first, second])).toString("base64url");
}

/** A position before all others where there is no token. Throws RefusalError when the token is not one of ours. */
export function decodeToken(token: string | undefined): [first: string, second: string] {
  if (token === undefined) return ["", ""];
  try {
    const [first, second] = JSON.parse(Buffer.from(token, "base64url").toString()) as [unknown, unknown];
    if (typeof first === "string" && typeof second === "string") return [first, second];
  } catch {
    // Falls through to the one message for whatever is wrong with it.
  }
  throw badToken(token);
}

export function badToken(token: string): RefusalError {
  const remedy = "expected the token of the page before, unchanged; ask for the first page again";
  return new RefusalError(refuse("REQUEST_INVALID", { key: "continue", value: token, remedy }));
}
