import { isObject } from "../../ipam/definition/definition-keys.ts";
import { PORT_MAX } from "../../platform/host-port.ts";
import { objectAt, readMetadata } from "./object-metadata.ts";

export const SERVICES_PATH = "/api/v1/services";

export type ServiceView = Readonly<ReturnType<typeof projectService>>;

type ServicePort = Readonly<ServiceView["ports"][number]>;

export type ServiceVerdict =
  | {
      readonly kind: "ok";
      /** The name of the port that requests to port 80 go to. */
      readonly portName: string;
      /** Its other TCP ports, which guests reach at the same number. */
      readonly others: readonly ServicePort[];
      /** What of it guests do not reach; null: nothing. */
      readonly unserved: string | null;
    }
  | { readonly kind: "refused"; readonly problem: string };

/** Of the port that counts at 169.254.169.254 for metadata. */
export const METADATA_PORT = 80;
/** TCP ports of a Service that guests reach, beside the one for port 80. */
const OTHER_PORTS_MAX = 16;

/** Ports of a Service that are read; nobody has as many. */
const PORTS_MAX = 256;
const FAMILIES_MAX = 2;

/** Port 80; else the first of these names among several ports; else the first port. */
const PORT_NAMES = ["metadata", "http"];

export function projectService(object: unknown) {
  const { key, uid, resourceVersion } = readMetadata(object, "Service");
  const { type, ipFamilies, ipFamily, ports } = objectAt(object, "spec", "Service");
  const families = Array.isArray(ipFamilies) ? ipFamilies : [ipFamily];
  return {
    key,
    uid,
    resourceVersion,
    type: typeof type === "string" && type !== "" ? type : "ClusterIP",
    /** Empty if the server knows only one family. */
    ipFamilies: families.slice(0, FAMILIES_MAX).filter((one): one is string => typeof one === "string"),
    ports: (Array.isArray(ports) ? ports : [])
      .slice(0, PORTS_MAX)
      .filter(isObject)
      .map(({ name, protocol, port }) => ({
        /** "" if a Service has only one port. */
        name: typeof name === "string" ? name : "",
        protocol: typeof protocol === "string" ? protocol : "TCP",
        port: typeof port === "number" ? port : 0,
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
  if (service.type !== "ClusterIP") return refused(`is of type ${service.type}: only ClusterIP Services are supported`);
  if (service.ipFamilies.length > 0 && !service.ipFamilies.includes("IPv4"))
    return refused("has no IPv4 address family: only IPv4 is supported");
  const ports = service.ports.filter(({ protocol }) => protocol === "TCP");
  const named = PORT_NAMES.flatMap((name) => ports.filter((port) => port.name === name));
  const port = ports.find((one) => one.port === METADATA_PORT) ?? named[0] ?? ports[0];
  if (port === undefined) return refused("has no TCP port");
  const others = ports.filter((one) => one !== port && one.port >= 1 && one.port <= PORT_MAX);
  const beyond = others.slice(OTHER_PORTS_MAX);
  const foreign = service.ports.filter(({ protocol }) => protocol !== "TCP");
  const unserved = [
    foreign.length > 0 && `only TCP is served, not ${listed(foreign)}`,
    beyond.length > 0 && `at most ${OTHER_PORTS_MAX} ports beside the one for metadata are, not ${listed(beyond)}`,
  ].filter((one) => one !== false);
  return {
    kind: "ok",
    portName: port.name,
    others: others.slice(0, OTHER_PORTS_MAX),
    unserved:
      unserved.length === 0
        ? null
        : `guests do not reach all ports of Service ${key} at 169.254.169.254: ${unserved.join("; ")}`,
  };
}

function listed(ports: readonly ServicePort[]): string {
  return ports.map(({ port, protocol }) => `${port}/${protocol}`).join(", ");
}
