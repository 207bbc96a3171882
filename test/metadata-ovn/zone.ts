import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "../harness/daemon.ts";
import { type GuestPlace, NamespaceGuest } from "../harness/metadata/guest.ts";
import { skippedFor } from "../harness/needs.ts";
import { OvnCentral, OvnChassis, type OvnRow } from "../harness/ovs/ovn.ts";
import { until } from "../harness/wait.ts";
import { mustRun } from "../network/containers.ts";

/** Why OVN cannot be used; null when it can. In CI it must be there. */
export function whyNoOvn(): string | null {
  const installed = existsSync("/usr/share/ovn/ovn-nb.ovsschema") && existsSync("/usr/bin/ovn-controller");
  return skippedFor(
    process.getuid?.() !== 0 ? "not root" : installed ? null : "ovn-central and ovn-host are not installed",
  );
}

let lastNumber = 0;

/** A name that nobody else on this machine has, for a network namespace. */
function uniqueName(what: string): string {
  lastNumber += 1;
  return `hft-${process.pid}-${lastNumber}-${what}`;
}

/** A guest or pod at a port of a logical switch, whose only route is the default one. */
export class Pod extends NamespaceGuest {
  /** Name of its logical port. */
  readonly port: string;

  constructor({ port, ...place }: GuestPlace & { readonly port: string }) {
    super(place);
    this.port = port;
  }

  /** What it asks at the metadata address is answered with; status 0: it is not answered. */
  async asks(seconds = 4): Promise<string> {
    const { status, body } = await this.ask("/", ["--max-time", String(seconds)]);
    return status === 200 ? body.trim() : `status ${status}`;
  }

  /** How a connection to the metadata address ends: `refused`, `timeout`, or `connected`. */
  async connects(port = 80): Promise<string> {
    const { stdout } = await this.python(
      `
import socket, sys
try:
    socket.create_connection(("169.254.169.254", int(sys.argv[1])), 3).close()
    sys.stdout.write("connected")
except ConnectionRefusedError: sys.stdout.write("refused")
except OSError: sys.stdout.write("timeout")
`,
      [String(port)],
    );
    return stdout;
  }
}

export interface NetworkOptions {
  /** Its subnet is 10.`net`.0.0/16, its router 10.`net`.0.1. */
  readonly net: number;
  readonly topology?: "layer2" | "layer3";
  /** false: nothing routes between the switch and anything else. */
  readonly router?: boolean;
}

/** A node of OVN-Kubernetes in interconnect mode as its databases have it: one zone, whose name is the node's. */
export class Zone {
  readonly name: string;
  readonly central: OvnCentral;
  readonly #namespaces: string[] = [];
  readonly #backends = new Map<string, ChildProcess>();
  #chassis: OvnChassis | null = null;

  private constructor(name: string, central: OvnCentral) {
    this.name = name;
    this.central = central;
  }

  /** `wired`: with a switch whose ports carry frames, in a network namespace of its own. */
  static async start(name: string, { wired = true, encapAddress = "127.0.0.1" } = {}): Promise<Zone> {
    const zone = new Zone(name, await OvnCentral.start({ northd: wired }));
    await zone.introduce();
    if (!wired) return zone;
    const namespace = await zone.#namespace(`node-${name}`);
    zone.#chassis = await OvnChassis.start({ name, namespace, central: zone.central, encapAddress });
    return zone;
  }

