import { afterAll, beforeAll, expect, test } from "vitest";
import { network, TestDaemon } from "../harness/daemon.ts";
import { TestMetadataServer } from "../harness/metadata/server.ts";

// What a claim's annotations say reaches the guest: plugin binary, daemon and metadata server are those that are
// shipped.

const TENANT = "0b9d3c1e-5a77-4c2f-8e13-6f4d2a9b7c50";
const ANNOTATIONS = {
  "metadata.holdfast.dev/public-ipv4": "198.51.100.24",
  "metadata.holdfast.dev/public-hostname": "shop.example.net",
  "metadata.holdfast.dev/tenant-id": TENANT,
};
const CONFIG = network("blue", { subnets: "10.52.0.0/24" }, { allowPersistentIPs: true });

let daemon: TestDaemon;
let server: TestMetadataServer;
beforeAll(async () => {
  daemon = await TestDaemon.start();
  server = new TestMetadataServer(daemon.directory);
  await server.run();
});
afterAll(async () => {
  await server?.end();
  await daemon?.stop();
});

/** Attaches a container by a claim of its name; returns its address. */
async function attached(name: string, annotations: object): Promise<string> {
  const claim = {
    apiVersion: "k8s.cni.cncf.io/v1alpha1",
    kind: "IPAMClaim",
    metadata: { name, namespace: "default", annotations },
    spec: { network: "blue", interface: "" },
  };
  const { body } = await daemon.post("/v1/apply", { objects: [claim] });
  expect(body).not.toContain('"error"');
  const added = await daemon.cni("ADD", name, { config: CONFIG, args: `IPAM_CLAIM=default/${name}` });
  expect(added.code, added.stdout).toBe(0);
  return added.json().ips[0].address.split("/")[0];
}

async function answered(name: string, source: string, path: string): Promise<string> {
  const asked = { network: "blue", subject: `container/${name}/eth0`, source };
  const { status, text } = await server.ask(path, asked);
  return status === 200 ? text : String(status);
}

test("a guest reads its public address, its public name and its tenant, beside its own address", async () => {
  const address = await attached("web", ANNOTATIONS);
  const meta = (key: string) => answered("web", address, `/latest/meta-data/${key}`);
  expect(await meta("local-ipv4")).toBe(address);
  expect(await meta("public-ipv4")).toBe("198.51.100.24");
  expect(await meta("public-hostname")).toBe("shop.example.net");
  const openstack = JSON.parse(await answered("web", address, "/openstack/latest/meta_data.json"));
  expect(openstack.project_id).toBe(TENANT);
  // 512 bytes in Base64, as Nova has it.
  expect(Buffer.from(openstack.random_seed, "base64")).toHaveLength(512);
});

test("a guest whose claim says nothing of it has no public address or name, and another's tenant is not its own", async () => {
  const address = await attached("plain", {});
  for (const key of ["public-ipv4", "public-hostname"])
    expect(await answered("plain", address, `/latest/meta-data/${key}`)).not.toMatch(/198\.51|shop/);
  expect(await answered("plain", address, "/openstack/latest/meta_data.json")).not.toContain(TENANT);
});
