import { isObject, type JsonObject } from "../../ipam/definition/definition-keys.ts";
import { isNamespaceName, NAME_CHARS_MAX } from "../../kube/object-names.ts";
import type { UdnView } from "./udn-object.ts";
import { udnSubnets } from "./udn-subnets.ts";

const NAMESPACE_CHARS_MAX = 63;
const FIELD = "metadataServiceRef";

/** A network's reference to the Service that answers its metadata requests. */
export type ServiceReference =
  | { readonly kind: "none" }
  | { readonly kind: "refers"; readonly namespace: string; readonly name: string }
  /** Messages are those of OVN-Kubernetes' proposal, where it has one. */
  | { readonly kind: "wrong"; readonly problems: readonly string[] };

/**
 * The reference of a (Cluster)UserDefinedNetwork: `metadataServiceRef` if the installed definition has it, else the
 * annotation. Validated by the rules for references alone, so that it does not get lost in other problems of the
 * network.
 */
export function readUdnServiceReference(view: UdnView): ServiceReference {
  const given = view.networkSpec[FIELD];
  const field = given === undefined || given === null ? fromAnnotation(view.serviceAnnotation) : given;
  if (field === null) return { kind: "none" };
  const problems: string[] = [];
  const name = readName(field, problems);
  const namespace = readNamespace(field, view, problems);
  problems.push(...networkProblems(view.networkSpec));
  if (problems.length > 0 || name === null || namespace === null) return { kind: "wrong", problems };
  return { kind: "refers", namespace, name };
}

/** The reference of a NetworkAttachmentDefinition of ours: a Service of its own namespace. */
export function readNadServiceReference(annotation: string | null, namespace: string): ServiceReference {
  const field = fromAnnotation(annotation);
  if (field === null) return { kind: "none" };
  const problems: string[] = [];
  const name = readName(field, problems);
  if (field.namespace !== undefined && field.namespace !== namespace)
    problems.push(otherNamespace(field.namespace, "NetworkAttachmentDefinition", namespace));
  return problems.length > 0 || name === null ? { kind: "wrong", problems } : { kind: "refers", namespace, name };
}

/** For conditions and events. */
export function describeReference(reference: ServiceReference): string {
  if (reference.kind === "none") return "no Service";
  return reference.kind === "wrong"
    ? reference.problems.join("; ")
    : `Service ${reference.namespace}/${reference.name}`;
}

function fromAnnotation(text: string | null): JsonObject | null {
  if (text === null) return null;
  const cut = text.indexOf("/");
  return cut < 0 ? { name: text.trim() } : { namespace: text.slice(0, cut).trim(), name: text.slice(cut + 1).trim() };
}

function readName(field: unknown, problems: string[]): string | null {
  const name = isObject(field) ? field.name : undefined;
  if (typeof name !== "string" || name === "") problems.push(`${FIELD}.name is required`);
  else if (name.length > NAME_CHARS_MAX)
    problems.push(`${FIELD}.name may not be longer than ${NAME_CHARS_MAX} characters`);
  else if (!/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(name))
    problems.push(`${FIELD}.name ${JSON.stringify(name)} is not the name of a Service`);
  else return name;
  return null;
}

function readNamespace(field: unknown, view: UdnView, problems: string[]): string | null {
  const namespace = isObject(field) ? field.namespace : undefined;
  const given = namespace !== undefined && namespace !== null && namespace !== "";
  if (view.kind === "UserDefinedNetwork") {
    if (given && namespace !== view.namespace) problems.push(otherNamespace(namespace, view.kind, view.namespace));
    return view.namespace;
  }
  if (!given) problems.push(`${FIELD}.namespace is required for ClusterUserDefinedNetwork`);
  else if (typeof namespace === "string" && namespace.length > NAMESPACE_CHARS_MAX)
    problems.push(`${FIELD}.namespace may not be longer than ${NAMESPACE_CHARS_MAX} characters`);
  else if (typeof namespace !== "string" || !isNamespaceName(namespace))
    problems.push(`${FIELD}.namespace ${JSON.stringify(namespace)} is not the name of a namespace`);
  else return namespace;
  return null;
}

/** Secondary networks have no Services, and the metadata service has an IPv4 address. */
function networkProblems(spec: JsonObject): string[] {
  const sections = [spec.layer2, spec.layer3].filter(isObject);
  const problems: string[] = [];
  if (!sections.some(({ role }) => role === "Primary"))
    problems.push(`${FIELD} is only supported for Primary network role`);
  if (!udnSubnets(spec).some(({ family }) => family === 4)) problems.push(`${FIELD} requires at least one IPv4 subnet`);
  return problems;
}

function otherNamespace(namespace: unknown, kind: string, own: string): string {
  return `${FIELD}.namespace is ${JSON.stringify(namespace)}: a ${kind} can refer to a Service of its own namespace ${own} only`;
}
