import { chmodSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MetadataServer } from "../../metadata/server/metadata-server.ts";
import { loadMetadataSettings } from "../../metadata/server/settings.ts";
import { SERVICE_ANNOTATION } from "../../networks/udn/udn-object.ts";
import { systemClock } from "../../platform/time.ts";
import { newDirectory } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { KubePods, pathOf } from "../harness/kube-pods.ts";
import { until } from "../harness/wait.ts";
import type { Cluster } from "../harness/world/cluster.ts";
import { configOf } from "../harness/world/network.ts";
import { endpointOf, UdnObjects } from "../harness/world/udn-objects.ts";
import { World } from "../harness/world/world.ts";
import { NetNode, type PortGuest } from "../metadata-net/node.ts";
import { startPython } from "../metadata-net/python-process.ts";
import { whyNotReal } from "../network/containers.ts";

// From a guest's connection to the pod behind a port of the Service of its network: a real metadata-net with haproxy, a
// real metadata server, and a cluster in memory.

const NODE = "node-a";
const ADDRESS = Object.values(networkInterfaces())
  .flat()
  .find((one) => one?.family === "IPv4" && !one.internal)?.address as string;

/**
 * Connects, sends its input, and says what came back: or that the connection was refused, or closed before anything
 * came.
 */
const CONNECT = `
import socket, sys
s = socket.socket()
s.settimeout(60)
try: s.connect(("169.254.169.254", int(sys.argv[1])))
except ConnectionRefusedError: print("refused", end=""); sys.exit()
except ConnectionResetError: print("closed", end=""); sys.exit()
got = b""
try:
    s.sendall(sys.stdin.buffer.read()); s.shutdown(socket.SHUT_WR)
    while True:
        part = s.recv(65536)
        if not part: break
        got += part
except OSError: pass
print(got.decode() if got else "closed", end="")
`;

/**
 * Holds connections, each with a byte in both directions now and then; prints how many there are, then how many were
 * cut.
 */
const HOLD = `
import select, socket, sys
def talks(s):
    try:
        s.sendall(b"x")
        return s.recv(1) == b"x"
    except OSError: return False
held = []
for n in range(int(sys.argv[2])):
    s = socket.socket(); s.settimeout(60)
    try: s.connect(("169.254.169.254", int(sys.argv[1])))
    except OSError: continue
    if talks(s): held.append(s)
print(len(held), flush=True)
count, ended = len(held), False
while not ended:
    ended = len(select.select([sys.stdin], [], [], 1)[0]) > 0
    held = [s for s in held if talks(s)]
print(count - len(held))
`;

/** A pod's port: keeps what it was sent, and sends it back after its name. */
class PodPort {
  readonly #server: Server;
  readonly sent: string[] = [];

