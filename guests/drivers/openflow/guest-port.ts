import { hostLink } from "../../kernel/sysfs.ts";
import type { OvsPort } from "../../ovs/ovs-ports.ts";
import type { AdmittedPort, PortRef } from "../driver.ts";

/** Before the name of a bridge, it is the name of its door. */
export const DOOR_PREFIX = "ovs:";

export function byBridge(ports: readonly AdmittedPort[]): ReadonlyMap<string, readonly AdmittedPort[]> {
  const bridges = new Map<string, AdmittedPort[]>();
  for (const admitted of ports) {
    const name = admitted.port.door.slice(DOOR_PREFIX.length);
    const others = bridges.get(name);
    if (others === undefined) bridges.set(name, [admitted]);
    else others.push(admitted);
  }
  return bridges;
}

export function isNumbered(port: OvsPort | undefined, bridge: string): boolean {
  return port === undefined || port.bridge !== bridge || port.ofport !== null || port.error !== null;
}

/** Why the port that was found is not what a guest was admitted at; null: it is. */
export function whyNot({ link, ifindex }: PortRef, found: OvsPort | undefined, bridge: string): string | null {
  if (found === undefined) return `${link} is no port of Open vSwitch any more`;
  if (found.bridge !== bridge) return `${link} is a port of ${found.bridge} now`;
  if (hostLink(link)?.ifindex !== ifindex) return `its link ${link} was created again`;
  if (found.ofport === null) return `Open vSwitch gives ${link} no number: ${found.error ?? "not yet"}`;
  return found.ifindex === ifindex ? null : `Open vSwitch has not opened ${link} yet`;
}
