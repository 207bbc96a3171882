/*
 * metadata/net/kernel/: links, namespaces and packet rules of a listener
 *
 *   plan, names                 the planned state, and the names of its parts
 *   listener-link               the link into the network's bridge; listener-gate: closed until the rules are in place
 *   firewall, firewall-text     who may communicate with it; firewall-watch: detects that the rules were flushed
 *   guest-ports, port-memory, neighbours  which port belongs to which VM
 *   run, sysfs                  commands, and the kernel's state
 */

import { readFileSync, writeFileSync } from "node:fs";
import { ensureGate, hasGate } from "./listener-gate.ts";
import type { ListenerPlan } from "./plan.ts";
import { mustRun, run } from "./run.ts";
import { defaultVlanOf, hasNamespace, hostLink, namespacePath, portsOf } from "./sysfs.ts";

/**
 * Applied in the namespace first: no IPv6, no forwarding, ARP only for addresses of the link, and with the address in
 * the guest's own subnet.
 */
const SYSCTLS: readonly (readonly [key: string, value: string])[] = [
  ["ipv6/conf/all/disable_ipv6", "1"],
  ["ipv6/conf/default/disable_ipv6", "1"],
  ["ipv4/ip_forward", "0"],
  ["ipv4/conf/all/accept_redirects", "0"],
  ["ipv4/conf/all/send_redirects", "0"],
  ["ipv4/conf/default/send_redirects", "0"],
  ["ipv4/conf/all/arp_ignore", "1"],
  ["ipv4/conf/all/arp_announce", "2"],
  ["ipv4/conf/all/rp_filter", "1"],
];

/**
 * Brings a network's namespace and its link into the bridge to the planned state, from any state. Resolves with the
 * first difference that it repaired, null: none; throws an Error for the operator when it is impossible. The firewall
 * must know the link before.
 */
export async function ensureListenerLink(plan: ListenerPlan): Promise<string | null> {
  const bridge = hostLink(plan.bridge);
  if (bridge === null || portsOf(plan.bridge) === null)
    throw new Error(
      `there is no bridge ${plan.bridge} on this node; it is made with the first attachment, or by you`,
    );
  const mtu = plan.mtu ?? bridge.mtu;
  const difference = await differenceFrom(plan, mtu);
  if (difference === null) return null;
  if (!hasNamespace(plan.namespace)) await makeNamespace(plan.namespace);
  if (!(await isPair(plan))) await makePair(plan, mtu);
  await mustRun("ip", ["-n", plan.namespace, "-batch", "-"], lines(innerCommands(plan, mtu)));
  writeSysctl(`ipv6/conf/${plan.link}/disable_ipv6`, "1");
  // Before the link is a port of the bridge: it is never open.
  await ensureGate(plan.link);
  await mustRun(
    "ip",
    ["-batch", "-"],
    lines([`link set ${plan.link} mtu ${mtu} address ${plan.hostMac} master ${plan.bridge}`]),
  );
  const commands = [...vlanCommands(plan, defaultVlanOf(plan.bridge)), forwardingCommand(plan)];
  await mustRun("bridge", ["-batch", "-"], lines(commands));
  await mustRun("ip", ["link", "set", plan.link, "up"]);
  return difference;
}

/** Removes link and namespace; missing ones are ignored. */
export async function removeListenerLink(names: {
  readonly link?: string;
  readonly namespace?: string;
}): Promise<void> {
  // First: a namespace ends some time after its name is gone, and its link with it.
  if (names.link !== undefined) await run("ip", ["link", "delete", names.link]);
  if (names.namespace !== undefined) await run("ip", ["netns", "delete", names.namespace]);
}

/**
 * For `bridge -batch`: as the bridge plugin does it with the ports of VMs. `defaultVlan` 0: the port gets none by
 * itself.
 */
export function vlanCommands(
  { link, vlan, preserveDefaultVlan }: Pick<ListenerPlan, "link" | "vlan" | "preserveDefaultVlan">,
  defaultVlan: number,
): readonly string[] {
  if (vlan === null) return [];
  const others = preserveDefaultVlan || defaultVlan === 0 || defaultVlan === vlan;
  return [
    ...(others ? [] : [`vlan del dev ${link} vid ${defaultVlan}`]),
    `vlan add dev ${link} vid ${vlan} pvid untagged`,
  ];
}

/**
 * For `bridge -batch`, after the VLANs: the bridge does not learn the listener's MAC but knows it. Whoever sends with
 * it, a VM or somebody outside, would otherwise draw the requests of all VMs to a port where the rules drop them.
 */
function forwardingCommand({ link, mac }: Pick<ListenerPlan, "link" | "mac">): string {
  return `fdb replace ${mac} dev ${link} master static sticky`;
}

/** For `ip -batch` in the namespace. Everything there is made anew but the link. */
export function innerCommands(plan: ListenerPlan, mtu: number): readonly string[] {
  return [
    "link set lo up",
    "address flush dev eth0 scope global",
    "route flush dev eth0",
    `link set eth0 mtu ${mtu} address ${plan.mac}`,
    `address replace ${plan.address} dev eth0`,
    "address replace 169.254.169.254/32 dev eth0",
    "link set eth0 up",
    ...plan.otherSubnets.map((subnet) => `route replace ${subnet} dev eth0 scope link src ${plan.reserved}`),
  ];
}

