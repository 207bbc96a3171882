import { invalid, isGiven } from "../../ipam/definition/definition-keys.ts";
import { readClaimReference } from "./claim-reference.ts";
import { readElement, referenceOf, type SelectionElement, splitSelection } from "./selection-element.ts";

/** The additional interfaces of a pod (network attachment specification, "network selection annotation"). */
export const NETWORKS_ANNOTATION = "k8s.v1.cni.cncf.io/networks";
/** The network of the primary interface, in the same two forms, where a pod has one of its own. */
export const DEFAULT_NETWORK_ANNOTATION = "v1.multus-cni.io/default-network";
/** The claim of the primary interface, a bare name. */
export const PRIMARY_CLAIM_ANNOTATION = "k8s.ovn.org/primary-udn-ipamclaim";
export const SELECTION_ANNOTATIONS = [
  NETWORKS_ANNOTATION,
  DEFAULT_NETWORK_ANNOTATION,
  PRIMARY_CLAIM_ANNOTATION,
] as const;

/** Namespace in which Multus looks for the NAD of the default network, and of an annotation without a namespace. */
export const DEFAULT_NETWORK_NAMESPACE = "kube-system";
/** The name that every runtime gives to the pod's primary interface. */
export const PRIMARY_INTERFACE = "eth0";

export type NetworkSelection = Readonly<ReturnType<typeof readNetworkSelection>>;

export type Annotations = Readonly<Record<string, string>>;

/** Throws RefusalError: CONFIG_INVALID with the annotation, also of two for one interface, or CLAIM_OTHER_NAMESPACE. */
export function readNetworkSelection(annotations: Annotations, podNamespace: string) {
  const elements = readElements(annotations, NETWORKS_ANNOTATION, podNamespace, podNamespace);
  const seen = new Map<string, number>();
  for (const element of elements) {
    const name = interfaceOf(element);
    const other = seen.get(name);
    if (other !== undefined) {
      invalid(
        { key: `annotation ${NETWORKS_ANNOTATION}, element ${element.position}, interface`, value: name },
        `element ${other} has it already; each element needs an interface of its own`,
      );
    }
    seen.set(name, element.position);
  }
  return { elements, primary: readPrimary(annotations, podNamespace) };
}

/**
 * The element for an interface, by its CNI name: the one that names it, else the one without a name at position N of
 * `net<N>`. The primary interface has the element of the default network unless an additional one claims its name.
 * Runtimes name it `eth0`, which `primary` overrides.
 */
export function elementFor(
  selection: NetworkSelection,
  interfaceName: string,
  { primary = PRIMARY_INTERFACE }: { readonly primary?: string } = {},
): SelectionElement | null {
  const element = selection.elements.find((one) => interfaceOf(one) === interfaceName);
  return element ?? (interfaceName === primary ? selection.primary : null);
}

function interfaceOf(element: SelectionElement): string {
  return element.interface ?? `net${element.position}`;
}

function readPrimary(annotations: Annotations, podNamespace: string): SelectionElement | null {
  const [network, second] = readElements(
    annotations,
    DEFAULT_NETWORK_ANNOTATION,
    DEFAULT_NETWORK_NAMESPACE,
    podNamespace,
  );
  const key = `annotation ${DEFAULT_NETWORK_ANNOTATION}`;
  if (second) invalid({ key, value: annotations[DEFAULT_NETWORK_ANNOTATION] }, "expected one network");
  const text = annotations[PRIMARY_CLAIM_ANNOTATION];
  if (!text) return network ? { ...network, position: 0 } : null;
  const claim = readClaimReference(text, `annotation ${PRIMARY_CLAIM_ANNOTATION}`, podNamespace).name;
  if (network?.claim && network.claim !== claim) {
    invalid(
      { key, value: network.claim },
      `annotation ${PRIMARY_CLAIM_ANNOTATION} names IPAMClaim ${claim}; the two must agree`,
    );
  }
  return { nad: null, interface: null, ips: [], mac: null, ...network, position: 0, claim };
}

function readElements(
  annotations: Annotations,
  annotation: string,
  nadNamespace: string,
  podNamespace: string,
): SelectionElement[] {
  const key = `annotation ${annotation}`;
  return splitSelection(annotations[annotation] ?? "", key).map((raw, index) =>
    readElement(raw, {
      key: `${key}, element ${index + 1}`,
      position: index + 1,
      nadNamespace,
      podNamespace,
    }),
  );
}

/** A malformed element does not hide the others: a claim that a living pod may use must not look unused. */
export function claimsNamedBy(annotations: Annotations, podNamespace: string): string[] {
  const references: unknown[] = [annotations[PRIMARY_CLAIM_ANNOTATION]];
  for (const annotation of [NETWORKS_ANNOTATION, DEFAULT_NETWORK_ANNOTATION]) {
    const list = attempt(() => splitSelection(annotations[annotation] ?? "", annotation)) ?? [];
    references.push(...list.map(referenceOf));
  }
  const named = references.flatMap((one) =>
    isGiven(one) ? (attempt(() => readClaimReference(one, "", podNamespace).name) ?? []) : [],
  );
  return [...new Set(named)];
}

function attempt<T>(read: () => T): T | null {
  try {
    return read();
  } catch {
    return null;
  }
}
