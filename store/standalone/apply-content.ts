import { isObject, type JsonObject } from "../../ipam/definition/definition-keys.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { contentAnnotations, type ObjectKind, referencesIn } from "../../kube/views/content-annotations.ts";
import { isoTime } from "../../platform/time.ts";
import type { Ledger } from "../journal/ledger.ts";
import type { ClaimRow, ContentRow } from "../journal/rows.ts";
import { inSlices, mapClaims } from "../journal/slices.ts";
import type { AppliedContent, ApplyAction, ContentObject, ContentView } from "../manifests.ts";

/** Of one node: several for each of a thousand VMs. */
const OBJECTS_MAX = 4_096;
/** Of one node, all values: what a backup can be copied with in a second or two. */
const TOTAL_BYTES_MAX = 256 << 20;

/** Creates or changes a Secret or ConfigMap (docs/decisions/0042). Throws RefusalError when the node keeps too much. */
export function applyContent(ledger: Ledger, applied: AppliedContent): ApplyAction {
  const { sql, context } = ledger;
  const { namespace, kind, name, bytes } = applied;
  const known = sql.content.get(namespace, kind, name);
  const row = {
    labels: JSON.stringify(applied.labels),
    immutable: applied.immutable ? 1 : 0,
    data: JSON.stringify(applied.data),
  };
  const isSameData = known?.data === row.data;
  if (known && isSameData && known.labels === row.labels && known.immutable === row.immutable) return "unchanged";
  if (known?.immutable === 1 && (!isSameData || row.immutable === 0))
    refuseContent("immutable", "true", `${kind} ${namespace}/${name} cannot be changed; delete it first`);
  refuseTooMuch(ledger, applied, known?.bytes ?? null);
  const nowMs = context.clock.wallMs();
  const keys = JSON.stringify(keysOf(applied));
  sql.putContent.run(namespace, kind, name, row.labels, row.immutable, keys, row.data, bytes, nowMs);
  return known ? "configured" : "created";
}

function refuseTooMuch({ sql }: Ledger, { kind, bytes, name }: AppliedContent, before: number | null): void {
  const total = sql.contentTotals.get() ?? { n: 0, bytes: 0 };
  const remedy = "holdfast content lists them, and holdfast delete removes what no claim names";
  if (before === null && total.n >= OBJECTS_MAX)
    refuseContent(
      "metadata.name",
      JSON.stringify(name),
      `this node keeps ${total.n} Secrets and ConfigMaps, the most that it takes; ${remedy}`,
    );
  const after = total.bytes - (before ?? 0) + bytes;
  if (after > TOTAL_BYTES_MAX && bytes > (before ?? 0))
    refuseContent(
      "data",
      `${bytes} bytes long`,
      `with it this ${kind} and the others would be ${after} bytes, and a node takes ${TOTAL_BYTES_MAX}; ${remedy}`,
    );
}

/** False: there was none. */
export function deleteContent(
  { sql }: Ledger,
  { kind, namespace, name }: { readonly kind: ObjectKind; readonly namespace: string; readonly name: string },
): boolean {
  return sql.deleteContent.run(namespace, kind, name).changes > 0;
}

export function contentOf({ kind, namespace, name, labels, data }: ContentRow): ContentObject {
  return { kind, namespace, name, labels: JSON.parse(labels), data: JSON.parse(data) };
}

export async function contentViews(directory: { readonly ledger: Ledger }): Promise<ContentView[]> {
  const users = new Map<string, string[]>();
  const named = (claim: ClaimRow) =>
    [...contentOfClaim(claim)].map((key) => ({ key, claim: `${claim.namespace}/${claim.name}` }));
  for await (const uses of inSlices(directory, (ledger) => mapClaims(ledger, named))) {
    for (const { key, claim } of uses) {
      const known = users.get(key);
      if (known === undefined) users.set(key, [claim]);
      else known.push(claim);
    }
  }
  return directory.ledger.sql.contents.all().map((row) => ({
    kind: row.kind,
    namespace: row.namespace,
    name: row.name,
    labels: JSON.parse(row.labels),
    keys: JSON.parse(row.keys),
    bytes: row.bytes,
    claims: users.get(keyOf(row)) ?? [],
    creationTimestamp: isoTime(row.created_ms),
  }));
}

function contentOfClaim(claim: ClaimRow): Set<string> {
  const annotations = new Map(Object.entries(contentAnnotations(annotationsOf(claim))));
  return new Set(referencesIn([annotations]).map(({ kind, name }) => keyOf({ ...claim, kind, name })));
}

function keysOf({ data }: AppliedContent): ContentView["keys"] {
  return Object.entries(data).map(([key, value]) => ({ key, bytes: Buffer.byteLength(value, "base64") }));
}

function keyOf({ namespace, kind, name }: Pick<ContentRow, "namespace" | "kind" | "name">): string {
  return `${namespace}/${kind}/${name}`;
}

function refuseContent(key: string, value: string, remedy: string): never {
  throw new RefusalError(refuse("REQUEST_INVALID", { key, value, remedy }));
}

/** The annotations of a claim as applied; `{}` where there is nothing of that kind. */
export function annotationsOf({ manifest }: Pick<ClaimRow, "manifest">): JsonObject {
  const { annotations } = (JSON.parse(manifest) as { metadata: { annotations?: unknown } }).metadata;
  return isObject(annotations) ? annotations : {};
}