async function makeNamespace(namespace: string): Promise<void> {
  // A file of that name without a namespace is left when a mount has gone.
  await run("ip", ["netns", "delete", namespace]);
  await mustRun("ip", ["netns", "add", namespace]);
  const script = SYSCTLS.map(
    ([key, value]) => `[ ! -e /proc/sys/net/${key} ] || echo ${value} > /proc/sys/net/${key}`,
  ).join("\n");
  await mustRun("nsenter", [`--net=${namespacePath(namespace)}`, "sh", "-ec", script]);
}

async function makePair({ link, namespace, hostMac, mac }: ListenerPlan, mtu: number): Promise<void> {
  await run("ip", ["link", "delete", link]);
  await run("ip", ["-n", namespace, "link", "delete", "eth0"]);
  await mustRun(
    "ip",
    ["-batch", "-"],
    lines([
      `link add ${link} mtu ${mtu} address ${hostMac} type veth peer name eth0 mtu ${mtu} address ${mac} netns ${namespace}`,
    ]),
  );
}

interface LinkState {
  readonly ifindex: number;
  readonly link_index?: number;
  readonly mtu: number;
  readonly address: string;
  readonly flags: readonly string[];
  readonly addr_info: readonly {
    readonly family: string;
    readonly local: string;
    readonly prefixlen: number;
  }[];
}

async function innerLink(namespace: string): Promise<LinkState | null> {
  const shown = await run("ip", ["-n", namespace, "-json", "address", "show", "dev", "eth0"]);
  if (shown.code !== 0) return null;
  const [link] = JSON.parse(shown.stdout || "[]") as LinkState[];
  return link ?? null;
}

async function isPair({ link, namespace }: ListenerPlan): Promise<boolean> {
  const [outer, inner] = [hostLink(link), await innerLink(namespace)];
  return (
    outer !== null &&
    inner !== null &&
    inner.link_index === outer.ifindex &&
    inner.ifindex === outer.peerIndex
  );
}

/** The first difference from the plan, in words; null: none. */
async function differenceFrom(plan: ListenerPlan, mtu: number): Promise<string | null> {
  const outer = hostLink(plan.link);
  if (outer === null) return "the link was not there";
  if (outer.master !== plan.bridge) return `the link was a port of ${outer.master ?? "no bridge"}`;
  if (!outer.up) return "the link was down";
  if (outer.mtu !== mtu) return `the link's MTU was ${outer.mtu}, and is ${mtu}`;
  if (outer.mac !== plan.hostMac) return `the link's MAC was ${outer.mac}`;
  if (!hasNamespace(plan.namespace)) return "the namespace was not there";
  const inner = await innerLink(plan.namespace);
  if (inner === null || inner.link_index !== outer.ifindex || inner.ifindex !== outer.peerIndex)
    return "the link did not lead into the namespace";
  if (!inner.flags.includes("UP")) return "eth0 in the namespace was down";
  if (inner.mtu !== mtu) return `eth0's MTU was ${inner.mtu}, and is ${mtu}`;
  if (inner.address !== plan.mac) return `eth0's MAC was ${inner.address}`;
  const addresses = inner.addr_info
    .filter(({ family }) => family === "inet")
    .map(({ local, prefixlen }) => `${local}/${prefixlen}`);
  const wanted = [plan.address, "169.254.169.254/32"];
  if (addresses.length !== wanted.length || !wanted.every((address) => addresses.includes(address)))
    return `eth0's addresses were ${addresses.join(", ") || "none"}`;
  if (!(await hasRoutes(plan))) return "a route in the namespace was not there";
  if (!(await hasVlan(plan))) return "the link's VLAN was not there";
  if (!(await hasForwarding(plan))) return "the bridge's entry for the listener's MAC was not there";
  return (await hasGate(plan.link)) ? null : "the link's gate was not there";
}

async function hasRoutes({ namespace, otherSubnets }: ListenerPlan): Promise<boolean> {
  if (otherSubnets.length === 0) return true;
  const shown = await run("ip", ["-n", namespace, "-json", "-4", "route", "show", "dev", "eth0"]);
  if (shown.code !== 0) return false;
  const routes = (JSON.parse(shown.stdout || "[]") as { dst: string }[]).map(({ dst }) => dst);
  return otherSubnets.every(
    (subnet) => routes.includes(subnet) || routes.includes(subnet.replace(/\/32$/, "")),
  );
}

async function hasVlan({ link, vlan }: ListenerPlan): Promise<boolean> {
  if (vlan === null) return true;
  const shown = await run("bridge", ["-json", "vlan", "show", "dev", link]);
  if (shown.code !== 0) return false;
  const [port] = JSON.parse(shown.stdout || "[]") as { vlans?: { vlan: number; flags?: string[] }[] }[];
  return port?.vlans?.some((one) => one.vlan === vlan && one.flags?.includes("PVID")) ?? false;
}

async function hasForwarding({ link, mac }: ListenerPlan): Promise<boolean> {
  const shown = await run("bridge", ["-json", "fdb", "show", "brport", link]);
  if (shown.code !== 0) return false;
  const entries = JSON.parse(shown.stdout || "[]") as { mac: string; flags?: string[] }[];
  return entries.some((one) => one.mac === mac && one.flags?.includes("sticky"));
}

function writeSysctl(key: string, value: string): void {
  const path = `/proc/sys/net/${key}`;
  try {
    if (readFileSync(path, "utf8").trim() !== value) writeFileSync(path, value);
  } catch (error) {
    // A kernel without IPv6 has none to switch off.
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}

function lines(commands: readonly string[]): string {
  return `${commands.join("\n")}\n`;
}
