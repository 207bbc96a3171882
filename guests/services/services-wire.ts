import { createHash } from "node:crypto";
import type { Report } from "../long-poll.ts";

/** The long poll between metadata-net, which listens for guests, and `holdfast metadata`, which knows Services. */
export interface ServicesReport extends Report {
  /** Networks with guests at this node's listener, by name. Nothing is wanted for others. */
  readonly networks: readonly string[];
  /** Why what was wanted last cannot be carried out; null: it was. */
  readonly problem: string | null;
}

export interface WantedServices {
  /** Another one for each change. */
  readonly version: string;
  readonly services: readonly WantedService[];
}

export interface WantedService {
  readonly network: string;
  /** Ports that guests reach at the same number, beside port 80. null: not known now, what is there stays. */
  readonly ports: readonly number[] | null;
}

export const SERVICES_PATH = "/v1/metadata/services";

/** Beside the socket for balancers: where `holdfast metadata` takes the connections of guests to these ports. */
export const RELAY_SOCKET = "relay.sock";

/** How haproxy names a port to the relay: in as many bytes as it has for that, however long the network's name is. */
export function serviceKey(network: string, port: number): string {
  return createHash("sha256").update(`${port} ${network}`).digest("hex");
}
