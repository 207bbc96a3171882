import { statSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { network, run, TestDaemon } from "../harness/daemon.ts";
import { TestMetadataServer } from "../harness/metadata/server.ts";
import { until } from "../harness/wait.ts";

/** Content of claims on a node without Kubernetes, from `apply` to the guest's documents. */
const KEY_1 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBGc alice@desk";
const KEY_2 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBHd bob@desk";
const SECRET_TEXT = "#cloud-config\nchpasswd: {list: 'root:hunter2'}\n";
const ANNOTATION = "metadata.holdfast.dev";
const PERSISTENT = { allowPersistentIPs: true };
const config = network("blue", { subnets: "10.40.0.0/24", cooldownSeconds: 0 }, PERSISTENT);
const red = network("red", { subnets: "10.50.0.0/24", cooldownSeconds: 0 }, PERSISTENT);

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

async function apply(...objects: object[]): Promise<void> {
  const { body } = await daemon.post("/v1/apply", { objects });
  expect(body).not.toContain('"error"');
}

const secret = (name: string, stringData: object, more: object = {}) => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: { name },
  stringData,
  ...more,
});

function claim(name: string, annotations: Readonly<Record<string, string>>, on = "blue", namespace = "default") {
  const entries = Object.entries(annotations).map(([key, value]) => [`${ANNOTATION}/${key}`, value]);
  return {
    apiVersion: "k8s.cni.cncf.io/v1alpha1",
    kind: "IPAMClaim",
    metadata: { name, namespace, annotations: Object.fromEntries(entries) },
    spec: { network: on, interface: "" },
  };
}

/** A container attached with a claim; its guest, as a listener names it. */
async function attach(container: string, claimName: string, where = config, interfaceName = "eth0") {
  const added = await daemon.cni("ADD", container, {
    config: where,
    ifname: interfaceName,
    args: `IPAM_CLAIM=default/${claimName}`,
  });
  expect(added.code, added.stdout).toBe(0);
  return `container/${container}/${interfaceName}`;
}

const asked = (subject: string, path: string, of = "blue") => server.ask(path, { network: of, subject, source: null });

test("a guest gets user-data, vendor-data, keys, free metadata and host name that its claim names, in every tree", async () => {
  await apply(
    secret("web", {
      "user-data": SECRET_TEXT,
      "vendor-data": "#cloud-config\n{}\n",
      authorized_keys: `${KEY_1}\n${KEY_2}\n`,
    }),
    { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "site" }, data: { region: "north" } },
    claim("web", {
      "user-data": "secret/web",
      "vendor-data": "secret/web",
      "public-keys": "secret/web/authorized_keys",
      meta: "configmap/site",
      hostname: "web.example.org",
    }),
  );
  const guest = await attach("web-1", "web");
  const metaData = (await asked(guest, "/openstack/latest/meta_data.json")).json();
  expect(metaData).toMatchObject({
    hostname: "web.example.org",
    public_keys: { authorized_keys: KEY_1, "authorized_keys-2": KEY_2 },
    meta: { region: "north" },
  });
  expect((await asked(guest, "/openstack/latest/user_data")).text).toBe(SECRET_TEXT);
  expect((await asked(guest, "/openstack/latest/vendor_data.json")).text).toContain("cloud-config");
  expect((await asked(guest, "/latest/user-data")).text).toBe(SECRET_TEXT);
  expect((await asked(guest, "/latest/meta-data/public-keys/0/openssh-key")).text).toBe(KEY_1);
  expect((await asked(guest, "/latest/meta-data/local-hostname")).text).toBe("web.example.org");
  expect((await asked(guest, "/nocloud/user-data")).text).toBe(SECRET_TEXT);
  expect((await asked(guest, "/nocloud/vendor-data")).text).toBe("#cloud-config\n{}\n");
  expect((await asked(guest, "/nocloud/meta-data")).text).toContain(KEY_2);
});

