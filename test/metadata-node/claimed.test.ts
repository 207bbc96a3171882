import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { namesOf } from "../../guests/kernel/names.ts";
import { run } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";
import { drive, whyNoNewerCloudInit } from "../metadata/cloud-init/cloud-init.ts";
import { mustRun, whyNotReal } from "../network/containers.ts";
import { type AttachedGuest, MetadataNode } from "./metadata-node.ts";

const VICTIM = "11111111-1111-4111-8111-111111111111";
const THIEF = "22222222-2222-4222-8222-222222222222";
const FALSE_UUID = "66666666-6666-4666-8666-666666666666";

/** An OpenStack metadata service at addresses that its machine has taken. */
const FALSE_SERVICE = `
import http.server, json, socket, sys
class Server(http.server.ThreadingHTTPServer): address_family = socket.AF_INET6
class Answer(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_GET(self):
        path = self.path.rstrip("/")
        found = {
            "/openstack": b"latest\\n",
            "/openstack/latest/meta_data.json": json.dumps({"uuid": "${FALSE_UUID}", "hostname": "owned", "name": "owned"}).encode(),
            "/openstack/latest/user_data": b"#!/bin/sh\\nid > /owned\\n",
        }.get(path)
        self.send_response(404 if found is None else 200); self.end_headers(); self.wfile.write(found or b"")
server = Server(("::", 80), Answer)
print("serving", flush=True)
server.serve_forever()
`;

/** Gratuitous ARP and unsolicited neighbour advertisements, for a few seconds. */
const CLAIMS = `
import socket, struct, sys, time
mac = bytes.fromhex(sys.argv[1].replace(":", ""))
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(("eth0", 0))
ip = socket.inet_aton("169.254.169.254")
arp = lambda op: b"\\xff" * 6 + mac + struct.pack("!HHHBBH", 0x0806, 1, 0x0800, 6, 4, op) + mac + ip + b"\\xff" * 6 + ip
def advertisement(address):
    target = socket.inet_pton(socket.AF_INET6, address); everybody = socket.inet_pton(socket.AF_INET6, "ff02::1")
    body = struct.pack("!BBHI", 136, 0, 0, 0x20000000) + target + bytes([2, 1]) + mac
    pseudo = target + everybody + struct.pack("!II", len(body), 58) + body
    total = sum(struct.unpack("!%dH" % (len(pseudo) // 2), pseudo))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    body = body[:2] + struct.pack("!H", ~total & 0xffff) + body[4:]
    head = struct.pack("!IHBB", 0x60000000, len(body), 58, 255) + target + everybody
    return bytes.fromhex("333300000001") + mac + b"\\x86\\xdd" + head + body
frames = [arp(1), arp(2), advertisement("fe80::a9fe:a9fe"), advertisement("fd00:ec2::254")]
end = time.time() + 4
while time.time() < end:
    for frame in frames: s.send(frame)
    time.sleep(0.01)
`;

const why = whyNotReal() ?? whyNoNewerCloudInit();
if (why !== null) console.warn(why);

/** What a guest asks at: the three addresses of metadata services. */
const SERVICES = ["http://169.254.169.254", "http://[fe80::a9fe:a9fe%25eth0]", "http://[fd00:ec2::254]"] as const;

describe.skipIf(why !== null)("a guest that claims the addresses of a metadata service", () => {
  let node: MetadataNode;
  let victim: AttachedGuest;
  let thief: AttachedGuest;
  let service: ChildProcess;
  beforeAll(async () => {
    node = await MetadataNode.start();
    const net = node.network("shared");
    victim = await node.vm("victim", net, VICTIM);
    thief = await node.vm("thief", net, THIEF);
    await node.untilServed(victim);
    for (const guest of [victim, thief]) await node.onlyLinkLocalRoute(guest);
    await mustRun("ip", ["-n", thief.namespace, "address", "add", "169.254.169.254/32", "dev", "eth0"]);
    for (const address of ["fe80::a9fe:a9fe/64", "fd00:ec2::254/128"])
      await mustRun("ip", ["-n", thief.namespace, "address", "add", address, "dev", "eth0", "nodad"]);
    await mustRun("ip", ["-n", victim.namespace, "route", "add", "fd00:ec2::254/128", "dev", "eth0"]);
    service = spawn("ip", ["netns", "exec", thief.namespace, "python3", "-c", FALSE_SERVICE], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(service.stdout as NodeJS.ReadableStream, "data");
    await node.untilIpv6(victim);
  });
  afterAll(async () => {
    if (service?.exitCode === null) {
      const closed = once(service, "close");
      service.kill("SIGKILL");
      await closed;
    }
    await node?.stop();
  });

  /** A boot of today's cloud-init in the victim, which asks where it asks by itself. */
  const boot = () =>
    drive("openstack-default", ["eth0"], {
      namespace: victim.namespace,
      macs: { [victim.mac]: "eth0" },
      newer: true,
    });

  /** Whose metadata each service's address gives; null: nobody's. Without what the victim has learnt of neighbours. */
  async function answers(): Promise<(string | null)[]> {
    await mustRun("ip", ["-n", victim.namespace, "neigh", "flush", "all"]);
    return Promise.all(
      SERVICES.map(async (url) => {
        const options = ["--max-time", "4", "-g"];
        const { status, body } = await victim.ask(`${url}/openstack/latest/meta_data.json`, options);
        return status === 200 ? (JSON.parse(body).uuid as string) : null;
      }),
    );
  }

  /** Who has the address, again and again, to everybody: the thief's kernel says so by itself only when it is asked. */
  const shout = () => thief.python(CLAIMS, [thief.mac]).then(({ code, stderr }) => expect(code, stderr).toBe(0));

  test("does not reach its neighbours, where a current cloud-init gets its own metadata over IPv6", async () => {
    const [found] = await Promise.all([boot(), shout()]);
    console.log(`cloud-init ${found.version}, answered by ${found.from}`);
    expect(found).toMatchObject({
      found: true,
      instanceId: VICTIM,
      from: "http://[fe80::a9fe:a9fe%25eth0]",
    });
    expect(await answers()).toEqual([VICTIM, VICTIM, null]);
  });

  test("is served itself once it asks like other guests", async () => {
    await mustRun("ip", ["-n", thief.namespace, "address", "delete", "169.254.169.254/32", "dev", "eth0"]);
    const { body } = await thief.ask("/openstack/latest/meta_data.json");
    expect(JSON.parse(body).uuid).toBe(THIEF);
    await mustRun("ip", ["-n", thief.namespace, "address", "add", "169.254.169.254/32", "dev", "eth0"]);
  });

  test("would reach them without the rules that block it", async () => {
    const { table } = namesOf(node.metadata.runDir);
    node.metadata.net?.child.kill("SIGSTOP");
    try {
      await mustRun("nft", ["delete", "table", "netdev", table]);
      expect(await answers()).toEqual([FALSE_UUID, FALSE_UUID, FALSE_UUID]);
      const found = await boot();
      expect(found).toMatchObject({ found: true, instanceId: FALSE_UUID });
      expect(found.from).toContain("fe80::a9fe:a9fe");
      expect(Buffer.from(found.userdata, "base64").toString()).toContain("/owned");
    } finally {
      node.metadata.net?.child.kill("SIGCONT");
    }
    // The loss is heard of at once, and all of it made again.
    await until(async () => (await run("nft", ["list", "table", "netdev", table])).code === 0, "the rules", 20_000);
    await until(async () => (await answers())[1] === VICTIM, "the victim to be served again");
    expect((await boot()).instanceId).toBe(VICTIM);
  });
});
