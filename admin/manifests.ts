import { createHash } from "node:crypto";
import { type AddWaiters, claimKey } from "../claims/add-waiters.ts";
import { readManifest, readReference } from "../claims/manifest.ts";
import { servedObject } from "../identity/content.ts";
import { isObject } from "../ipam/definition/definition-keys.ts";
import type { NetworkMetadata } from "../ipam/definition/metadata-key.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import { ANNOTATIONS, contentAnnotations, type ObjectKind } from "../kube/views/content-annotations.ts";
import { readContent } from "../metadata/tenant/content.ts";
import { nodeObjects } from "../metadata/tenant/node-content.ts";
import type { ContentObject } from "../store/manifests.ts";
import type { AdminStore, Manifests, ManifestWrites } from "../store/node-store.ts";
import { refusalOf } from "../store/refusal-of.ts";
import type { AppliedResult, ObjectDiff } from "./admin-api.ts";

/** Of a value's sum: enough to see that it is another one. */
const SUM_CHARS = 16;

export interface ManifestParts {
  readonly store: Pick<AdminStore, "definition">;
  /** null: the Kubernetes API keeps claims and definitions. */
  readonly manifests: Manifests | null;
  readonly waiting: AddWaiters;
}

/** Where objects are applied. Throws RefusalError in a cluster, where kubectl does it. */
export function manifestsOf({ manifests }: Pick<ManifestParts, "manifests">, kind: string): Manifests {
  if (manifests !== null) return manifests;
  const remedy = "objects are kept by the Kubernetes API here; use kubectl";
  throw new RefusalError(refuse("REQUEST_INVALID", { key: "kind", value: kind, remedy }));
}

function writesOf(manifests: Manifests, isRehearsal: boolean): ManifestWrites {
  return isRehearsal ? manifests.rehearsal : manifests;
}

/** Creates or changes one claim, definition, Secret or ConfigMap. Problems are in the result. */
export async function applyObject(
  parts: ManifestParts,
  object: unknown,
  { isRehearsal = false } = {},
): Promise<AppliedResult> {
  const { store, waiting } = parts;
  try {
    const read = readManifest(object);
    const manifests = writesOf(manifestsOf(parts, read.kind), isRehearsal);
    if (read.kind === "IPAMClaim") {
      const action = await manifests.applyClaim(read.claim);
      if (!isRehearsal) waiting.wake(claimKey(read.claim));
      return { ...named(object), action };
    }
    if (read.kind !== "NetworkAttachmentDefinition")
      return { ...named(object), action: await manifests.applyContent(read.content) };
    const action = await manifests.applyDefinition(read.definition);
    const note = noteOn(store.definition(read.definition.network)?.metadata ?? null);
    return { ...named(object), action, ...(note === null ? {} : { note }) };
  } catch (error) {
    return { ...named(object), error: errorOf(error) };
  }
}

/** What to know about the metadata of a network; null: nothing in particular. */
function noteOn(metadata: NetworkMetadata | null): string | null {
  if (metadata?.tokens !== "required") return null;
  return "metadata.tokens is required: of cloud-init only the Ec2 source in a VM that looks like one of AWS asks for a token; others get nothing (docs/metadata.md, Tokens)";
}

/** Without what nobody wrote: of a Secret or ConfigMap the sizes and sums of its values. */
export function manifestsBeside(
  { manifests }: Pick<ManifestParts, "manifests">,
  object: unknown,
): Pick<ObjectDiff, "before" | "after"> {
  if (manifests === null) return { before: null, after: null };
  const read = readManifest(object);
  if (read.kind === "IPAMClaim" || read.kind === "NetworkAttachmentDefinition") {
    const { namespace, name, manifest } = read.kind === "IPAMClaim" ? read.claim : read.definition;
    return { before: manifests.manifest(read.kind, namespace, name), after: manifest };
  }
  const { kind, namespace, name } = read.content;
  const known = manifests.contentObject(kind, namespace, name);
  return { before: known && withoutValues(known), after: withoutValues(read.content) };
}

function withoutValues({ labels, data }: ContentObject): object {
  const sums = Object.entries(data).map(([key, base64]) => {
    const bytes = Buffer.from(base64, "base64");
    const sum = createHash("sha256").update(bytes).digest("hex").slice(0, SUM_CHARS);
    return [key, `${bytes.length} bytes, sha256 ${sum}`] as const;
  });
  return { metadata: { labels }, data: Object.fromEntries(sums) };
}

/** Deletes one claim, definition, Secret or ConfigMap. Problems are in the result. */
export async function deleteObject(
  parts: ManifestParts,
  object: unknown,
  { isRehearsal = false } = {},
): Promise<AppliedResult> {
  try {
    const { kind, namespace, name } = readReference(object);
    const manifests = writesOf(manifestsOf(parts, kind), isRehearsal);
    const missing = () => new RefusalError(refuse("NOT_FOUND", { what: `${kind} ${namespace}/${name}` }));
    if (kind === "IPAMClaim") {
      const deleted = await manifests.deleteClaim(namespace, name);
      if (!deleted) throw missing();
      return { kind, namespace, name, action: deleted.state };
    }
    const deleted =
      kind === "NetworkAttachmentDefinition"
        ? await manifests.deleteDefinition(namespace, name)
        : await manifests.deleteContent(kind, namespace, name);
    if (!deleted) throw missing();
    return { kind, namespace, name, action: "deleted" };
  } catch (error) {
    return { ...named(object), error: errorOf(error) };
  }
}

/** With a note on content that it names and its guest would not get. Call it when all applied together is there. */
export function withContentNote(
  { manifests }: Pick<ManifestParts, "manifests">,
  object: unknown,
  result: AppliedResult,
): AppliedResult {
  if ("error" in result || result.kind !== "IPAMClaim" || manifests === null) return result;
  const { annotations } = (object as { metadata: { annotations?: unknown } }).metadata;
  const own = contentAnnotations(isObject(annotations) ? annotations : {});
  const find = ({ kind, name }: { kind: ObjectKind; name: string }) =>
    servedObject(manifests, kind, result.namespace, name);
  const { problems, template } = readContent([new Map(Object.entries(own))], nodeObjects(find));
  const messages = problems.map(({ message }) => message);
  if (template !== null) messages.push(`annotation ${ANNOTATIONS.dataTemplate}: templates are for VMs of a cluster`);
  return messages.length === 0 ? result : { ...result, note: messages.join(" ") };
}

function errorOf(error: unknown): { code: string; message: string; hint: string } {
  const { code, message, hint } = refusalOf(error);
  return { code, message, hint };
}

/** However invalid the rest of it is. */
function named(object: unknown): { kind: string; namespace: string; name: string } {
  const { kind, metadata } = (object ?? {}) as {
    kind?: unknown;
    metadata?: { namespace?: unknown; name?: unknown };
  };
  return {
    kind: String(kind ?? "object"),
    namespace: String(metadata?.namespace ?? "default"),
    name: String(metadata?.name ?? ""),
  };
}
