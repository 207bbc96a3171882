import { Buffer } from "node:buffer";
import { parseNadConfig } from "../ipam/definition/nad-config.ts";
import { isNetworkName } from "../ipam/definition/plugin-config.ts";
import { parseRequestedAddress } from "../ipam/definition/requested-address.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import { formatInterfaceAddress, parseInterfaceAddress } from "../ipam/space/cidr.ts";
import { isObjectName } from "../kube/views/claim-reference.ts";
import { isForPasswords, type ObjectKind } from "../kube/views/content-annotations.ts";
import type { AppliedClaim, AppliedContent, AppliedDefinition } from "../store/manifests.ts";

type Json = Readonly<Record<string, unknown>>;

export type AppliedObject =
  | { readonly kind: "IPAMClaim"; readonly claim: AppliedClaim }
  | { readonly kind: "NetworkAttachmentDefinition"; readonly definition: AppliedDefinition }
  | { readonly kind: "Secret" | "ConfigMap"; readonly content: AppliedContent };

/** Metadata kept from an applied object; the rest is set by the server. */
const KEPT_METADATA = ["labels", "annotations", "ownerReferences"];
const CLAIM_SPEC_KEYS = ["network", "interface", "ipRequests"];

/** All values of one object together, as in Kubernetes. */
const CONTENT_BYTES_MAX = 1 << 20;
const KEY_CHARS_MAX = 253;
/** As the API server takes them; `..` could leave a directory. */
const KEY = /^(?!\.\.)(?!\.$)[A-Za-z0-9._-]+$/;
/** RFC 4648 with padding; line ends are ignored, as Kubernetes does. */
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

const COMMON_KEYS = ["apiVersion", "kind", "metadata", "data", "immutable"];
const KNOWN_KEYS: Readonly<Record<ObjectKind, readonly string[]>> = {
  Secret: [...COMMON_KEYS, "stringData", "type"],
  ConfigMap: [...COMMON_KEYS, "binaryData"],
};
/** Where values are base64, where they are text, and which counts for a key that both have. */
const ENCODED = { Secret: "data", ConfigMap: "binaryData" } as const;
const PLAIN = { Secret: "stringData", ConfigMap: "data" } as const;

/** As `kubectl apply` would take it. Throws RefusalError CONFIG_INVALID or REQUEST_INVALID that names the key. */
export function readManifest(object: unknown): AppliedObject {
  if (!isObject(object)) invalid("object", object, "expected a Kubernetes object with apiVersion, kind and metadata");
  const { apiVersion, kind } = object;
  if (apiVersion === "k8s.cni.cncf.io/v1alpha1" && kind === "IPAMClaim") {
    return { kind, claim: readClaim(object) };
  }
  if (apiVersion === "k8s.cni.cncf.io/v1" && kind === "NetworkAttachmentDefinition") {
    return { kind, definition: readDefinition(object) };
  }
  if (apiVersion === "v1" && (kind === "Secret" || kind === "ConfigMap")) {
    return { kind, content: readContentManifest(object, kind) };
  }
  invalid(
    "apiVersion, kind",
    `${String(apiVersion)} ${String(kind)}`,
    "expected an IPAMClaim of k8s.cni.cncf.io/v1alpha1, a NetworkAttachmentDefinition of k8s.cni.cncf.io/v1, or a Secret or ConfigMap of v1",
  );
}

/** `namespace/name` of an object to be deleted. Throws RefusalError as readManifest does. */
export function readReference(object: unknown): {
  kind: AppliedObject["kind"];
  namespace: string;
  name: string;
} {
  if (!isObject(object)) invalid("object", object, "expected a Kubernetes object");
  const { kind } = object;
  if (!isKind(kind)) invalid("kind", kind, `expected ${KINDS.join(", ")}`);
  return { kind, ...readName(object) };
}

const KINDS = ["IPAMClaim", "NetworkAttachmentDefinition", "Secret", "ConfigMap"] as const;

function isKind(kind: unknown): kind is AppliedObject["kind"] {
  return (KINDS as readonly unknown[]).includes(kind);
}

