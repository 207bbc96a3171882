import { isObject } from "../../ipam/definition/definition-keys.ts";
import { objectAt, readMetadata } from "./object-metadata.ts";

export const SERVICES_PATH = "/api/v1/services";

/** The fields kept of a Service. */
export interface ServiceView {
  /** `namespace/name` */
  readonly key: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly type: string;
  /** Empty if the server knows only one family. */
  readonly ipFamilies: readonly string[];
  readonly ports: readonly ServicePort[];
}

interface ServicePort {
  /** "" if a Service has only one port. */
  readonly name: string;
  readonly protocol: string;
}

export type ServiceVerdict =
  /** The name of the port that metadata requests go to. */
  { readonly kind: "ok"; readonly portName: string } | { readonly kind: "refused"; readonly problem: string };

/** Ports of a Service that are read; nobody has as many. */
const PORTS_MAX = 256;
const FAMILIES_MAX = 2;

/** The first of these names among several ports; else the first port. */
const PORT_NAMES = ["metadata", "http"];

/** Keeps of a Service what Holdfast reads. Throws MalformedObjectError. */
export function projectService(object: unknown): ServiceView {
  const { key, uid, resourceVersion } = readMetadata(object, "Service");
  const { type, ipFamilies, ipFamily, ports } = objectAt(object, "spec", "Service");
  const families = Array.isArray(ipFamilies) ? ipFamilies : [ipFamily];
  return {
    key,
    uid,
    resourceVersion,
    type: typeof type === "string" && type !== "" ? type : "ClusterIP",
    ipFamilies: families.slice(0, FAMILIES_MAX).filter((one): one is string => typeof one === "string"),
    ports: (Array.isArray(ports) ? ports : [])
      .slice(0, PORTS_MAX)
      .filter(isObject)
      .map(({ name, protocol }) => ({
        name: typeof name === "string" ? name : "",
        protocol: typeof protocol === "string" ? protocol : "TCP",
      })),
  };
}

/** Whether metadata requests may go to this Service, and to which port. null: there is no such Service. */
export function judgeService(key: string, service: ServiceView | null): ServiceVerdict {
  const refused = (problem: string): ServiceVerdict => ({
    kind: "refused",
    problem: `Service ${key} ${problem}`,
  });
  if (service === null) return refused("does not exist");
  if (service.type !== "ClusterIP")
    return refused(`is of type ${service.type}: only ClusterIP Services are supported`);
  if (service.ipFamilies.length > 0 && !service.ipFamilies.includes("IPv4"))
    return refused("has no IPv4 address family: only IPv4 is supported");
  const ports = service.ports.filter(({ protocol }) => protocol === "TCP");
  const named = PORT_NAMES.flatMap((name) => ports.filter((port) => port.name === name));
  const port = named[0] ?? ports[0];
  return port === undefined ? refused("has no TCP port") : { kind: "ok", portName: port.name };
}
