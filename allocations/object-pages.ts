import { BAD_REQUEST, type KubeApi, ListRefused } from "../kube/kube-api.ts";
import type { PageRequest } from "./filter.ts";
import { badToken, decodeToken, encodeToken } from "./pages.ts";
import type { Page } from "./records.ts";

/**
 * Objects that the API server is asked for at once, at most, as in its own client: half a megabyte of allocations, and
 * less than a tenth of a second.
 */
const OBJECTS_MAX = 500;

interface Named {
  readonly metadata: { readonly namespace?: string; readonly name: string };
}

/** What a list shows of a collection. */
export interface ShownObjects<Wire extends Named, Item> {
  readonly path: string;
  /** Selectors. */
  readonly query: Readonly<Record<string, string>>;
  /** null: it is not in the list. */
  readonly itemOf: (object: Wire) => Item | null;
  /** By which items are sorted where all of them are on one page. */
  readonly placeOf: (item: Item) => readonly [string, string];
}

/**
 * A page of a collection of the API, in the order in which the server has it, by namespace and name: what some hundred
 * objects bring, but one item at least unless it is the last. The collection is read once for all pages together, and
 * none of it is kept between them: the token says where to go on at the server, and names the last object, so that none
 * is shown again where the server has to begin anew. See docs/decisions/0076.
 */
export async function pageOfObjects<Wire extends Named, Item>(
  api: Pick<KubeApi, "list">,
  { limit, continue: token }: PageRequest,
  shown: ShownObjects<Wire, Item>,
): Promise<Page<Item>> {
  let [next, last] = decodeToken(token);
  // As many as there may be items; where few of them are, more.
  for (let atOnce = Math.min(limit, OBJECTS_MAX); ; atOnce = Math.min(2 * atOnce, OBJECTS_MAX)) {
    const read = await readObjects(api, shown, { next, last, limit, atOnce }).catch((error: unknown) => {
      if (token !== undefined && error instanceof ListRefused && error.status === BAD_REQUEST) throw badToken(token);
      throw error;
    });
    const { items } = read;
    if (read.next === null) {
      const isAll = token === undefined && next === "";
      return { items: isAll ? sorted(items, shown.placeOf) : items };
    }
    ({ next, last } = read);
    if (items.length > 0) return { items, continue: encodeToken(next, last) };
  }
}

interface Place {
  /** The server's token; "": its first page. */
  readonly next: string;
  /** The last object that was looked at; "": none. */
  readonly last: string;
}

/** What comes after a place, up to the end of the server's page. `next` null: there is nothing after it. */
async function readObjects<Wire extends Named, Item>(
  api: Pick<KubeApi, "list">,
  { path, query, itemOf }: Pick<ShownObjects<Wire, Item>, "path" | "query" | "itemOf">,
  from: Place & { readonly limit: number; readonly atOnce: number },
): Promise<{ readonly items: Item[]; readonly last: string; readonly next: string | null }> {
  let items: Item[] = [];
  let { last } = from;
  let isCut = false;
  const answer = await api.list({
    path,
    query: { ...query, limit: String(from.atOnce), ...(from.next === "" ? {} : { continue: from.next }) },
    onePage: true,
    each: (object: Wire) => {
      const key = keyOf(object);
      if (isCut || key <= last) return;
      const item = itemOf(object);
      isCut = item !== null && items.length === from.limit;
      if (isCut) return;
      last = key;
      if (item !== null) items.push(item);
    },
    restarted: () => {
      items = [];
      last = from.last;
      isCut = false;
    },
  });
  if (isCut) return { items, last, next: from.next };
  return { items, last, next: answer.kind === "listed" ? (answer.next ?? null) : null };
}

/** By which the server sorts. */
function keyOf({ metadata: { namespace, name } }: Named): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

function sorted<Item>(items: readonly Item[], placeOf: ShownObjects<never, Item>["placeOf"]): Item[] {
  return items
    .map((item) => ({ item, place: placeOf(item) }))
    .sort((a, b) => compareTexts(a.place, b.place))
    .map(({ item }) => item);
}

function compareTexts(a: readonly [string, string], b: readonly [string, string]): number {
  const at = a[0] === b[0] ? 1 : 0;
  return a[at] === b[at] ? 0 : a[at] < b[at] ? -1 : 1;
}