function readClaim(object: Json): AppliedClaim {
  const { namespace, name } = readName(object);
  const spec = isObject(object.spec) ? object.spec : invalid("spec", object.spec, "expected an object");
  const unknown = Object.keys(spec).find((key) => !CLAIM_SPEC_KEYS.includes(key));
  if (unknown) invalid(`spec.${unknown}`, spec[unknown], `an IPAMClaim has ${CLAIM_SPEC_KEYS.join(", ")}`);
  const { network, interface: interfaceName = "", ipRequests = [] } = spec;
  if (typeof network !== "string" || !isNetworkName(network)) {
    invalid("spec.network", network, "expected the name of a network: the `name` in its CNI configuration");
  }
  if (typeof interfaceName !== "string") invalid("spec.interface", interfaceName, "expected a string");
  if (!Array.isArray(ipRequests)) invalid("spec.ipRequests", ipRequests, "expected a list of addresses");
  for (const request of ipRequests) parseRequestedAddress(request, "spec.ipRequests");
  const metadata = keepMetadata(object);
  return {
    namespace,
    name,
    network,
    manifest: { metadata, spec: { ...spec, interface: interfaceName } },
    vm: readVm(metadata),
    ips: readIps(object.status),
  };
}

/** A restored claim has addresses. */
function readIps(status: unknown): string[] {
  if (status === undefined || status === null) return [];
  if (!isObject(status)) invalid("status", status, "expected an object");
  const ips = status.ips ?? [];
  if (!Array.isArray(ips)) invalid("status.ips", ips, "expected a list of addresses with prefix length");
  return ips.map((ip) => {
    try {
      return formatInterfaceAddress(parseInterfaceAddress(String(ip)));
    } catch (error) {
      return invalid("status.ips", ip, (error as Error).message);
    }
  });
}

/** The VM behind a claim: its owner, else the label that KubeVirt's IPAM controller sets. */
function readVm(metadata: Json): { name: string; uid: string } {
  const { ownerReferences: owners = [] } = metadata;
  if (!Array.isArray(owners) || !owners.every(isObject)) {
    invalid("metadata.ownerReferences", owners, "expected a list of objects");
  }
  for (const owner of owners) {
    if (owner.kind === "VirtualMachine" || owner.kind === "VirtualMachineInstance") {
      return { name: String(owner.name ?? ""), uid: String(owner.uid ?? "") };
    }
  }
  const labels = isObject(metadata.labels) ? metadata.labels : {};
  return { name: String(labels["kubevirt.io/vm"] ?? ""), uid: "" };
}

function readDefinition(object: Json): AppliedDefinition {
  const { namespace, name } = readName(object);
  const config = isObject(object.spec) ? object.spec.config : undefined;
  if (typeof config !== "string" || config.trim() === "") {
    invalid("spec.config", config, "expected the CNI configuration as a JSON string");
  }
  const read = parseNadConfig(config, name);
  if (read.definition.rangeSets.length === 0) {
    throw new RefusalError(refuse("NETWORK_UNDEFINED", { network: read.network }));
  }
  return {
    namespace,
    name,
    network: read.network,
    config,
    manifest: { metadata: keepMetadata(object), spec: { config } },
  };
}

function keepMetadata(object: Json): Json {
  const metadata = object.metadata as Json;
  return Object.fromEntries(
    KEPT_METADATA.flatMap((key) => (metadata[key] === undefined ? [] : [[key, metadata[key]]])),
  );
}

/** No message contains a value. Throws RefusalError REQUEST_INVALID that names the key. */
function readContentManifest(object: Json, kind: ObjectKind): AppliedContent {
  const { namespace, name } = readName(object);
  if (isForPasswords({ kind, name }))
    invalid("metadata.name", name, "that ConfigMap is for passwords in a cluster; use another name");
  const unknown = Object.keys(object).find((key) => !KNOWN_KEYS[kind].includes(key));
  if (unknown !== undefined) refuseValue(unknown, "unknown", `a ${kind} has ${KNOWN_KEYS[kind].slice(3).join(", ")}`);
  const { immutable = false } = object;
  if (typeof immutable !== "boolean") refuseValue("immutable", kindOf(immutable), "expected true or false");
  const values = readValues(object, kind);
  const bytes = Object.values(values).reduce((sum, value) => sum + value.length, 0);
  if (bytes > CONTENT_BYTES_MAX) {
    const remedy = `at most ${CONTENT_BYTES_MAX} bytes fit into a ${kind}, as in Kubernetes; let user-data #include the rest from a server`;
    refuseValue(ENCODED[kind], `${bytes} bytes long`, remedy);
  }
  const data = Object.fromEntries(
    Object.entries(values)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, value]) => [key, value.toString("base64")]),
  );
  return { kind, namespace, name, labels: readLabels(object), immutable, data, bytes };
}

