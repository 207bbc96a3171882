import { JsonFields } from "../../platform/json-fields.ts";
import type { Report } from "../long-poll.ts";

/** The long poll between `holdfast metadata-net` and the daemon, on the daemon's socket. */
export interface PortReport extends Report {
  /** Ports of that state whose guests are not served. All others of that state are. */
  readonly failed: readonly FailedPort[];
  /** Why no guest at all is served, such as a listener that cannot be made; null: nothing is known to be wrong. */
  readonly problem: string | null;
}

export interface FailedPort {
  readonly containerId: string;
  readonly interface: string;
  /** final: it will never be served (macvlan, SR-IOV: no host-side link). pending: it is tried again by itself. */
  readonly kind: "final" | "pending";
  readonly problem: string;
}

export interface WantedPorts {
  /** Another one for each change; equal only within one run of the daemon. */
  readonly version: string;
  /** Attachments of this node on networks with metadata, in order of creation. Empty: everything is to be removed. */
  readonly ports: readonly WantedPort[];
  /** Networks of OVN-Kubernetes whose guests are served by this node's listener, by the name in their configuration. */
  readonly ovnNetworks: readonly string[];
}

export interface WantedPort {
  readonly network: string;
  readonly containerId: string;
  readonly interface: string;
  /** Path of the network namespace. */
  readonly netns: string;
  /** The recorded addresses of both families, without mask. */
  readonly addresses: readonly string[];
  /** As requested; null: none was, and that of the interface when it is first seen counts. */
  readonly mac: string | null;
}

export const PORTS_PATH = "/v1/metadata/ports";

/** Throws Error. */
export function readWantedPorts(value: unknown): WantedPorts {
  const wanted = new JsonFields(value);
  return {
    version: wanted.string("version"),
    ports: wanted.list("ports", readPort),
    ovnNetworks: wanted.strings("ovnNetworks"),
  };
}

function readPort(value: unknown): WantedPort {
  const port = new JsonFields(value);
  return {
    network: port.string("network"),
    containerId: port.string("containerId"),
    interface: port.string("interface"),
    netns: port.string("netns"),
    addresses: port.strings("addresses"),
    mac: port.stringOrNull("mac"),
  };
}