  get chassis(): OvnChassis {
    if (this.#chassis === null) throw new Error(`zone ${this.name} has only its databases`);
    return this.#chassis;
  }

  /** The network namespace that is the node. */
  get namespace(): string {
    return this.#namespaces[0] as string;
  }

  /** Says whose the database is. */
  async introduce(): Promise<void> {
    await this.central.nbctl("set", "NB_Global", ".", `name=${this.name}`, `options:name=${this.name}`);
  }

  /** Lays a cable to another node, over which tunnels go, and makes both known to each other. */
  async connect(other: Zone, addresses: readonly [string, string]): Promise<void> {
    const [here, there] = addresses;
    const peer = ["peer", "name", "ph", "netns", other.namespace];
    await mustRun("ip", ["-n", this.namespace, "link", "add", "ph", "type", "veth", ...peer]);
    await this.#plugIn(here);
    await other.#plugIn(there);
    for (const [zone, name, address] of [
      [this, other.name, there],
      [other, this.name, here],
    ] as const)
      await zone.central.sbctl(
        ...["chassis-add", name, "geneve", address],
        ...["--", "set", "chassis", name, "other_config:is-remote=true"],
      );
  }

  async #plugIn(address: string): Promise<void> {
    const bridge = ["add-br", "br-ph", "--", "set", "bridge", "br-ph", "datapath_type=netdev"];
    await this.chassis.ovs.vsctl(...bridge, "--", "add-port", "br-ph", "ph");
    await mustRun("ip", ["-n", this.namespace, "link", "set", "ph", "up"]);
    await mustRun("ip", ["-n", this.namespace, "address", "add", `${address}/24`, "dev", "br-ph"]);
    await mustRun("ip", ["-n", this.namespace, "link", "set", "br-ph", "up"]);
  }

  /** A pod of another node, as the interconnection of zones has it. */
  async remotePod(own: string, pod: Pod, at: Zone): Promise<void> {
    const { port } = pod;
    const key = `options:requested-tnl-key=${tunnelKeyOf(pod.address)}`;
    await this.central.nbctl(
      ...["lsp-add", own, port, "--", "lsp-set-type", port, "remote"],
      ...["--", "lsp-set-addresses", port, `${pod.mac} ${pod.address}`],
      ...["--", "set", "logical_switch_port", port, key, `options:requested-chassis=${at.name}`],
    );
    // Newer releases of ovn-northd do that themselves.
    await this.central.nbctl("--wait=sb", "sync");
    await this.central.sbctl("lsp-bind", port, at.name);
  }

  /** A primary network as ovnkube makes it in the database. */
  async network(name: string, options: NetworkOptions): Promise<string> {
    const { net, topology = "layer2", router = true } = options;
    const own = switchOf(name, topology, this.name);
    const key = 16_711_680 + net;
    const set = ["--", "set", "logical_switch", own];
    await this.central.nbctl(
      ...["ls-add", own, ...set, `other_config:subnet=10.${net}.0.0/16`],
      ...(topology === "layer2" ? [`other_config:interconn-ts=${own}`, `other_config:requested-tnl-key=${key}`] : []),
      ...[`external_ids:k8s.ovn.org/network=${name}`, `external_ids:k8s.ovn.org/topology=${topology}`],
      "external_ids:k8s.ovn.org/role=primary",
    );
    if (router) await this.router(name, options);
    return own;
  }

  async router(name: string, { net, topology = "layer2" }: NetworkOptions): Promise<void> {
    const own = switchOf(name, topology, this.name);
    const lr = `GR_${name}_${this.name}`;
    const mac = `0a:58:0a:${hex(net)}:00:01`;
    await this.central.nbctl("lr-add", lr, "--", "lrp-add", lr, `rtos-${own}`, mac, `10.${net}.0.1/16`);
    const port = `stor-${own}`;
    const options = ["--", "lsp-set-options", port, `router-port=rtos-${own}`];
    const type = ["--", "lsp-set-type", port, "router", "--", "lsp-set-addresses", port, "router"];
    await this.central.nbctl("lsp-add", own, port, ...type, ...options);
  }

  /** What ovnkube does when a network's last pod on the node, or the network itself, is deleted. */
  async removeNetwork(name: string, topology: "layer2" | "layer3" = "layer2"): Promise<void> {
    const own = switchOf(name, topology, this.name);
    const balancers = await this.central.rows("load_balancer", `external_ids:"k8s.ovn.org/network"="${name}"`);
    const removals = balancers.flatMap(({ _uuid = "" }) => ["--", "--if-exists", "lb-del", _uuid]);
    await this.central.nbctl("ls-del", own, "--", "--if-exists", "lr-del", `GR_${name}_${this.name}`, ...removals);
  }

