import { isObject } from "../../ipam/definition/definition-keys.ts";
import { objectAt, readMetadata } from "../../kube/views/object-metadata.ts";
import { PORT_MAX } from "../../platform/host-port.ts";

export const SERVICE_NAME_LABEL = "kubernetes.io/service-name";
const HOSTNAME = "kubernetes.io/hostname";

/** What is kept of an EndpointSlice, of discovery.k8s.io/v1 or v1beta1. */
export interface SliceView {
  readonly key: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly namespace: string;
  /** Empty unless it is one of IPv4 addresses. */
  readonly endpoints: readonly SliceEndpoint[];
  readonly ports: readonly { readonly name: string; readonly protocol: string; readonly port: number }[];
}

interface SliceEndpoint {
  readonly addresses: readonly string[];
  readonly ready: boolean;
  /** null: not said. */
  readonly node: string | null;
  /** null: something else than a pod, or nobody says. */
  readonly pod: { readonly namespace: string; readonly name: string; readonly uid: string } | null;
}

export interface LocalEndpoint {
  readonly address: string;
  readonly port: number;
  readonly pod: SliceEndpoint["pod"];
}

/** The API takes no more in one slice. */
const ENDPOINTS_MAX = 1_000;

/** Keeps of an EndpointSlice what Holdfast reads. Throws MalformedObjectError. */
export function projectSlice(object: unknown): SliceView {
  const { key, uid, resourceVersion, namespace } = readMetadata(object, "EndpointSlice");
  const { addressType, endpoints, ports } = isObject(object) ? object : {};
  return {
    key,
    uid,
    resourceVersion,
    namespace,
    endpoints: addressType === "IPv4" ? listOf(endpoints).slice(0, ENDPOINTS_MAX).map(readEndpoint) : [],
    ports: listOf(ports).flatMap(({ name, protocol, port }) =>
      typeof port === "number" && port >= 1 && port <= PORT_MAX
        ? [{ name: textOf(name) ?? "", protocol: textOf(protocol) ?? "TCP", port }]
        : [],
    ),
  };
}

/** The ready endpoints on a node that serve a port of the Service, in a stable order, each once. */
export function localEndpoints(
  slices: Iterable<SliceView>,
  { node, portName }: { readonly node: string; readonly portName: string },
): LocalEndpoint[] {
  const found = new Map<string, LocalEndpoint>();
  for (const { endpoints, ports } of slices) {
    const port = ports.find(({ name, protocol }) => name === portName && protocol === "TCP");
    if (port === undefined) continue;
    for (const { addresses, ready, node: at, pod } of endpoints) {
      if (!ready || at !== node) continue;
      for (const address of addresses) found.set(`${address}:${port.port}`, { address, port: port.port, pod });
    }
  }
  return [...found.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, endpoint]) => endpoint);
}

function readEndpoint(endpoint: Readonly<Record<string, unknown>>): SliceEndpoint {
  const { addresses, targetRef } = endpoint;
  const conditions = objectAt(endpoint, "conditions", "EndpointSlice");
  // v1beta1 says it in the topology, v1 carries what is left of that along.
  const topology = objectAt(endpoint, "topology", "EndpointSlice");
  const deprecated = objectAt(endpoint, "deprecatedTopology", "EndpointSlice");
  const { kind, namespace, name, uid } = isObject(targetRef) ? targetRef : {};
  const isPod = kind === "Pod" && [namespace, name, uid].every((one) => textOf(one) !== null);
  return {
    addresses: (Array.isArray(addresses) ? addresses : []).filter((one) => typeof one === "string"),
    // Absent means ready.
    ready: conditions.ready !== false,
    node: textOf(endpoint.nodeName) ?? textOf(topology[HOSTNAME]) ?? textOf(deprecated[HOSTNAME]),
    pod: isPod ? { namespace: `${namespace}`, name: `${name}`, uid: `${uid}` } : null,
  };
}

function listOf(value: unknown): Readonly<Record<string, unknown>>[] {
  return (Array.isArray(value) ? value : []).filter(isObject);
}

function textOf(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}
