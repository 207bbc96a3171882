/**
 * Annotations by which a tenant configures the content for a VM, on the VirtualMachine or the VirtualMachineInstance
 * (where `spec.template.metadata.annotations` ends up). The VirtualMachine's take precedence.
 */
export const ANNOTATIONS = {
  userData: "metadata.holdfast.dev/user-data",
  vendorData: "metadata.holdfast.dev/vendor-data",
  publicKeys: "metadata.holdfast.dev/public-keys",
  meta: "metadata.holdfast.dev/meta",
  hostname: "metadata.holdfast.dev/hostname",
  publicIPv4: "metadata.holdfast.dev/public-ipv4",
  publicHostname: "metadata.holdfast.dev/public-hostname",
  dataTemplate: "metadata.holdfast.dev/data-template",
} as const;

/** X-Tenant-ID of VMs: on their namespace, for its UID; on a node alone on their claims, for the namespace's name. */
export const TENANT_ID_ANNOTATION = "metadata.holdfast.dev/tenant-id";
/** In a cluster only Secrets and ConfigMaps with this label are read, whatever an annotation names. */
export const SERVE_LABEL = "metadata.holdfast.dev/serve";
/** Where guests' passwords are kept, in the namespace of the VM. */
export const PASSWORDS_CONFIG_MAP = "holdfast-guest-passwords";

/** kubectl keeps a copy of the whole object there, which no template names. */
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";
/** Of an object, as the API server takes it. */
const OBJECT_NAME = /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/;
/** `secret/name` or `configmap/name/key`; names and keys as the API server takes them. */
const REFERENCE =
  /^(?<kind>[Ss]ecret|[Cc]onfig[Mm]ap)\/(?<name>[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)(?:\/(?<key>[A-Za-z0-9._-]{1,253}))?$/;
/** Characters that a header can carry without being split into several values: visible ASCII, no comma. */
const TENANT_ID = /^[!-+\--~]{1,255}$/;
/** A label, or several with dots between; the dot at the end says that the name is whole. */
const HOSTNAME =
  /^(?=.{1,253}\.?$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*\.?$/i;

export type ObjectKind = "Secret" | "ConfigMap";
export type ContentPart = keyof typeof ANNOTATIONS;
const OBJECT_PARTS = ["userData", "vendorData", "publicKeys", "meta"] as const satisfies readonly ContentPart[];

/** A Secret or ConfigMap of the VM's own namespace, or one key of it. */
export type ContentReference = Readonly<NonNullable<ReturnType<typeof parseContentReference>>>;

/** Reads `secret/<name>[/<key>]` or `configmap/<name>[/<key>]`; null: it is neither. */
export function parseContentReference(text: string) {
  const found = REFERENCE.exec(text.trim())?.groups;
  if (found?.kind === undefined || found.name === undefined) return null;
  const kind: ObjectKind = found.kind.toLowerCase() === "secret" ? "Secret" : "ConfigMap";
  // Key null: the default one, or all of them.
  return { kind, name: found.name, key: found.key ?? null };
}

/** The objects that annotations name. `annotations`: the first that has a name counts. */
export function referencesIn(annotations: readonly ReadonlyMap<string, string>[]): ContentReference[] {
  return OBJECT_PARTS.map((part) => parseContentReference(annotationOf(annotations, part) ?? "")).filter(
    (reference) => reference !== null && !isForPasswords(reference),
  ) as ContentReference[];
}

/** An empty value counts as none, so that a VM can override its template. */
export function annotationOf(annotations: readonly ReadonlyMap<string, string>[], part: ContentPart): string | null {
  const name = ANNOTATIONS[part];
  const text = annotations.find((one) => one.has(name))?.get(name) ?? "";
  return text.trim() === "" ? null : text.trim();
}

export function isForPasswords({ kind, name }: Pick<ContentReference, "kind" | "name">): boolean {
  return kind === "ConfigMap" && name === PASSWORDS_CONFIG_MAP;
}

/** Who applies it on a node applies the claims as well: the label is not required, but may switch it off. */
export function isServedOnNode(labels: Readonly<Record<string, string>>): boolean {
  return (labels[SERVE_LABEL] ?? "true") === "true";
}

/** Those of all annotations of an object that are about content. Numbers and booleans count as YAML writes them. */
export function contentAnnotations(all: Readonly<Record<string, unknown>>): Record<string, string> {
  return Object.fromEntries(
    [...Object.values(ANNOTATIONS), TENANT_ID_ANNOTATION].flatMap((name) => {
      const value = all[name];
      const isScalar = ["string", "number", "boolean"].includes(typeof value);
      return isScalar ? [[name, String(value)]] : [];
    }),
  );
}

export function isTenantId(text: string): boolean {
  return TENANT_ID.test(text);
}

export function isHostname(text: string): boolean {
  return HOSTNAME.test(text);
}

export function isTemplateName(text: string): boolean {
  return OBJECT_NAME.test(text);
}

/** Those of a VM that are kept: a template may name any but kubectl's. */
export function keptAnnotations(all: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  return new Map([...all].filter(([name]) => name !== LAST_APPLIED));
}
