import { spawnSync } from "node:child_process";
import { LISTENER_HEADERS } from "../../guests/haproxy/listener-headers.ts";
import { skippedFor } from "../harness/needs.ts";
import { Ovs } from "../harness/ovs/ovs.ts";
import { batch, NetNode, PortGuest } from "../metadata-net/node.ts";
import { startPython } from "../metadata-net/python-process.ts";

export interface OvsGuestOptions {
  /** With its prefix length. */
  readonly address: string;
  readonly mac?: string;
  /** More of ovs-vsctl's for the port, such as `tag=7`. */
  readonly port?: readonly string[];
  /** `ip route add …`. Default: 169.254/16 on link. */
  readonly routes?: readonly string[];
  /** Commands of `ip -batch` at its end. */
  readonly commands?: readonly string[];
}

/** Why there can be no real Open vSwitch; null: there can. */
export function whyNotOvs(): string | null {
  const there = spawnSync("ovs-vswitchd", ["--version"]).status === 0;
  return skippedFor(process.getuid?.() !== 0 ? "not root" : there ? null : "no ovs-vswitchd installed");
}

/** A node with metadata-net and an Open vSwitch of its own, whose bridges have the userspace datapath. */
export class OvsNode {
  readonly ovs: Ovs;
  readonly net: NetNode;

  private constructor(ovs: Ovs, net: NetNode) {
    this.ovs = ovs;
    this.net = net;
  }

  /** `bridges`: that are there from the start. */
  static async start(bridges: readonly string[] = ["br-vm"]): Promise<OvsNode> {
    const ovs = await Ovs.database();
    const net = await NetNode.start(["--ovsdb-socket", ovs.socket], { apart: true });
    const node = new OvsNode(ovs, net);
    await ovs.startSwitch(net.space);
    for (const bridge of bridges) await node.bridge(bridge);
    return node;
  }

  async bridge(name: string): Promise<void> {
    await this.ovs.vsctl("add-br", name, "--", "set", "bridge", name, "datapath_type=netdev");
  }

  /** A guest at a port of the bridge, which computes its own checksums: the userspace datapath does it for nobody. */
  async guest(bridge: string, options: OvsGuestOptions): Promise<PortGuest> {
    const made = await this.net.guest(null, options.address);
    await this.plug(bridge, made, options.port);
    await made.run("ethtool", ["-K", "eth0", "tx", "off"]);
    const commands = [
      ...(options.mac === undefined ? [] : [`link set eth0 address ${options.mac}`]),
      ...(options.routes ?? []).map((route) => `route replace ${route}`),
      ...(options.commands ?? []),
    ];
    if (options.routes !== undefined) commands.unshift("route del 169.254.0.0/16 dev eth0");
    if (commands.length > 0) await batch(commands, made.namespace);
    const { namespace, port, address } = made;
    return new PortGuest({ namespace, port, address, mac: options.mac ?? made.mac });
  }

  async plug(bridge: string, { port }: PortGuest, columns: readonly string[] = []): Promise<void> {
    await this.ovs.vsctl("add-port", bridge, port, ...columns);
  }

  /** Flows of ours, as ovs-ofctl prints them, in the order of their texts. */
  async flows(bridge = "br-vm"): Promise<readonly string[]> {
    const shown = await this.ovs.ofctl(["dump-flows", "--no-stats", bridge, `${this.cookie}/-1`]);
    return shown
      .split("\n")
      .filter((line) => line.includes("cookie="))
      .sort();
  }

  get cookie(): string {
    return `cookie=0x686f6c640000${this.net.names.tag}`;
  }

  /** Ports of ours, by bridge. */
  async doors(): Promise<readonly string[]> {
    const found = await this.ovs.vsctl(
      "--bare",
      "--columns=name",
      "find",
      "Port",
      `external_ids:"holdfast.dev/owner"=${this.net.names.tag}`,
    );
    return found.split("\n").filter((line) => line !== "");
  }

  /** Ends everything. Resolves with what metadata-net left behind. */
  async stop(): Promise<readonly string[]> {
    await this.net.endNet("SIGTERM");
    await this.net.removeLeft();
    const left: string[] = [];
    try {
      left.push(...(await this.doors()));
      const bridges = (await this.ovs.vsctl("list-br")).split("\n").filter((line) => line !== "");
      for (const bridge of bridges) left.push(...(await this.flows(bridge)));
    } finally {
      await this.ovs.endSwitch();
      left.push(...(await this.net.stop()));
      await this.ovs.stop();
    }
    return left;
  }
}

/** Whom the listener takes a guest for: the network, or what came instead. */
export async function whoIs(guest: PortGuest, url = "/latest/", seconds = 5): Promise<string> {
  const { status, echo } = await guest.ask(url, ["--max-time", String(seconds), "-g"]);
  return echo.headers[LISTENER_HEADERS.network] ?? `status ${status}`;
}

const ASK_AGAIN_AND_AGAIN = `
import collections, json, socket, sys, threading
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
counts, limit = collections.Counter(), int(sys.argv[1])
print("asking", flush=True)
while not done.is_set() and sum(counts.values()) < limit:
    try:
        s = socket.create_connection(("169.254.169.254", 80), 5)
        s.sendall(b"GET /latest/ HTTP/1.0\\r\\nHost: a\\r\\n\\r\\n")
        got = b""
        while True:
            part = s.recv(65536)
            if not part: break
            got += part
        body = json.loads(got.split(b"\\r\\n\\r\\n", 1)[1])
        counts[body["headers"]["x-holdfast-network"]] += 1
    except Exception: counts["nothing"] += 1
done.wait(); print(json.dumps(counts))
`;

/** Asks one request after the other until `stop`, or so many: how often it was taken for whom. */
export async function askOften(
  guest: PortGuest,
  limit = 1_000_000,
): Promise<{ stop: () => Promise<Readonly<Record<string, number>>> }> {
  const asking = await startPython(guest.namespace, ASK_AGAIN_AND_AGAIN, [String(limit)]);
  return { stop: async () => JSON.parse((await asking.stop()).split("\n").at(-2) ?? "") };
}
