import { AddressSyntaxError, parseAddress } from "../../ipam/space/address.ts";
import { type Cidr, cidrContains, networkOf as cidrOf, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { METADATA_PORT } from "../../kube/views/service-view.ts";
import { PORT_MAX } from "../../platform/host-port.ts";
import { METADATA_IPV4 } from "../drivers/driver.ts";
import type { OvsdbOperation } from "../ovs/ovsdb-client.ts";
import { toMap, toNamed } from "../ovs/ovsdb-values.ts";
import type { BalancerProblem, WantedBalancer } from "./balancers-wire.ts";
import { type BalancerRow, type NorthboundRows, OWNER, OWNER_KEY, type SwitchRow } from "./northbound.ts";

const NETWORK_KEY = "k8s.ovn.org/network";
const ROLE_KEY = "k8s.ovn.org/role";
const OPTIONS = [
  // Without a backend a guest's connection is refused at once, instead of timing out.
  ["reject", "true"],
  // A backend that asks the address itself: its request would come back from its own. As OVN-Kubernetes has it.
  ["hairpin_snat_ip", "169.254.0.5 fd69::5"],
  // What is connected to a backend or an entry that goes is cut, not only refused anew.
  ["ct_flush", "true"],
  // The address is that of no router.
  ["neighbor_responder", "none"],
] as const;

export interface BalancerPlan {
  /** One transaction. */
  readonly operations: readonly OvsdbOperation[];
  readonly written: ReadonlySet<string>;
  /** Networks whose balancers they delete. */
  readonly removed: ReadonlySet<string>;
  readonly problems: readonly BalancerProblem[];
}

/** Networks that have a switch for guests in the database, in a stable order: primary ones with an IPv4 subnet. */
export function networksIn({ switches }: NorthboundRows): string[] {
  const networks = [...switches.values()].filter(isForGuests).map(networkOf);
  return [...new Set(networks)].sort();
}

/**
 * What has to be written so that each switch of a wanted network has one balancer of ours, and nothing else is ours.
 * Columns of others' rows are only mutated, since OVN-Kubernetes writes the same rows. It deletes balancers with
 * `k8s.ovn.org/kind=Service` whose Service it does not know, so ours have no kind; and with a network all balancers
 * that carry its name, so ours do. See docs/decisions/0044.
 */
export function planBalancers(rows: NorthboundRows, wanted: readonly WantedBalancer[]): BalancerPlan {
  const plan = { operations: [] as OvsdbOperation[], written: new Set<string>(), removed: new Set<string>() };
  const problems: BalancerProblem[] = [];
  const stale = new Map(rows.balancers);
  for (const balancer of wanted) {
    const switches = [...rows.switches].filter(([, row]) => isForGuests(row) && networkOf(row) === balancer.network);
    for (const [uuid, row] of switches) {
      const { entries, foreign } = onSwitch(row, balancer);
      for (const backend of foreign)
        problems.push({ network: balancer.network, kind: "failed", problem: outside(backend, row) });
      const existing = [...rows.balancers].find(([, { name }]) => name === nameOn(row));
      if (existing !== undefined) stale.delete(existing[0]);
      if (ensure({ uuid, row, existing }, { network: balancer.network, entries }, plan.operations))
        plan.written.add(balancer.network);
      if (!row.ports.some((port) => rows.routerPorts.has(port)))
        problems.push({ network: balancer.network, kind: "no-router", problem: withoutRouter(row.name) });
    }
  }
  for (const [uuid, { external_ids }] of stale) {
    plan.operations.push({ op: "delete", table: "Load_Balancer", where: byUuid(uuid) });
    plan.removed.add(external_ids.get(NETWORK_KEY) ?? "");
  }
  return { ...plan, problems };
}

/** Who names backends has no rights here: guests are led to nothing that is not on their own network. */
function onSwitch({ other_config }: SwitchRow, { backends, ports }: WantedBalancer): Placed {
  if (backends === null) return { entries: null, foreign: [] };
  const subnet = parsedOr(readNetwork, other_config.get("subnet") ?? "");
  const isThere = (backend: string) => {
    const [host = "", port = ""] = backend.split(":");
    const address = parsedOr(parseAddress, host);
    return subnet !== null && address !== null && cidrContains(subnet, address) && Number(port) <= PORT_MAX;
  };
  const all = [...ports, { port: METADATA_PORT, backends }];
  return {
    entries: new Map(all.map((one) => [`${METADATA_IPV4}:${one.port}`, one.backends.filter(isThere).join(",")])),
    foreign: all.flatMap((one) => one.backends.filter((backend) => !isThere(backend))),
  };
}

interface Placed {
  /** By address and port, as the row has them; null: not known now, what is there stays. */
  readonly entries: ReadonlyMap<string, string> | null;
  readonly foreign: readonly string[];
}

function readNetwork(text: string): Cidr {
  const { address, prefixLength } = parseInterfaceAddress(text);
  return cidrOf(address, prefixLength);
}

/** null: it is none. */
function parsedOr<T>(parse: (text: string) => T, text: string): T | null {
  try {
    return parse(text);
  } catch (error) {
    if (error instanceof AddressSyntaxError) return null;
    throw error;
  }
}

export const REMOVAL: readonly OvsdbOperation[] = [
  {
    op: "delete",
    table: "Load_Balancer",
    where: [["external_ids", "includes", toMap([[OWNER_KEY, OWNER]])]],
  },
];

interface Place {
  readonly uuid: string;
  readonly row: SwitchRow;
  readonly existing: readonly [string, BalancerRow] | undefined;
}

/** Adds what is missing; whether anything is. */
function ensure(
  { uuid, row, existing }: Place,
  { network, entries }: { readonly network: string; readonly entries: Placed["entries"] },
  operations: OvsdbOperation[],
): boolean {
  const before = operations.length;
  const wanted = entries === null ? null : rowOf(nameOn(row), network, entries);
  if (existing === undefined) {
    if (wanted === null) return false;
    const id = `balancer${operations.length}`;
    const table = "Load_Balancer";
    // Another process of ours may be faster.
    const where = [
      ["name", "==", nameOn(row)],
      ["external_ids", "includes", toMap([[OWNER_KEY, OWNER]])],
    ];
    operations.push({ op: "wait", table, where, columns: ["name"], until: "==", rows: [], timeout: 0 });
    operations.push({ op: "insert", table, "uuid-name": id, row: written(wanted) });
    operations.push(reference(uuid, toNamed(id)));
    return true;
  }
  const [found, known] = existing;
  if (wanted !== null && !sameRow(known, wanted))
    operations.push({ op: "update", table: "Load_Balancer", where: byUuid(found), row: written(wanted) });
  if (!row.load_balancer.includes(found)) operations.push(reference(uuid, ["uuid", found]));
  return operations.length > before;
}

function rowOf(name: string, network: string, vips: ReadonlyMap<string, string>): BalancerRow {
  return {
    name,
    protocol: "tcp",
    vips,
    options: new Map(OPTIONS),
    external_ids: new Map([
      [NETWORK_KEY, network],
      [OWNER_KEY, OWNER],
    ]),
  };
}

function written({ name, protocol, vips, options, external_ids }: BalancerRow): object {
  return {
    name,
    protocol,
    vips: toMap(vips),
    options: toMap(options),
    external_ids: toMap(external_ids),
  };
}

function sameRow(a: BalancerRow, b: BalancerRow): boolean {
  return (
    a.protocol === b.protocol &&
    sameMap(a.vips, b.vips) &&
    sameMap(a.options, b.options) &&
    sameMap(a.external_ids, b.external_ids)
  );
}

function sameMap(a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): boolean {
  return a.size === b.size && [...a].every(([key, value]) => b.get(key) === value);
}

function reference(switchUuid: string, balancer: unknown): OvsdbOperation {
  const mutations = [["load_balancer", "insert", balancer]];
  return { op: "mutate", table: "Logical_Switch", where: byUuid(switchUuid), mutations };
}

function byUuid(uuid: string): unknown {
  return [["_uuid", "==", ["uuid", uuid]]];
}

/** Switches between routers carry the network's name too; guests' switches have its subnet. */
function isForGuests({ external_ids, other_config }: SwitchRow): boolean {
  return external_ids.get(ROLE_KEY) === "primary" && other_config.has("subnet");
}

function networkOf({ external_ids }: SwitchRow): string {
  return external_ids.get(NETWORK_KEY) ?? "";
}

function nameOn({ name }: SwitchRow): string {
  return `holdfast_metadata_${name}`;
}

function outside(backend: string, { name, other_config }: SwitchRow): string {
  return `no guest is led to ${backend}, which is not in ${other_config.get("subnet")}, the subnet of switch ${name}`;
}

function withoutRouter(name: string): string {
  return (
    `switch ${name} has no router: a balancer answers no ARP, so guests do not get as far as ${METADATA_IPV4}; ` +
    "give the network a router, or remove its reference so that the node's listener answers"
  );
}