test("user-data is passed on byte for byte", async () => {
  const bytes = gzipSync(SECRET_TEXT);
  await apply(
    { ...secret("gz", {}), data: { userdata: bytes.toString("base64") } },
    claim("gz", { "user-data": "secret/gz" }),
  );
  const guest = await attach("gz-1", "gz");
  const answer = await asked(guest, "/openstack/latest/user_data");
  expect(answer.headers["content-length"]).toBe(String(bytes.length));
  expect(answer.text).toBe(bytes.toString());
});

test("a change takes effect soon, and deleted content is no longer served", async () => {
  await apply(secret("edited", { "user-data": "one" }), claim("edited", { "user-data": "secret/edited" }));
  const guest = await attach("edited-1", "edited");
  const now = async () => (await asked(guest, "/openstack/latest/user_data")).text;
  expect(await now()).toBe("one");
  await apply(secret("edited", { "user-data": "two" }));
  await until(async () => (await now()) === "two", "the new text");
  await apply(claim("edited", { "user-data": "" }));
  await until(async () => (await asked(guest, "/openstack/latest/user_data")).status === 404, "no text", 3_000);
  await apply(claim("edited", { "user-data": "secret/edited" }));
  await until(async () => (await now()) === "two", "the text again");
  await daemon.post("/v1/delete", { objects: [{ kind: "Secret", metadata: { name: "edited" } }] });
  await until(async () => (await asked(guest, "/openstack/latest/user_data")).status === 404, "no text", 3_000);
});

test("each guest gets the content of its own claim, and one without a claim gets none", async () => {
  const names = ["a", "b", "c"];
  for (const name of names)
    await apply(
      secret(`own-${name}`, { "user-data": name }),
      claim(`own-${name}`, { "user-data": `secret/own-${name}` }),
    );
  const guests = await Promise.all(names.map((name) => attach(`own-${name}-1`, `own-${name}`)));
  const texts = await Promise.all(
    Array.from(
      { length: 60 },
      async (_, n) => (await asked(guests[n % 3] as string, "/openstack/latest/user_data")).text,
    ),
  );
  expect(texts).toEqual(Array.from({ length: 60 }, (_, n) => names[n % 3]));
  expect((await daemon.cni("ADD", "plain", { config })).code).toBe(0);
  expect((await asked("container/plain/eth0", "/openstack/latest/user_data")).status).toBe(404);
});

test("a container that takes over another's claim, address and all gets what that claim names, not what its former one did", async () => {
  await apply(
    secret("first", { "user-data": "first" }),
    secret("second", { "user-data": "second" }),
    claim("first", { "user-data": "secret/first" }),
    claim("second", { "user-data": "secret/second" }),
  );
  for (let turn = 0; turn < 10; turn += 1) {
    const name = turn % 2 === 0 ? "first" : "second";
    const guest = await attach("turns", name);
    expect((await asked(guest, "/openstack/latest/user_data")).text).toBe(name);
    await daemon.cni("DEL", "turns", { config });
  }
});

test("a VM on two networks gets the same on both, from the first claim that defines it", async () => {
  await apply(
    secret("two", { "user-data": "of two", keys: KEY_1 }),
    claim("two.blue", { "user-data": "secret/two" }),
    claim("two.red", { "user-data": "secret/absent", "public-keys": "secret/two/keys" }, "red"),
  );
  const blue = await attach("two-1", "two.blue");
  const other = await attach("two-1", "two.red", red, "eth1");
  for (const [guest, of] of [
    [blue, "blue"],
    [other, "red"],
  ] as const) {
    expect((await asked(guest, "/openstack/latest/user_data", of)).text).toBe("of two");
    expect((await asked(guest, "/openstack/latest/meta_data.json", of)).json().public_keys).toEqual({
      keys: KEY_1,
    });
  }
});

