import { parseNadConfig } from "../ipam/definition/nad-config.ts";
import { isNetworkName } from "../ipam/definition/plugin-config.ts";
import { parseRequestedAddress } from "../ipam/definition/requested-address.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import { formatInterfaceAddress, parseInterfaceAddress } from "../ipam/space/cidr.ts";
import type { AppliedClaim, AppliedContent, AppliedDefinition } from "../store/manifests.ts";
import { readContentManifest } from "./content-manifest.ts";
import { invalid, isObject, type Json, readName } from "./manifest-parts.ts";

export type AppliedObject =
  | { readonly kind: "IPAMClaim"; readonly claim: AppliedClaim }
  | { readonly kind: "NetworkAttachmentDefinition"; readonly definition: AppliedDefinition }
  | { readonly kind: "Secret" | "ConfigMap"; readonly content: AppliedContent };

/** Metadata kept from an applied object; the rest is set by the server. */
const KEPT_METADATA = ["labels", "annotations", "ownerReferences"];
const CLAIM_SPEC_KEYS = ["network", "interface", "ipRequests"];

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
