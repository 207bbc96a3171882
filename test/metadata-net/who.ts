import { LISTENER_HEADERS } from "../../guests/haproxy/listener-headers.ts";
import type { PortGuest } from "./node.ts";

/** As whom the metadata server sees a guest that asks: subject and the address it says it has; status 0: no answer. */
export async function askAs(guest: PortGuest, args: readonly string[] = []): Promise<string> {
  const { status, echo } = await guest.ask("/", args);
  const { [LISTENER_HEADERS.subject]: subject, [LISTENER_HEADERS.claimed]: claimed } = echo.headers;
  return status === 200 ? `${subject} ${claimed}` : `status ${status}`;
}

/** What `askAs` says when a guest is taken for itself. */
export function self(guest: PortGuest, address: string = guest.address): string {
  return `container/container-${guest.namespace}/eth0 ${address}`;
}

/** `ip -batch` lines of a guest that has nothing but a default route, by a gateway with this MAC. */
export function onlyDefaultRoute(gateway: string, mac: string | null): readonly string[] {
  return [
    "route flush scope link dev eth0",
    `route add ${gateway}/32 dev eth0 scope link`,
    ...(mac === null ? [] : [`neigh replace ${gateway} lladdr ${mac} dev eth0 nud permanent`]),
    `route add default via ${gateway} dev eth0`,
  ];
}
