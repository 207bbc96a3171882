import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { signInstanceId } from "../../metadata/proxy/signature.ts";
import { untilSaid } from "../harness/wait.ts";
import { identity, otherVm, UUID } from "./fake-identity.ts";
import { MetadataServer } from "./metadata-server.ts";
import { RealNova, whyNoNova } from "./real-nova.ts";

const why = whyNoNova();
const ELSEWHERE = "99999999-9999-4999-8999-000000000001";
const UNKNOWN = "99999999-9999-4999-8999-000000000002";
const INSTANCES = [
  { uuid: UUID, project: "default", hostname: "vm1" },
  { uuid: ELSEWHERE, project: "another", hostname: "vm2" },
];
const META_DATA = "/openstack/latest/meta_data.json";
const SECRET = "S3cret-shared-by-both";

/** A metadata server that forwards to a Nova; `secret` null: without --secret-file. */
async function forwardingTo(nova: RealNova, secret: string | null): Promise<MetadataServer> {
  const server = await MetadataServer.start((directory) => {
    if (secret === null) return ["--nova-url", nova.url];
    writeFileSync(join(directory, "secret"), `${secret}\n`, { mode: 0o600 });
    return ["--nova-url", nova.url, "--secret-file", join(directory, "secret")];
  });
  server.identity.known.set("blue 10.10.0.5", identity());
  server.identity.known.set("blue 10.10.0.6", otherVm(ELSEWHERE));
  server.identity.known.set("blue 10.10.0.7", otherVm(UNKNOWN));
  return server;
}

describe.skipIf(why !== null)(why ?? "Nova's own metadata handler", () => {
  describe.each([
    ["with a shared secret", SECRET],
    ["without one, as Nova and Neutron have it by default", null],
  ])("%s", (_, secret) => {
    let nova: RealNova;
    let server: MetadataServer;
    beforeAll(async () => {
      nova = await RealNova.start(secret, INSTANCES);
      server = await forwardingTo(nova, secret);
    });
    afterAll(async () => {
      await server?.stop();
      await nova?.stop();
    });

    test("answers a guest, whom our signature names", async () => {
      const answer = await server.ask(META_DATA);
      expect([answer.status, answer.headers["content-type"]]).toEqual([200, expect.stringContaining("json")]);
      expect(answer.json()).toMatchObject({ uuid: UUID, project_id: "default", hostname: "vm1.novalocal" });
      expect((await server.ask("/latest/meta-data/hostname")).text).toBe("vm1.novalocal");
    });

    test("is told the recorded address of the guest", async () => {
      expect((await server.ask("/latest/meta-data/local-ipv4")).text).toBe("10.10.0.5");
      expect(nova.lastHeaders).toMatchObject({
        HTTP_X_FORWARDED_FOR: "10.10.0.5",
        HTTP_X_INSTANCE_ID: UUID,
        HTTP_X_INSTANCE_ID_SIGNATURE: signInstanceId(Buffer.from(secret ?? ""), UUID),
        HTTP_X_NEUTRON_NETWORK_ID: "blue",
        HTTP_X_OVN_NETWORK_ID: "blue",
        HTTP_X_TENANT_ID: "default",
      });
    });

    test("answers what it answers the agents of Neutron and of OVN", async () => {
      const { random_seed: _, ...ours } = (await server.ask(META_DATA)).json();
      for (const network of [[], ["X-Neutron-Network-ID"], ["X-OVN-Network-ID"]]) {
        const answer = await fetch(`${nova.url}${META_DATA}`, { headers: asAgent(secret, network) });
        const { random_seed: __, ...theirs } = (await answer.json()) as Record<string, unknown>;
        expect(ours).toEqual(theirs);
      }
    });

    test("keeps a guest's password, and shows it", async () => {
      const path = "/openstack/latest/password";
      expect((await server.ask(path, { method: "POST", body: "cipher text" })).status).toBe(200);
      expect((await server.ask(path)).text).toBe("cipher text");
      expect((await server.ask(path, { method: "POST", body: "another" })).status).toBe(409);
    });

    test("does not know an instance of another project, an unknown one, or an unknown path", async () => {
      expect((await server.ask("/openstack", { source: "10.10.0.6" })).status).toBe(404);
      expect((await server.ask("/openstack", { source: "10.10.0.7" })).status).toBe(404);
      expect((await server.ask("/openstack/1999-01-01")).status).toBe(404);
      expect((await server.ask("/")).text).toContain("2009-04-04");
    });

    test.each([
      ["another signature", { "X-Instance-ID-Signature": signInstanceId(Buffer.from("other"), UUID) }, 403],
      ["a signature of another instance", { "X-Instance-ID": ELSEWHERE }, 403],
      ["no signature", { "X-Instance-ID-Signature": null }, 400],
      ["no instance", { "X-Instance-ID": null }, 400],
      ["no tenant", { "X-Tenant-ID": null }, 400],
      ["another tenant", { "X-Tenant-ID": "another" }, 404],
    ])("refuses a request with %s", async (_what, changed, status) => {
      const headers = Object.entries({ ...asAgent(secret, []), ...changed });
      const sent = headers.filter((line): line is [string, string] => line[1] !== null);
      expect((await fetch(`${nova.url}${META_DATA}`, { headers: sent })).status).toBe(status);
    });
  });

  test.each([
    ["different secrets", SECRET, "another"],
    ["a secret of Nova's alone", SECRET, null],
    ["a secret of ours alone", null, SECRET],
  ])("refuses %s, and our log says so once, without secret or signature", async (_, theirs, ours) => {
    const nova = await RealNova.start(theirs, INSTANCES);
    const server = await forwardingTo(nova, ours);
    try {
      for (let n = 0; n < 5; n++) expect((await server.ask("/openstack")).status).toBe(403);
      await untilSaid(() => server.log, "do both have the same secret");
      expect(server.log.split("do both have the same secret")).toHaveLength(2);
      expect(server.log).not.toContain(signInstanceId(Buffer.from(ours ?? ""), UUID));
      if (ours === null) await untilSaid(() => server.log, "signed with the empty key");
      else expect(server.log).not.toContain(ours);
    } finally {
      await server.stop();
      await nova.stop();
    }
  });
});

/** What Neutron's and OVN's metadata agents send to Nova; `network`: what stands between the agent and its proxy. */
function asAgent(secret: string | null, network: readonly string[]): Record<string, string> {
  return {
    "X-Forwarded-For": "10.10.0.5",
    "X-Instance-ID": UUID,
    "X-Tenant-ID": "default",
    "X-Instance-ID-Signature": signInstanceId(Buffer.from(secret ?? ""), UUID),
    ...Object.fromEntries(network.map((name) => [name, "blue"])),
  };
}
