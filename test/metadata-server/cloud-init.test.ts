import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LISTENER_HEADERS } from "../../guests/haproxy/listener-headers.ts";
import { drive, whyNoCloudInit } from "../metadata/cloud-init/cloud-init.ts";
import { identity, otherVm, UUID } from "./fake-identity.ts";
import { MetadataServer } from "./metadata-server.ts";

const why = whyNoCloudInit();
if (why !== null) console.warn(why);
const MAC = "52:54:00:de:5b:bf";
const OTHER = "99999999-9999-4999-8999-999999999999";

describe.skipIf(why !== null)(why ?? "cloud-init itself, against the running server", () => {
  let server: MetadataServer;
  let listener: Server;
  let url: string;
  beforeAll(async () => {
    server = await MetadataServer.start();
    listener = forwarder(server.socket);
    await new Promise<void>((resolve) => listener.listen(0, "0.0.0.0", resolve));
    url = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
    server.identity.known.set("blue 127.9.8.7", identity());
    server.identity.known.set("blue 127.9.8.8", otherVm(OTHER));
  });
  afterAll(async () => {
    await new Promise((resolve) => listener?.close(resolve));
    await server?.stop();
  });

  test.each(["openstack", "ec2", "aws", "nocloud"])("%s", async (source) => {
    const found = await drive(source, [url], { macs: { [MAC]: "enp1s0" }, source: "127.9.8.7" });
    const id = source === "openstack" || source === "nocloud" ? UUID : `i-${UUID.replaceAll("-", "")}`;
    expect(found).toMatchObject({ found: true, hostname: "vm1", instanceId: id });
    if (source === "openstack")
      expect(found.netplan?.network.ethernets).toMatchObject({
        enp1s0: { addresses: ["10.10.0.5/24"], match: { macaddress: MAC }, mtu: 1450 },
      });
  });

  test("each of two concurrent guests gets its own metadata", async () => {
    const [one, two] = await Promise.all(
      ["127.9.8.7", "127.9.8.8"].map((source) => drive("openstack", [url], { macs: { [MAC]: "enp1s0" }, source })),
    );
    expect([one?.instanceId, two?.instanceId]).toEqual([UUID, OTHER]);
  });
});

/**
 * What a listener does, of it what the tests need: says the network and the guest, who is net1 of a container called as
 * its address.
 */
function forwarder(socketPath: string): Server {
  return createServer((incoming, outgoing) => {
    const headers = {
      ...incoming.headers,
      [LISTENER_HEADERS.network]: "blue",
      [LISTENER_HEADERS.subject]: `container/${incoming.socket.remoteAddress}/net1`,
    };
    const { method, url: path } = incoming;
    const sent = request({ socketPath, method, path, headers, agent: false }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, { ...answer.headers, connection: "close" });
      answer.pipe(outgoing);
    });
    sent.on("error", () => outgoing.destroy());
    incoming.pipe(sent);
  });
}
