import { once } from "node:events";
import { readdirSync, rmSync } from "node:fs";
import { request } from "node:http";
import { connect, createServer, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { SERVICES_PATH, serviceKey } from "../../guests/services/services-wire.ts";
import { SERVICE_ANNOTATION } from "../../networks/udn/udn-object.ts";
import { connectionsMaxOf, DESCRIPTORS_KEPT } from "../../platform/listeners/bounded-server.ts";
import { LISTENERS } from "../../platform/listeners/listeners.ts";
import { ConnectionLoad } from "../harness/connection-load.ts";
import { newDirectory } from "../harness/daemon.ts";
import { KubePods, pathOf } from "../harness/kube-pods.ts";
import { freePorts } from "../harness/kube-process.ts";
import { ProductProcess } from "../harness/product-process.ts";
import { until } from "../harness/wait.ts";
import { configOf } from "../harness/world/network.ts";
import { endpointOf, UdnObjects } from "../harness/world/udn-objects.ts";
import { World } from "../harness/world/world.ts";
import { peakBytes, question, shipped } from "./shipped.ts";

/**
 * The metadata server as shipped, with connections to other ports of a network's Service as haproxy hands them over.
 */

const NODE = "node-a";
const CONNECTIONS = 2_000;
/** Of one port at once: as many as this machine has descriptors for. */
const HELD = Math.min(CONNECTIONS, connectionsMaxOf("relay") - 1);
const PROBES = ["/healthz", "/metrics"];
const ADDRESS = Object.values(networkInterfaces())
  .flat()
  .find((one) => one?.family === "IPv4" && !one.internal)?.address as string;

const ending: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ending.splice(0).reverse()) await end();
});

/** A pod's port, which sends back what it gets. */
async function podPort() {
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on("error", () => {}).on("close", () => open.delete(socket));
    socket.pipe(socket);
  });
  server.listen(0, ADDRESS, 4_096);
  await once(server, "listening");
  ending.push(() => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  return { open, port: (server.address() as { port: number }).port };
}

/** What haproxy says of a connection of a guest. */
function headOf(port: number): Buffer {
  const key = Buffer.from(serviceKey("blue", port));
  const rest = Buffer.concat([Buffer.alloc(12), Buffer.from([0x05, 0, key.length]), key]);
  const fixed = Buffer.from(`0d0a0d0a000d0a515549540a211100${rest.length.toString(16).padStart(2, "0")}`, "hex");
  return Buffer.concat([fixed, rest]);
}

async function started(wrapper: readonly string[] = []) {
  const { within, memoryBytes } = shipped("metadata/daemonset.yaml", "metadata");
  const [raw, other] = [await podPort(), await podPort()];
  const world = await World.start({ api: "memory", time: "machine" });
  ending.push(() => world.stop());
  const { cluster } = world;
  const kube = new KubePods(cluster.api);
  const objects = new UdnObjects(cluster);
  await kube.createNad("shop", "blue", configOf("blue", { subnets: "10.10.0.0/24" }));
  await cluster.api.patch(pathOf("shop", "network-attachment-definitions", "blue", "k8s.cni.cncf.io/v1"), {
    metadata: { annotations: { [SERVICE_ANNOTATION]: "md" } },
  });
  const http = { name: "http", port: 80 };
  const ports = [http, { name: "raw", port: 5000 }, { name: "other", port: 8443 }];
  await objects.service("shop", "md", { ports });
  const pod = await kube.createPod("shop", "md-0", { node: NODE });
  await objects.address(pod, ADDRESS);
  await objects.slice("shop", "md", "md-1", {
    endpoints: [endpointOf(pod, ADDRESS)],
    ports: Object.entries({ raw, other }).map(([name, { port }]) => ({ name, port, protocol: "TCP" })),
  });
  const directory = newDirectory();
  ending.push(() => rmSync(directory, { recursive: true, force: true }));
  const [port = 0] = await freePorts(1);
  const flags = {
    "metadata-socket": join(directory, "m.sock"),
    "balancers-socket": join(directory, "b.sock"),
    "identity-socket": join(directory, "identity.sock"),
    kubeconfig: cluster.kubeconfig("holdfast-metadata"),
    node: NODE,
    state: join(directory, "state"),
    "metrics-address": `127.0.0.1:${port}`,
  };
  const words = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]);
  const metadata = new ProductProcess(["metadata", ...words], [...within, ...wrapper]);
  ending.push(() => metadata.end("SIGKILL"));
  const wanted = async () => {
    const report = { applied: null, networks: ["blue"], problem: null, waitMs: 1_000 };
    const asked = request({
      agent: false,
      socketPath: flags["balancers-socket"],
      method: "POST",
      path: SERVICES_PATH,
    });
    const answer = new Promise<string>((resolve) => {
      asked
        .on("error", (error) => resolve(error.message))
        .on("response", async (response) => {
          let text = "";
          for await (const chunk of response.setEncoding("utf8")) text += chunk;
          resolve(text);
        });
    });
    asked.end(JSON.stringify(report));
    return answer;
  };
  await metadata.until(async () => (await wanted()).includes("[5000,8443]"), "the ports of the network");
  const health = { port, host: "127.0.0.1" };
  const relay = join(directory, "relay.sock");
  return {
    ...{ metadata, raw, other, memoryBytes, relay },
    guests: flags["metadata-socket"],
    load: async (path: string, kind: "idle" | "slow", head?: Buffer) => {
      const load = await ConnectionLoad.start({
        ...{ where: { path }, kind, count: CONNECTIONS },
        ...(head && { head: head.toString("base64") }),
      });
      ending.push(() => load.stop());
      return load;
    },
    /** A guest's connection, as haproxy hands it over. */
    guest: async (head: Buffer) => {
      const socket = connect(relay);
      ending.push(() => socket.destroy());
      socket.on("error", () => {}).write(head);
      await once(socket, "connect");
      return socket;
    },
    close: () =>
      cluster.api.patch(pathOf("shop", "services", "md"), {
        spec: { ports: ports.filter(({ name }) => name !== "raw") },
      }),
    /** What probes and scrapes are answered, each within what the kubelet waits. */
    probes: async () => {
      const answers = [];
      for (let index = 0; index < 20; index += 1)
        answers.push(await question(health, PROBES[index % PROBES.length] as string));
      return new Set(answers);
    },
  };
}