  constructor(name: string) {
    this.#server = createServer({ allowHalfOpen: true }, (socket) => {
      socket.on("error", () => socket.destroy());
      const at = this.sent.push("") - 1;
      socket.on("data", (data) => {
        this.sent[at] = `${this.sent[at]}${data}`;
        socket.write(data);
      });
      socket.on("end", () => socket.end(` from ${name}`));
    });
  }

  async listen(): Promise<number> {
    await new Promise<void>((resolve) => this.#server.listen(0, ADDRESS, resolve));
    return (this.#server.address() as { port: number }).port;
  }

  close(): void {
    this.#server.close();
  }
}

describe.skipIf(whyNotReal() !== null)("ports of the Service of a network", () => {
  let world: World;
  let cluster: Cluster;
  let objects: UdnObjects;
  let kube: KubePods;
  let server: MetadataServer;
  let directory: string;
  let pod: KubeObject;
  let node: NetNode;
  let blue: PortGuest;
  let green: PortGuest;
  const ports = { raw: new PodPort("raw"), other: new PodPort("other") };
  let numbers: Record<keyof typeof ports, number>;

  beforeAll(async () => {
    directory = newDirectory();
    chmodSync(directory, 0o711);
    numbers = { raw: await ports.raw.listen(), other: await ports.other.listen() };
    world = await World.start({ api: "memory", time: "machine" });
    ({ cluster } = world);
    kube = new KubePods(cluster.api);
    objects = new UdnObjects(cluster);
    await kube.createNad("shop", "blue", configOf("blue", { subnets: "10.10.0.0/24" }));
    await kube.createNad("shop", "green", configOf("green", { subnets: "10.11.0.0/24" }));
    await cluster.api.patch(pathOf("shop", "network-attachment-definitions", "blue", "k8s.cni.cncf.io/v1"), {
      metadata: { annotations: { [SERVICE_ANNOTATION]: "md" } },
    });
    await objects.service("shop", "md", {
      ports: [
        { name: "http", port: 80 },
        { name: "raw", port: 5000 },
        { name: "other", port: 8443 },
        { name: "clock", port: 123, protocol: "UDP" },
      ],
    });
    pod = await kube.createPod("shop", "md-0", { node: NODE });
    await objects.address(pod, ADDRESS);
    await objects.slice("shop", "md", "md-1", {
      endpoints: [endpointOf(pod, ADDRESS)],
      ports: Object.entries(numbers).map(([name, port]) => ({ name, port, protocol: "TCP" })),
    });
    const settings = loadMetadataSettings(
      {
        metadataSocket: join(directory, "m.sock"),
        balancersSocket: join(directory, "b.sock"),
        identitySocket: join(directory, "identity.sock"),
        kubeconfig: cluster.kubeconfig("holdfast-metadata"),
        node: NODE,
        state: join(directory, "state"),
        metricsAddress: "off",
        logLevel: "silent",
      },
      {},
    );
    server = await MetadataServer.create(settings, pino({ level: "silent" }), systemClock);
    await server.start();
    node = await NetNode.start(["--balancers-socket", join(directory, "b.sock"), "--ovn-northbound", "off"]);
    const bridge = await node.bridge();
    blue = await node.guest(bridge, "10.10.0.5/24");
    green = await node.guest(bridge, "10.11.0.5/24");
    expect(await node.wanted(blue.on("blue"), green.on("green"))).toEqual({});
    await until(
      async () => (await connect(blue, 5000, "?")) !== "refused",
      () => `port 5000 to be open: ${node.log}`,
    );
  });
  afterAll(async () => {
    await node?.stop();
    await server?.stop();
    await world?.stop();
    for (const port of Object.values(ports)) port.close();
    rmSync(directory, { recursive: true, force: true });
  });

  const connect = async (guest: PortGuest, port: number, bytes: string) => {
    const { stdout, stderr } = await guest.python(CONNECT, [String(port)], bytes);
    return stdout + stderr;
  };
  const patchPorts = (names: readonly string[]) =>
    cluster.api.patch(pathOf("shop", "services", "md"), {
      spec: {
        ports: [
          { name: "http", port: 80 },
          ...[
            { name: "raw", port: 5000 },
            { name: "other", port: 8443 },
          ].filter(({ name }) => names.includes(name)),
        ],
      },
    });
  const slice = pathOf("shop", "endpointslices", "md-1", "discovery.k8s.io/v1beta1");
  const endpoints = (value: readonly object[]) =>
    cluster.api.patch(slice, [{ op: "replace", path: "/endpoints", value }], "json");

  test("are answered at the same number, byte for byte, without anything that says who asks", async () => {
    const bytes = "GET / HTTP/1.1\r\nX-Instance-ID: mine\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n";
    expect(await connect(blue, 5000, bytes)).toBe(`${bytes} from raw`);
    expect(ports.raw.sent.at(-1)).toBe(bytes);
    expect(await connect(blue, 8443, "a secret")).toBe("a secret from other");
    // Port 80 remains the metadata server's, with who asks.
    const { headers } = (await blue.ask("/openstack")).echo;
    expect(headers["x-holdfast-network"]).toBe("blue");
  });

  test("of another network, and what no Service has, are closed", async () => {
    const before = [...ports.raw.sent];
    expect(await connect(green, 5000, "hello")).toBe("closed");
    expect(await connect(blue, 5001, "hello")).toBe("refused");
    expect(await connect(blue, 1, "hello")).toBe("refused");
    expect(await connect(blue, 123, "hello")).toBe("refused");
    expect(ports.raw.sent).toEqual(before);
  });

  test("carry much in both directions", async () => {
    const much = "0123456789abcdef".repeat(1 << 16);
    for (let round = 0; round < 20; round += 1)
      // Not compared by expect, which would print a megabyte.
      expect((await connect(blue, 5000, much)) === `${much} from raw`, `round ${round}`).toBe(true);
  });

  test("count to the 64 connections of a guest", async () => {
    const holder = await startPython(blue.namespace, HOLD, ["5000", "80"]);
    expect(await connect(blue, 5000, "one more")).toBe("closed");
    expect((await blue.ask("/openstack")).status).toBe(0);
    // Others are not concerned.
    expect((await green.ask("/openstack")).status).toBe(200);
    expect(await holder.stop()).toBe("64\n0\n");
    await until(async () => (await connect(blue, 5000, "again")) === "again from raw", "its places to be free");
  });

  test("lead to pods of the Service's namespace on this node and to nothing else", async () => {
    const elsewhere = await kube.createPod("shop", "md-far", { node: "node-b" });
    await kube.createNamespace("other");
    const foreign = await kube.createPod("other", "md-0", { node: NODE });
    for (const one of [elsewhere, foreign]) await objects.address(one, ADDRESS);
    const before = ports.raw.sent.length;
    for (const value of [
      [endpointOf(elsewhere, ADDRESS)],
      [endpointOf(foreign, ADDRESS)],
      [endpointOf(elsewhere, ADDRESS, { topology: { "kubernetes.io/hostname": NODE } })],
      [{ addresses: [ADDRESS], conditions: { ready: true }, topology: { "kubernetes.io/hostname": NODE } }],
      [endpointOf(pod, ADDRESS, { conditions: { ready: false } })],
    ]) {
      await endpoints(value);
      await until(async () => (await connect(blue, 5000, "")) === "closed", `nobody behind ${JSON.stringify(value)}`);
      const count = ports.raw.sent.length;
      expect(await connect(blue, 5000, "hello")).toBe("closed");
      expect(ports.raw.sent).toHaveLength(count);
    }
    expect(ports.raw.sent.slice(before).join("")).not.toContain("hello");
    expect((await objects.event("shop", "blue", "MetadataServiceEndpointRefused")).message).toContain("other");
    await endpoints([endpointOf(pod, ADDRESS)]);
    await until(async () => (await connect(blue, 5000, "back")) === "back from raw", "the pod to be reached");
  });

  test("that cannot be served are told by an event", async () => {
    const event = await objects.event("shop", "blue", "MetadataServicePortsNotServed");
    expect(event.message).toContain("123/UDP");
  });

  test("that go are closed, and what is connected to them is cut; others stay", async () => {
    const going = await startPython(blue.namespace, HOLD, ["5000", "3"]);
    const staying = await startPython(blue.namespace, HOLD, ["8443", "3"]);
    await patchPorts(["other"]);
    await until(async () => (await connect(blue, 5000, "hello")) === "refused", "port 5000 to be closed");
    expect(await going.stop()).toBe("3\n3\n");
    expect(await staying.stop()).toBe("3\n0\n");
    await patchPorts(["raw", "other"]);
    await until(async () => (await connect(blue, 5000, "back")) === "back from raw", "port 5000 to be open again");
  });

  test("go with the reference, and with metadata-net they come back", async () => {
    await node.endNet("SIGKILL");
    node.startNet();
    expect(await node.wanted(blue.on("blue"), green.on("green"))).toEqual({});
    await until(async () => (await connect(blue, 8443, "back")) === "back from other", "port 8443 to be open again");
    await cluster.api.patch(pathOf("shop", "network-attachment-definitions", "blue", "k8s.cni.cncf.io/v1"), {
      metadata: { annotations: { [SERVICE_ANNOTATION]: null } },
    });
    await until(async () => (await connect(blue, 8443, "hello")) === "refused", "port 8443 to be closed");
    expect((await blue.ask("/openstack")).status).toBe(200);
  });
});
