import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { namesOf } from "../../metadata/net/kernel/names.ts";
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

const why = whyNotReal() ?? whyNoNewerCloudInit();
if (why !== null) console.warn(why);

describe.skipIf(why !== null)("a guest that claims the IPv6 address of a metadata service", () => {
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
    for (const address of ["fe80::a9fe:a9fe/64", "fd00:ec2::254/128"])
      await mustRun("ip", ["-n", thief.namespace, "address", "add", address, "dev", "eth0", "nodad"]);
    await mustRun("ip", ["-n", victim.namespace, "route", "add", "fd00:ec2::254/128", "dev", "eth0"]);
    service = spawn("ip", ["netns", "exec", thief.namespace, "python3", "-c", FALSE_SERVICE], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(service.stdout as NodeJS.ReadableStream, "data");
    await until(
      async () => !(await run("ip", ["-n", victim.namespace, "-6", "address"])).stdout.includes("tentative"),
      "the victim's own IPv6 address",
      20_000,
    );
  });
  afterAll(async () => {
    if (service.exitCode === null) {
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
  const stolen = async () => {
    const answers = await Promise.all(
      ["http://[fe80::a9fe:a9fe%25eth0]/openstack", "http://[fd00:ec2::254]/openstack"].map((url) =>
        victim.ask(url, ["--max-time", "4", "-g"]),
      ),
    );
    return answers.map(({ status }) => status);
  };

  test("does not reach its neighbours, where a current cloud-init gets its own metadata", async () => {
    const found = await boot();
    console.log(`cloud-init ${found.version}, answered by ${found.from}`);
    expect(found).toMatchObject({ found: true, instanceId: VICTIM, from: "http://169.254.169.254" });
    expect(await stolen()).toEqual([0, 0]);
  });

  test("would reach them without the rules against that, even beside the real service", async () => {
    const { table } = namesOf(node.metadata.runDir);
    node.metadata.net?.child.kill("SIGSTOP");
    try {
      await mustRun("nft", ["flush", "chain", "bridge", table, "claimed6"]);
      expect(await stolen()).toEqual([200, 200]);
      const found = await boot();
      expect(found).toMatchObject({ found: true, instanceId: FALSE_UUID });
      expect(found.from).toContain("fe80::a9fe:a9fe");
      expect(Buffer.from(found.userdata, "base64").toString()).toContain("/owned");
    } finally {
      node.metadata.net?.child.kill("SIGCONT");
    }
    // Somebody takes the table away: that is heard of at once, and all of it made again.
    await mustRun("nft", ["delete", "table", "bridge", table]);
    await until(
      async () => (await run("nft", ["list", "table", "bridge", table])).code === 0,
      "the rules",
      20_000,
    );
    expect((await boot()).instanceId).toBe(VICTIM);
  });
});
