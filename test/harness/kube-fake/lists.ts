import { Compacted, type Entry, type Etcd } from "./etcd.ts";
import { badRequest, expired } from "./failure.ts";
import { isRecord, type KubeObject } from "./objects.ts";
import type { Asked } from "./requests.ts";
import { apiVersionOf, type Resource } from "./resources.ts";
import { type Selection, selectionOf, shown } from "./selection.ts";
import type { WatchCache } from "./watch-cache.ts";

const TOO_OLD_TO_GO_ON =
  "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";
const TOO_OLD = "The resourceVersion for the provided list is too old.";
const TOKEN_VERSION = "meta.k8s.io/v1";

/** Where a list goes on. `revision` -1: wherever the store is now. */
interface Token {
  readonly revision: number;
  /** The first key that is not before it. */
  readonly start: string;
}

/**
 * One page of a list. From the store, unless it asks for any version (`resourceVersion=0`) or one not older than N:
 * such a list comes from the cache in one piece, and waits for the cache where it has to. Throws Failure.
 */
export async function listPage(
  asked: Asked,
  { etcd, cache, metadataOnly }: { etcd: Etcd; cache: () => WatchCache; metadataOnly: boolean },
): Promise<KubeObject> {
  const { query } = asked;
  const selection = selectionOf(asked);
  const limit = Number(query.limit ?? 0);
  const version = query.resourceVersion ?? "";
  if (version !== "" && !/^\d+$/.test(version)) throw badRequest(`Invalid value: "${version}": strconv.ParseUint`);
  if (query.continue !== undefined && query.continue !== "") {
    if (version !== "" && version !== "0")
      throw badRequest("specifying resource version is not allowed when using continue");
    return pageOf(asked, selection, etcd, { token: tokenOf(query.continue), limit, metadataOnly });
  }
  if (version === "0" || (version !== "" && limit === 0)) {
    const reached = cache();
    await reached.until(Number(version));
    return fromCache(asked, selection, reached, metadataOnly);
  }
  const revision = version === "" ? etcd.revision : Number(version);
  return pageOf(asked, selection, etcd, { token: { revision, start: "" }, limit, metadataOnly });
}

function fromCache(asked: Asked, selection: Selection, cache: WatchCache, metadataOnly: boolean): KubeObject {
  const found = cache.entries(meantBy(selection));
  return envelope(asked.resource, found, { metadataOnly, metadata: { resourceVersion: `${cache.version}` } });
}

interface PageWish {
  readonly token: Token;
  readonly limit: number;
  readonly metadataOnly: boolean;
}

function pageOf(asked: Asked, selection: Selection, etcd: Etcd, wish: PageWish): KubeObject {
  const { token, limit, metadataOnly } = wish;
  const revision = token.revision === -1 ? etcd.revision : token.revision;
  const entries = rangeOf(asked, selection, etcd, token, revision);
  const found = entries.filter(meantBy(selection));
  const page = limit > 0 ? found.slice(0, limit) : found;
  const last = page.at(-1);
  // The server reads as many keys as are asked for, and only where none is left knows that it is at the end.
  const left = last === undefined ? 0 : entries.filter(({ key }) => key > last.key).length;
  const more = limit > 0 && page.length === limit && left > 0;
  const next = more && last !== undefined ? encoded({ revision, start: `${last.key}\0` }) : undefined;
  const metadata = {
    resourceVersion: `${revision}`,
    ...(next === undefined ? {} : { continue: next }),
    ...(next === undefined || selection.isPartial ? {} : { remainingItemCount: left }),
  };
  return envelope(asked.resource, page, { metadataOnly, metadata });
}

function rangeOf({ resource }: Asked, { prefix }: Selection, etcd: Etcd, { start }: Token, revision: number): Entry[] {
  try {
    return etcd.range(resource.storage, prefix, revision).filter(({ key }) => key >= start);
  } catch (error) {
    if (!(error instanceof Compacted)) throw error;
    throw start === "" ? expired(TOO_OLD) : expired(TOO_OLD_TO_GO_ON, encoded({ revision: -1, start }));
  }
}

function meantBy({ key, passes }: Selection): (entry: Entry) => boolean {
  return (entry) => (key === null || entry.key === key) && passes(entry.object);
}

function envelope(
  resource: Resource,
  entries: readonly Entry[],
  { metadataOnly, metadata }: { readonly metadataOnly: boolean; readonly metadata: KubeObject },
): KubeObject {
  const items = entries.map(({ object }) => shown(object, resource, { metadataOnly, inList: true }));
  if (metadataOnly) return { kind: "PartialObjectMetadataList", apiVersion: "meta.k8s.io/v1", metadata, items };
  // Lists of custom objects say that nothing comes after them.
  if (resource.custom) metadata.continue ??= "";
  return { kind: `${resource.kind}List`, apiVersion: apiVersionOf(resource), metadata, items };
}

function encoded({ revision, start }: Token): string {
  return Buffer.from(JSON.stringify({ v: TOKEN_VERSION, rv: revision, start })).toString("base64url");
}

function tokenOf(text: string): Token {
  try {
    const token: unknown = JSON.parse(Buffer.from(text, "base64url").toString());
    if (isRecord(token) && token.v === TOKEN_VERSION)
      return { revision: token.rv as number, start: token.start as string };
  } catch {
    // Not one of ours.
  }
  throw badRequest(`invalid continue token: continue key is not valid: ${text}`);
}
