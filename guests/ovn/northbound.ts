/*
 * guests/ovn/: balancers of OVN-Kubernetes that lead guests to their tenants' backends
 *
 *   northbound     the node's own database, and what is read of it
 *   balancer-plan  decides which rows are written; balancers-wire: how `holdfast metadata` says what is wanted
 *   balancers      keeps the database so; balancers-wire: the protocol with `holdfast metadata`
 */

import { existsSync } from "node:fs";
import type { Log } from "../../platform/log.ts";
import type { Clock } from "../../platform/time.ts";
import { OvsdbClient } from "../ovs/ovsdb-client.ts";
import { optionalText, type Row, text, textMap, uuids } from "../ovs/ovsdb-values.ts";

/** A node's own northbound database: of upstream's charts, of OpenShift's operator, of OVN's own packages. */
const NORTHBOUND_SOCKETS: readonly string[] = [
  "/run/openvswitch/ovnnb_db.sock",
  "/run/ovn-ic/ovnnb_db.sock",
  "/run/ovn/ovnnb_db.sock",
];

const BALANCER_COLUMNS = {
  name: text,
  protocol: optionalText,
  vips: textMap,
  options: textMap,
  external_ids: textMap,
};
const SWITCH_COLUMNS = {
  name: text,
  other_config: textMap,
  external_ids: textMap,
  load_balancer: uuids,
  ports: uuids,
};
const TABLES = {
  NB_Global: { name: text },
  Logical_Switch: SWITCH_COLUMNS,
  Logical_Switch_Port: { type: text },
  Load_Balancer: BALANCER_COLUMNS,
};

export type BalancerRow = Row<typeof BALANCER_COLUMNS>;
export type SwitchRow = Row<typeof SWITCH_COLUMNS>;
export type Northbound = OvsdbClient<typeof TABLES>;

export interface NorthboundRows {
  /** Name of the zone that the database is of; with one zone for each node, the node's. */
  readonly zone: string;
  readonly switches: ReadonlyMap<string, SwitchRow>;
  readonly routerPorts: ReadonlySet<string>;
  readonly balancers: ReadonlyMap<string, BalancerRow>;
}

export const OWNER_KEY = "holdfast.dev/owner";
export const OWNER = "metadata";

/** `given`: `[unix:]/path` of the socket; null: the first of the known places that there is. */
export function findNorthbound(given: string | null): string | null {
  return given?.replace(/^unix:/, "") ?? NORTHBOUND_SOCKETS.find((path) => existsSync(path)) ?? null;
}

export function openNorthbound(options: {
  readonly socket: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly changed: () => void;
}): Northbound {
  return new OvsdbClient({
    ...options,
    database: "OVN_Northbound",
    tables: TABLES,
    // Those of Services are thousands, and not ours.
    keep: { Load_Balancer: ({ external_ids }) => external_ids.get(OWNER_KEY) === OWNER },
  });
}

export function readNorthbound(northbound: Northbound): NorthboundRows {
  const [global] = northbound.rows("NB_Global").values();
  const ports = northbound.rows("Logical_Switch_Port");
  return {
    zone: global?.name ?? "",
    switches: northbound.rows("Logical_Switch"),
    routerPorts: new Set([...ports].filter(([, { type }]) => type === "router").map(([uuid]) => uuid)),
    balancers: northbound.rows("Load_Balancer"),
  };
}
