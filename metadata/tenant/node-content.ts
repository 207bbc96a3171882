import { Buffer } from "node:buffer";
import type { ContentAnswer } from "../../identity/content.ts";
import { IdentityAway } from "../../identity/source.ts";
import type { IdentityView } from "../../identity/wire.ts";
import {
  type ContentReference,
  isTenantId,
  SERVE_LABEL,
  TENANT_ID_ANNOTATION,
} from "../../kube/views/content-annotations.ts";
import type { QuietLog } from "../../platform/log.ts";
import type { Clock } from "../../platform/time.ts";
import type { ContentObject } from "../../store/manifests.ts";
import { readContent, type TenantContent, type TenantObjects } from "./content.ts";

/** How long content is used again, ms: the delay of a change. A guest's boot is 28 requests. */
const USED_AGAIN_MS_MAX = 1_000;

/** Where a node without Kubernetes keeps content: its daemon. */
export interface ContentSource {
  /** Of a container that runs here; null: the daemon keeps none. Rejects with IdentityAway. */
  contentOf(container: string): Promise<ContentAnswer | null>;
}

interface NodeContentOptions {
  readonly source: ContentSource;
  readonly log: Pick<QuietLog, "warn">;
  readonly clock: Clock;
}

export interface NodeContent extends TenantContent {
  /** As the claim's annotation says; null: it says none. */
  readonly tenantId: string | null;
}

interface CachedContent {
  readonly content: Promise<NodeContent>;
  readonly untilMs: number;
}

/** What the claims of guests name for them, as the daemon of this node keeps it. */
export class NodeContents {
  readonly #options: NodeContentOptions;
  /** By container and claims, the oldest first: a container ID that is used again has other claims. */
  readonly #cache = new Map<string, CachedContent>();

  constructor(options: NodeContentOptions) {
    this.#options = options;
  }

  /** At most a second old. Rejects with IdentityAway. */
  async of({ pods, interfaces }: IdentityView): Promise<NodeContent> {
    const claims = interfaces.flatMap(({ owner }) => (owner.kind === "claim" ? [owner.uid] : []));
    const container = pods[0]?.containerID;
    if (claims.length === 0 || container === undefined) return NO_CONTENT;
    const key = [container, ...claims].join(" ");
    const nowMs = this.#options.clock.monotonicMs();
    this.#dropUntil(nowMs);
    const known = this.#cache.get(key);
    if (known !== undefined) return known.content;
    const content = this.#read(container, claims);
    this.#cache.set(key, { content, untilMs: nowMs + USED_AGAIN_MS_MAX });
    content.catch(() => this.#cache.delete(key));
    return content;
  }

  async #read(container: string, claims: readonly string[]): Promise<NodeContent> {
    const answer = await this.#options.source.contentOf(container);
    if (answer === null) return NO_CONTENT;
    // Otherwise the container has ended since: a guest must not boot without its keys because of that.
    if (!claims.every((uid) => answer.claims.some((claim) => claim.uid === uid)))
      throw new IdentityAway(`what uses the address has just ended: container ${container}`);
    const content = readContent(
      answer.claims.map(({ annotations }) => new Map(Object.entries(annotations))),
      nodeObjects(({ kind, name }) => answer.objects.find((one) => one.kind === kind && one.name === name)),
    );
    const [claim] = answer.claims;
    const warn = (message: string) =>
      this.#options.log.warn({ claim: `${claim?.namespace}/${claim?.name}`, message }, "content is missing");
    for (const { message } of content.problems) warn(message);
    const text = answer.claims.map(({ annotations }) => annotations[TENANT_ID_ANNOTATION]).find(Boolean);
    if (text !== undefined && !isTenantId(text)) warn(whyNoTenantId(text));
    return { ...content, tenantId: text !== undefined && isTenantId(text) ? text : null };
  }

  /** Content may be large, and few guests boot at a time. */
  #dropUntil(nowMs: number): void {
    for (const [key, { untilMs }] of this.#cache) {
      if (untilMs > nowMs) return;
      this.#cache.delete(key);
    }
  }
}

function whyNoTenantId(text: string): string {
  const shown = JSON.stringify(text.slice(0, 100));
  return `annotation ${TENANT_ID_ANNOTATION}: ${shown} cannot be sent as X-Tenant-ID, so the namespace's name is; use 1 to 255 visible ASCII characters without comma`;
}

/** Objects that were applied to a node. `find`: only those that may be served. */
export function nodeObjects(
  find: (reference: Pick<ContentReference, "kind" | "name">) => Pick<ContentObject, "data"> | null | undefined,
): TenantObjects {
  return {
    find: (kind, name) => {
      const found = find({ kind, name });
      if (!found) return undefined;
      const entries = Object.entries(found.data);
      return { data: new Map(entries.map(([key, text]) => [key, Buffer.from(text, "base64")])) };
    },
    whyMissing: ({ kind, name }) =>
      `is not in the claim's namespace, or is switched off by its label ${SERVE_LABEL}; holdfast apply ${kind.toLowerCase()} ${name} --from-file DIRECTORY`,
  };
}

const NO_CONTENT: NodeContent = {
  tenantId: null,
  userData: null,
  vendorData: null,
  publicKeys: [],
  meta: {},
  hostname: null,
  publicIPv4: null,
  publicHostname: null,
  template: null,
  problems: [],
  forbidden: [],
};