  /** A pod on a switch. `routes`: its own, instead of the default route by the network's router. */
  async pod(own: string, address: string, routes?: readonly string[]): Promise<Pod> {
    const [, net, b, last] = address.split(".").map(Number) as [number, number, number, number];
    const mac = `0a:58:0a:${hex(net)}:${hex(b)}:${hex(last)}`;
    const port = uniqueName("port");
    await this.central.nbctl(
      ...["lsp-add", own, port, "--", "lsp-set-addresses", port, `${mac} ${address}`],
      ...["--", "lsp-set-port-security", port, `${mac} ${address}`],
      ...["--", "set", "logical_switch_port", port, "external_ids:pod=true", "external_ids:namespace=shop"],
      `options:requested-tnl-key=${tunnelKeyOf(address)}`,
    );
    const pod = await this.plug(port, address, mac);
    await mustRun("ip", ["-n", pod.namespace, "address", "add", `${address}/16`, "dev", "eth0"]);
    for (const route of routes ?? [`default via 10.${net}.0.1`])
      await mustRun("ip", ["-n", pod.namespace, "route", "add", ...route.split(" "), "dev", "eth0"]);
    return pod;
  }

  /** A guest at a port of the switch that the northbound database has; without an address of its own yet. */
  async plug(port: string, address: string, mac: string): Promise<Pod> {
    const namespace = await this.#namespace("pod");
    const link = `hfp${process.pid % 100_000}n${lastNumber}`;
    const peer = ["peer", "name", "eth0", "address", mac, "netns", namespace];
    await mustRun("ip", ["-n", this.namespace, "link", "add", link, "type", "veth", ...peer]);
    await mustRun("ip", ["-n", this.namespace, "link", "set", link, "up"]);
    await mustRun("ip", ["-n", namespace, "link", "set", "eth0", "up"]);
    const box = `external_ids:sandbox=box-${port}`;
    await this.chassis.ovs.vsctl(
      ...["add-port", "br-int", link, "--", "set", "interface", link],
      ...[`external_ids:iface-id=${port}`, `external_ids:iface-id-ver=uid-${port}`, box],
    );
    return new Pod({ namespace, address, mac, port });
  }

  /** Answers at port 8080 of a pod with the address that asks and a name. */
  async answerIn(pod: Pod, name: string): Promise<void> {
    const file = join(this.central.directory, `${pod.namespace}.cfg`);
    writeFileSync(
      file,
      `defaults
  mode http
  timeout client 10s
  timeout server 10s
  timeout connect 1s
frontend backend
  bind 0.0.0.0:8080
  http-request return status 200 content-type text/plain lf-string "src=%[src] at=${name}"
`,
    );
    const child = spawn("ip", ["netns", "exec", pod.namespace, "haproxy", "-db", "-f", file], {
      stdio: "ignore",
    });
    this.#backends.set(pod.namespace, child);
    const isUp = async () => (await pod.ask(`http://${pod.address}:8080/`)).status === 200;
    await until(isUp, `the backend ${name}`);
  }

  /** The balancers of ours, by name. */
  balancers(): Promise<OvnRow[]> {
    return this.central.rows("load_balancer", 'external_ids:"holdfast.dev/owner"=metadata');
  }

  async stop(): Promise<void> {
    for (const child of this.#backends.values()) {
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
    }
    await this.#chassis?.stop();
    await this.central.stop();
    for (const namespace of this.#namespaces) await run("ip", ["netns", "delete", namespace]);
  }

  async #namespace(what: string): Promise<string> {
    const name = uniqueName(what);
    await mustRun("ip", ["netns", "add", name]);
    this.#namespaces.push(name);
    await mustRun("ip", ["-n", name, "link", "set", "lo", "up"]);
    return name;
  }
}

/** How ovnkube names a network's switch on a node. */
function switchOf(network: string, topology: "layer2" | "layer3", node: string): string {
  return `${network.replaceAll(/[-/]/g, ".")}_${topology === "layer2" ? "ovn_layer2_switch" : node}`;
}

/** The same in all zones. */
function tunnelKeyOf(address: string): number {
  return Number(address.split(".")[3]);
}

function hex(byte: number): string {
  return byte.toString(16).padStart(2, "0");
}
