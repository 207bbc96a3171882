import {
  contentAnnotations,
  isServedOnNode,
  type ObjectKind,
  referencesIn,
} from "../kube/views/content-annotations.ts";
import { invalid, readQuery } from "../platform/api-query.ts";
import type { ContentObject } from "../store/manifests.ts";
import type { ContentOfClaims, IdentityStore } from "../store/node-store.ts";

/** Answer of `GET /v1/content`: what the claims of a container that runs here name for its guest. */
export interface ContentAnswer {
  /** In the order of attachment: of an annotation that several have, the first counts. All of one namespace. */
  readonly claims: readonly ContentClaim[];
  /** The named objects that exist and may be served, each once. */
  readonly objects: readonly Pick<ContentObject, "kind" | "name" | "data">[];
}

interface ContentClaim {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  /** Only those about content. */
  readonly annotations: Readonly<Record<string, string>>;
}

type ContentStore = ContentOfClaims & Pick<IdentityStore, "attachmentsOfContainer">;

/** Answers `GET /v1/content` on a node without Kubernetes. */
export class ContentService {
  readonly #store: ContentStore;

  constructor(store: ContentStore) {
    this.#store = store;
  }

  /** Nothing for a container that is not attached here. Throws StorageFault. */
  answer(container: string): ContentAnswer {
    const store = this.#store;
    const uids = store
      .attachmentsOfContainer(container)
      .flatMap(({ owner }) => (owner.kind === "claim" ? [owner.uid] : []));
    const all = [...new Set(uids)].flatMap((uid): ContentClaim[] => {
      const claim = store.claimByUid(uid);
      if (claim === null) return [];
      const { namespace, name, annotations } = claim;
      return [{ uid, namespace, name, annotations: contentAnnotations(annotations) }];
    });
    const namespace = all[0]?.namespace ?? "";
    const claims = all.map((one) => (one.namespace === namespace ? one : { ...one, annotations: {} }));
    const named = referencesIn(claims.map(({ annotations }) => new Map(Object.entries(annotations))));
    const keys = new Map(named.map(({ kind, name }) => [`${kind}/${name}`, { kind, name }]));
    const objects = [...keys.values()].flatMap(({ kind, name }) => {
      const found = servedObject(store, kind, namespace, name);
      return found === null ? [] : [{ kind, name, data: found.data }];
    });
    return { claims, objects };
  }
}

/** null: there is none that may be served. */
export function servedObject(
  store: Pick<ContentOfClaims, "contentObject">,
  kind: ObjectKind,
  namespace: string,
  name: string,
): ContentObject | null {
  const found = store.contentObject(kind, namespace, name);
  return found !== null && isServedOnNode(found.labels) ? found : null;
}

/** The container of a request. Throws RefusalError REQUEST_INVALID. */
export function readContentQuery(query: unknown): string {
  const { container } = readQuery(query, ["container"]);
  return container ?? invalid("container", container, "expected the ID of a container");
}