function readValues(object: Json, kind: ObjectKind): Record<string, Buffer> {
  const encoded = readEntries(object, ENCODED[kind], decodeBase64);
  const plain = readEntries(object, PLAIN[kind], (text) => Buffer.from(text, "utf8"));
  const twice = kind === "ConfigMap" && Object.keys(plain).find((key) => Object.hasOwn(encoded, key));
  if (twice) refuseValue(`data.${twice}`, "given twice", "it is in binaryData as well; leave one out");
  return { ...encoded, ...plain };
}

function readEntries(
  object: Json,
  field: string,
  read: (text: string, path: string) => Buffer,
): Record<string, Buffer> {
  const entries = object[field] ?? {};
  if (!isObject(entries)) refuseValue(field, kindOf(entries), "expected an object: keys with their values");
  return Object.fromEntries(
    Object.entries(entries).map(([key, value]) => {
      if (key.length > KEY_CHARS_MAX || !KEY.test(key)) {
        const remedy = "expected letters, digits, '-', '_' and '.', at most 253, not beginning with '..'";
        refuseValue(`a key of ${field}`, JSON.stringify(key.slice(0, KEY_CHARS_MAX)), remedy);
      }
      const path = `${field}.${key}`;
      // As kubectl takes `key:` with nothing behind it.
      const text = value ?? "";
      if (typeof text !== "string") refuseValue(path, kindOf(text), "expected a string; put it in quotes");
      return [key, read(text, path)];
    }),
  );
}

function decodeBase64(text: string, path: string): Buffer {
  const joined = text.replaceAll(/[\r\n]/g, "");
  if (joined.length % 4 !== 0 || !BASE64.test(joined)) {
    const instead = path.startsWith("data.") ? "stringData" : "data";
    refuseValue(path, "not base64", `encode it (base64 -w0 FILE), or write the text itself under ${instead}`);
  }
  return Buffer.from(joined, "base64");
}

function readLabels({ metadata }: Json): Record<string, string> {
  const labels = (isObject(metadata) ? metadata.labels : undefined) ?? {};
  if (!isObject(labels)) refuseValue("metadata.labels", kindOf(labels), "expected an object");
  return Object.fromEntries(
    Object.entries(labels).map(([key, value]) => {
      if (typeof value === "string") return [key, value];
      return refuseValue(`metadata.labels["${key}"]`, kindOf(value), "expected a string; put it in quotes");
    }),
  );
}

/** What a value is, without telling it: it may be secret. */
function kindOf(value: unknown): string {
  if (value === null) return "null";
  if (typeof value === "object") return Array.isArray(value) ? "a list" : "an object";
  return `a ${typeof value}`;
}

function refuseValue(key: string, value: string, remedy: string): never {
  throw new RefusalError(refuse("REQUEST_INVALID", { key, value, remedy }));
}

/** Name and namespace of an applied object. Throws RefusalError REQUEST_INVALID that names the key. */
function readName(object: Json): { namespace: string; name: string } {
  const metadata = isObject(object.metadata)
    ? object.metadata
    : invalid("metadata", object.metadata, "expected an object");
  const { name, namespace = "default" } = metadata;
  for (const [key, value] of Object.entries({ name, namespace })) {
    if (typeof value !== "string" || !isObjectName(value)) {
      invalid(
        `metadata.${key}`,
        value,
        "expected lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit",
      );
    }
  }
  return { name: name as string, namespace: namespace as string };
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function invalid(key: string, value: unknown, remedy: string): never {
  throw new RefusalError(refuse("REQUEST_INVALID", { key, value: JSON.stringify(value) ?? "absent", remedy }));
}
