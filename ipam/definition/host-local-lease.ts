import { type Address, AddressSyntaxError, parseAddress } from "../space/address.ts";
import { isInterfaceName } from "./interface-name.ts";

/** host-local's directory when the configuration has no `dataDir`; it has a subdirectory for each network name. */
export const HOST_LOCAL_DATA_DIR = "/var/lib/cni/networks";
/** Far above what host-local writes: a container ID and the name of an interface. */
export const LEASE_BYTES_MAX = 4_096;

/** A container ID as the CNI specification allows it. */
const CONTAINER_ID = /^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,255}$/;

export interface LeaseHolder {
  readonly containerId: string;
  /** "": written by a version before 0.8, which did not record it. */
  readonly interface: string;
}

/** The address in a file's name; null for `lock`, `last_reserved_ip.0` and every other name that is no address. */
export function leaseAddress(fileName: string): Address | null {
  try {
    return parseAddress(fileName);
  } catch (error) {
    if (error instanceof AddressSyntaxError) return null;
    throw error;
  }
}

/** Reads a file of host-local: the container ID, CR LF, the interface. null when it names no container. */
export function leaseHolder(content: string): LeaseHolder | null {
  const [containerId = "", interfaceName = "", ...more] = content.trim().split(/\r?\n/);
  if (!CONTAINER_ID.test(containerId) || more.length > 0) return null;
  if (interfaceName !== "" && !isInterfaceName(interfaceName)) return null;
  return { containerId, interface: interfaceName };
}