const echoes = async (socket: Socket) => {
  const answer = once(socket, "data");
  socket.write("hello");
  return String((await answer)[0]);
};

test("a port with 2,000 connections, beside 2,000 that say nothing and 4,000 at port 80, is cut when it goes", async () => {
  const { metadata, raw, other, memoryBytes, relay, guests, ...node } = await started();
  const stays = await node.guest(headOf(8443));
  expect(await echoes(stays)).toBe("hello");
  await node.load(relay, "idle", headOf(5000));
  await until(
    () => raw.open.size === HELD,
    () => `${raw.open.size} connections at the pod: ${metadata.log}`,
  );
  const silent = await node.load(relay, "idle");
  for (const kind of ["idle", "slow"] as const) await node.load(guests, kind);
  expect(await node.probes()).toEqual(new Set([200]));
  expect(await question({ socketPath: guests }, "/")).toEqual(expect.any(Number));
  await silent.stop();
  expect(raw.open.size).toBe(HELD);
  // Each is renewed at once, and closed.
  await node.close();
  await until(
    () => raw.open.size === 0,
    () => `${raw.open.size} connections at a port that is no more`,
  );
  expect(await node.probes()).toEqual(new Set([200]));
  expect(raw.open.size).toBe(0);
  expect(await echoes(stays)).toBe("hello");
  expect(other.open.size).toBe(1);
  expect(peakBytes(metadata.child.pid)).toBeLessThan(memoryBytes);
});

test("a connection of which haproxy does not say whose it is is closed after the listener's time, not before", async () => {
  const { guest } = await started();
  const beganMs = performance.now();
  const [none, half] = [await guest(Buffer.alloc(0)), await guest(headOf(5000).subarray(0, 20))];
  await Promise.all([once(none.resume(), "close"), once(half.resume(), "close")]);
  // Timers count whole milliseconds.
  expect(performance.now() - beganMs).toBeGreaterThan(LISTENERS.relay.headerMs - 10);
  const odd = await guest(Buffer.from("GET / HTTP/1.1\r\n"));
  await once(odd.resume(), "close");
});

test("with 1,024 descriptors it has some left beside a full relay and a full port 80", async () => {
  const { metadata, raw, relay, guests, ...node } = await started(["sh", "-c", 'ulimit -n 1024; exec "$@"', "sh"]);
  await node.load(relay, "idle", headOf(5000));
  for (const kind of ["idle", "slow"] as const) await node.load(guests, kind);
  expect(await node.probes()).toEqual(new Set([200]));
  expect(raw.open.size).toBeGreaterThan(0);
  const open = readdirSync(`/proc/${metadata.child.pid}/fd`).length;
  expect(open + LISTENERS.health.connectionsMax + LISTENERS.balancers.connectionsMax).toBeLessThan(
    1_024 - DESCRIPTORS_KEPT / 2,
  );
  await node.close();
  await until(
    () => raw.open.size === 0,
    () => `${raw.open.size} connections at a port that is no more`,
  );
  expect(metadata.log).not.toContain("EMFILE");
});
