import { createHash } from "node:crypto";

/**
 * The protocol between `holdfast metadata-net`, which listens for guests, and `holdfast metadata`, which knows the
 * Services of networks: `POST /v1/metadata/services` on the latter's socket, where it also tells of balancers. The
 * answer comes when the wanted state differs from what the report has applied, at the latest after `waitMs`. It always
 * has the whole wanted state.
 */
export interface ServicesReport {
  /** `version` of the wanted state that was last carried out; null after a start. */
  readonly applied: string | null;
  /** Networks with guests at this node's listener, by name. Nothing is wanted for others. */
  readonly networks: readonly string[];
  /** Why what was wanted last cannot be carried out; null: it was. */
  readonly problem: string | null;
  /** Longest wait for a change, ms, at most 60,000. */
  readonly waitMs: number;
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