test("a missing object leaves the other content, and the log names claim, annotation and remedy once a minute", async () => {
  await apply(
    secret("half", { keys: KEY_1 }),
    secret(
      "off",
      { "user-data": "hidden" },
      { metadata: { name: "off", labels: { [`${ANNOTATION}/serve`]: "false" } } },
    ),
    claim("half", {
      "user-data": "secret/off",
      "vendor-data": "secret/nowhere",
      "public-keys": "secret/half/keys",
    }),
  );
  const guest = await attach("half-1", "half");
  for (let n = 0; n < 3; n += 1) {
    expect((await asked(guest, "/openstack/latest/user_data")).status).toBe(404);
    expect((await asked(guest, "/openstack/latest/meta_data.json")).json().public_keys).toEqual({
      keys: KEY_1,
    });
  }
  const isLogged = (text: string) => server.log.includes(text);
  await until(() => isLogged("secret nowhere --from-file") && isLogged("Secret off"), "the log");
  const lines = server.log.split("\n").filter((line) => line.includes("content is missing"));
  expect(lines.filter((line) => line.includes("secret nowhere --from-file"))).toHaveLength(1);
  expect(lines.filter((line) => line.includes("Secret off"))).toHaveLength(1);
  expect(server.log).not.toContain("hidden");
});

describe("the identity socket", () => {
  const socket = () => join(daemon.directory, "identity.sock");
  const get = async (path: string) => {
    const args = ["-s", "-w", "\n%{http_code}", "--unix-socket", socket(), `http://localhost${path}`];
    const { stdout } = await run("curl", args);
    const at = stdout.lastIndexOf("\n");
    return { status: Number(stdout.slice(at + 1)), body: JSON.parse(stdout.slice(0, at)) };
  };

  test("serves the content of a container that runs here, and only what its claims name", async () => {
    await apply(
      secret("told", { "user-data": "told" }),
      secret("untold", { "user-data": "untold" }),
      claim("told", { "user-data": "secret/told" }),
    );
    await attach("told-1", "told");
    const { status, body } = await get("/v1/content?container=told-1");
    expect(status).toBe(200);
    expect(body.objects).toEqual([
      { kind: "Secret", name: "told", data: { "user-data": Buffer.from("told").toString("base64") } },
    ]);
    expect(body.claims).toMatchObject([{ namespace: "default", name: "told" }]);
    await daemon.cni("DEL", "told-1", { config });
    expect((await get("/v1/content?container=told-1")).body).toEqual({ claims: [], objects: [] });
  });

  test("lists no content, takes no claim's name, and nobody but root may use it unless a group is set", async () => {
    expect((await get("/v1/content")).status).toBe(400);
    expect((await get("/v1/content?claim=told")).status).toBe(400);
    expect((await get("/v1/content?container=a&container=b")).status).toBe(400);
    expect((await get("/v1/content?container=nobody")).body).toEqual({ claims: [], objects: [] });
    expect(statSync(socket()).mode & 0o777).toBe(0o600);
  });
});

test("content outlives a kill of the daemon, and is in a backup that a rebuild continues with", async () => {
  await apply(secret("kept", { "user-data": "kept" }), claim("kept", { "user-data": "secret/kept" }));
  const guest = await attach("kept-1", "kept");
  const { directory, log } = daemon;
  await daemon.end("SIGKILL");
  daemon = await TestDaemon.start({ directory });
  const now = async () => (await asked(guest, "/openstack/latest/user_data")).text;
  await until(async () => (await now()) === "kept", "the content again");
  const backup = join(daemon.directory, "backup.db");
  expect((await daemon.cli("backup", backup)).code).toBe(0);
  expect(statSync(backup).mode & 0o777).toBe(0o600);
  await daemon.post("/v1/delete", { objects: [{ kind: "Secret", metadata: { name: "kept" } }] });
  await until(async () => (await asked(guest, "/openstack/latest/user_data")).status === 404, "no text");
  const rebuilt = await daemon.cli("rebuild", "--from", backup, "--replace");
  expect(rebuilt.code, rebuilt.stderr).toBe(0);
  await until(async () => (await now()) === "kept", "the content of the backup");
  expect(`${log}${daemon.log}${server.log}`).not.toMatch(/hunter2|a2VwdA/);
});
