import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { mustRun, whyNotReal } from "../network/containers.ts";
import { type AttachedGuest, MetadataNode } from "./metadata-node.ts";

const VICTIM = "11111111-1111-4111-8111-111111111111";
const THIEF = "22222222-2222-4222-8222-222222222222";

/** A guest that sent nonsense may be answered late, ms. */
const QUIET_MS = 12_000;

/** What a guest may try to be told about another. */
describe.skipIf(whyNotReal() !== null)("a guest that pretends to be another", () => {
  let node: MetadataNode;
  let victim: AttachedGuest;
  let thief: AttachedGuest;
  beforeAll(async () => {
    node = await MetadataNode.start();
    const net = node.network("shared", { metadata: { tokens: "optional" } });
    victim = await node.vm("victim", net, VICTIM);
    thief = await node.vm("thief", net, THIEF);
    await node.untilServed(thief);
  });
  afterAll(() => node?.stop());

  const raw = (text: string) => thief.raw(text, QUIET_MS);
  const statuses = (answers: string) => [...answers.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map((match) => match[1]);

  const names = [
    "X-Holdfast-Subject",
    "X-Holdfast-Source",
    "X-Holdfast-Network",
    "X-Holdfast-Claimed",
    "X-Forwarded-For",
    "X-Instance-ID",
    "X-Tenant-ID",
    "X-Real-IP",
    "Forwarded",
    "X-Neutron-Network-ID",
    "X-OVN-Network-ID",
    "X-Metadata-Provider",
  ];
  const spellings = (name: string) => [
    name,
    name.toLowerCase(),
    name.toUpperCase(),
    name.replaceAll("-", "_"),
    name.replaceAll("-", "_").toLowerCase(),
    name.replace("-", "."),
  ];

  test.each(names)("%s in every spelling, and twice, changes nothing", async (name) => {
    const value = /subject/i.test(name)
      ? `container/${victim.container}/eth0`
      : /source|claimed|forward|real/i.test(name)
        ? victim.address
        : VICTIM;
    for (const spelling of spellings(name)) {
      const line = `${spelling}: ${value}`;
      const { status, body } = await thief.ask("/openstack/latest/meta_data.json", ["-H", line, "-H", line]);
      if (status === 400) continue;
      expect(status, spelling).toBe(200);
      expect(JSON.parse(body).uuid, spelling).toBe(THIEF);
    }
  });

  test("absolute URIs, other hosts and climbing paths return only its own metadata", async () => {
    const targets = [
      "http://169.254.169.254/openstack/latest/meta_data.json",
      `http://${victim.address}/openstack/latest/meta_data.json`,
      "http://example.invalid/openstack/latest/meta_data.json",
      "//openstack///latest/meta_data.json",
      "/openstack/../../../openstack/latest/./meta_data.json",
      "/%2e%2e/openstack/latest/meta_data.json",
      "/openstack/latest/meta_data.json?network=other#x",
    ];
    for (const target of targets) {
      const answer = await raw(`GET ${target} HTTP/1.1\r\nHost: ${victim.address}\r\nConnection: close\r\n\r\n`);
      const [status] = statuses(answer);
      if (status === "400") continue;
      expect(status, `${target}: ${answer}`).toBe("200");
      expect(answer, target).toContain(THIEF);
      expect(answer, target).not.toContain(VICTIM);
    }
  });

  test("a second Host is refused or ignored", async () => {
    const answer = await raw(
      `GET /openstack/latest/meta_data.json HTTP/1.1\r\nHost: a\r\nHost: ${victim.address}\r\nConnection: close\r\n\r\n`,
    );
    expect(["200", "400"]).toContain(statuses(answer)[0]);
    expect(answer).not.toContain(VICTIM);
  });

  test.each([
    ["length and chunks", "Content-Length: 60\r\nTransfer-Encoding: chunked\r\n"],
    ["two lengths", "Content-Length: 0\r\nContent-Length: 60\r\n"],
    ["an odd transfer coding", "Transfer-Encoding: xchunked\r\n"],
    ["a coding twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"],
    ["a folded header", "X-A: b\r\n Transfer-Encoding: chunked\r\n"],
    ["a space before the colon", "Transfer-Encoding : chunked\r\n"],
  ])("smuggling by %s does not hide a request with an identity of its own", async (_how, lines) => {
    const origin = `X-Holdfast-Subject: container/${victim.container}/eth0\r\nX-Holdfast-Source: ${victim.address}\r\nX-Holdfast-Network: shared\r\n`;
    const hidden = `GET /openstack/latest/meta_data.json HTTP/1.1\r\nHost: m\r\n${origin}\r\n`;
    const answer = await raw(`POST /openstack/latest/password HTTP/1.1\r\nHost: m\r\n${lines}\r\n0\r\n\r\n${hidden}`);
    expect(answer).not.toContain(VICTIM);
    // And it harms nobody after it.
    const { body } = await victim.ask("/openstack/latest/meta_data.json");
    expect(JSON.parse(body).uuid).toBe(VICTIM);
  });

  test("headers of 10 MB are refused", async () => {
    const answer = await raw(
      `GET / HTTP/1.1\r\nHost: m\r\nX-Big: ${"a".repeat(10 * 1024 * 1024)}\r\nConnection: close\r\n\r\n`,
    );
    // It may hang up before it is heard out.
    if (answer !== "") expect(statuses(answer)[0]).toMatch(/^(400|431)$/);
    expect((await thief.ask("/")).status).toBe(200);
  });

  test("with the other's address it gets its own metadata, and the other is still served", async () => {
    await mustRun("ip", ["-n", thief.namespace, "address", "add", `${victim.address}/24`, "dev", "eth0"]);
    const path = "/openstack/latest/meta_data.json";
    const asked = await thief.ask(path, ["--interface", victim.address]);
    expect(JSON.parse(asked.body).uuid).toBe(THIEF);
    // What a backend would be told is what was recorded, not what the guest calls itself.
    const address = await thief.ask("/latest/meta-data/local-ipv4", ["--interface", victim.address]);
    expect(address.body).toBe(thief.address);
    const { status, body } = await victim.ask(path);
    expect(status).toBe(200);
    expect(JSON.parse(body).uuid).toBe(VICTIM);
    await mustRun("ip", ["-n", thief.namespace, "address", "delete", `${victim.address}/24`, "dev", "eth0"]);
  });

  test("with the other's address and MAC it gets nothing of the other's, and the other loses nothing", async () => {
    const inThief = (...words: string[]) => mustRun("ip", ["-n", thief.namespace, ...words]);
    await inThief("address", "add", `${victim.address}/24`, "dev", "eth0");
    await inThief("link", "set", "eth0", "address", victim.mac);
    try {
      const path = "/openstack/latest/meta_data.json";
      const asking = Array.from({ length: 10 }, async () => {
        const stolen = await thief.ask(path, ["--interface", victim.address, "--max-time", "2"]);
        expect(stolen.body).not.toContain(VICTIM);
      });
      for (let n = 0; n < 10; n += 1) expect(JSON.parse((await victim.ask(path)).body).uuid).toBe(VICTIM);
      await Promise.all(asking);
    } finally {
      await inThief("link", "set", "eth0", "address", thief.mac);
      await inThief("address", "delete", `${victim.address}/24`, "dev", "eth0");
    }
  });

  test("a token of one VM is invalid for another", async () => {
    const ttl = ["-X", "PUT", "-H", "X-aws-ec2-metadata-token-ttl-seconds: 60"];
    const { status, body: token } = await victim.ask("/latest/api/token", ttl);
    expect(status).toBe(200);
    const header = ["-H", `X-aws-ec2-metadata-token: ${token}`];
    expect((await victim.ask("/latest/meta-data/instance-id", header)).status).toBe(200);
    expect((await thief.ask("/latest/meta-data/instance-id", header)).status).toBe(401);
  });
});
