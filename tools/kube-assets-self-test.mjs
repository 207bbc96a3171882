// Whether the etcd and kube-apiserver of a directory work: a definition, and an object with an empty string, which a
// badly built server refuses or crashes on. kube-controller-manager only has to start. Exits 0 or 1, leaves nothing
// behind.
import { execFileSync, spawn } from "node:child_process";
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Far above what anything takes: a machine may be busy compiling. */
const LIMIT_MS = 120_000;
const POLL_MS = 100;
const REQUEST_MS = 20_000;

const assets = process.argv[2];
if (assets === undefined) {
  console.error(
    "usage: node kube-assets-self-test.mjs <directory with etcd, kube-apiserver and kube-controller-manager>",
  );
  process.exit(1);
}
const directory = mkdtempSync(join(tmpdir(), "holdfast-kube-assets-"));
const token = randomUUID();
const parts = [];
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => finish(1));

try {
  await tryIt();
  console.log("kube-assets: the API server keeps definitions and objects");
  finish(0);
} catch (error) {
  console.error(`kube-assets: ${error.message}`);
  for (const { name, log } of parts) console.error(`--- the end of ${name}'s log:\n${log.slice(-3000)}`);
  finish(1);
}

async function tryIt() {
  const [etcdPort, peerPort, apiPort] = [await freePort(), await freePort(), await freePort()];
  const etcd = `http://127.0.0.1:${etcdPort}`;
  const peer = `http://127.0.0.1:${peerPort}`;
  start("etcd", [
    `--data-dir=${join(directory, "etcd")}`,
    `--listen-client-urls=${etcd}`,
    `--advertise-client-urls=${etcd}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=default=${peer}`,
  ]);
  const signing = join(directory, "signing.key");
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  writeFileSync(signing, privateKey.export({ type: "sec1", format: "pem" }));
  writeFileSync(join(directory, "tokens.csv"), `${token},admin,admin,system:masters\n`);
  start("kube-apiserver", [
    `--etcd-servers=${etcd}`,
    "--bind-address=127.0.0.1",
    "--advertise-address=127.0.0.1",
    "--endpoint-reconciler-type=none",
    `--secure-port=${apiPort}`,
    `--cert-dir=${join(directory, "certificates")}`,
    `--token-auth-file=${join(directory, "tokens.csv")}`,
    "--service-account-issuer=https://kubernetes.default.svc",
    `--service-account-key-file=${signing}`,
    `--service-account-signing-key-file=${signing}`,
    "--service-cluster-ip-range=10.0.0.0/24",
    "--authorization-mode=RBAC",
  ]);
  const call = client(apiPort);
  await until("the API server is ready", async () => (await call("GET", "/readyz")).status === 200);

  await expectStatus(201, call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition()));
  const collection = "/apis/test.holdfast.dev/v1alpha1/namespaces/default/claims";
  await until("the definition is served", async () => (await call("GET", collection)).status === 200);
  const claim = {
    apiVersion: "test.holdfast.dev/v1alpha1",
    kind: "Claim",
    metadata: { name: "vm1.blue", namespace: "default" },
    spec: { network: "blue", interface: "" },
  };
  await expectStatus(201, call("POST", collection, claim));
  const path = `${collection}/vm1.blue`;
  const stored = await expectStatus(200, call("GET", path));
  if (stored.spec.interface !== "" || stored.spec.network !== "blue")
    throw new Error(`the object came back as ${JSON.stringify(stored.spec)}`);
  stored.status = { ips: ["192.0.2.5/24"] };
  await expectStatus(200, call("PUT", `${path}/status`, stored));
  const { status } = await expectStatus(200, call("GET", path));
  if (status?.ips?.[0] !== "192.0.2.5/24") throw new Error(`its status came back as ${JSON.stringify(status)}`);
  await expectStatus(422, call("POST", collection, { ...claim, metadata: { name: "bad" }, spec: { network: 5 } }));
  execFileSync(join(assets, "kube-controller-manager"), ["--version"], { stdio: "ignore" });
}

function definition() {
  const strings = (...names) => Object.fromEntries(names.map((name) => [name, { type: "string" }]));
  const spec = {
    type: "object",
    required: ["network", "interface"],
    properties: strings("network", "interface"),
  };
  const ips = { type: "array", items: { type: "string" } };
  const status = { type: "object", required: ["ips"], properties: { ips } };
  const schema = { openAPIV3Schema: { type: "object", properties: { spec, status } } };
  const version = { name: "v1alpha1", served: true, storage: true, subresources: { status: {} }, schema };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "claims.test.holdfast.dev" },
    spec: {
      group: "test.holdfast.dev",
      scope: "Namespaced",
      names: { plural: "claims", singular: "claim", kind: "Claim", listKind: "ClaimList" },
      versions: [version],
    },
  };
}

function start(name, args) {
  const child = spawn(join(assets, name), args, { stdio: ["ignore", "pipe", "pipe"] });
  const part = { name, child, log: "", ended: null };
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk) => {
      part.log = (part.log + chunk).slice(-20_000);
    });
  child.on("error", (error) => {
    part.ended = error.message;
  });
  child.on("exit", (code, signal) => {
    part.ended = `exit ${code ?? signal}`;
  });
  parts.push(part);
}

function client(port) {
  return (method, path, body) =>
    new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      // The server made its certificate a moment ago, for this port of this machine.
      const options = {
        host: "127.0.0.1",
        port,
        method,
        path,
        headers,
        rejectUnauthorized: false,
        agent: false,
      };
      const sent = request({ ...options, timeout: REQUEST_MS }, (answer) => {
        let text = "";
        answer.on("data", (chunk) => {
          text += chunk;
        });
        answer.on("end", () => resolve({ status: answer.statusCode, text }));
        answer.on("error", reject);
      });
      sent.on("timeout", () => sent.destroy(new Error(`${method} ${path}: no answer`)));
      sent.on("error", reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
}

async function expectStatus(status, sent) {
  const answer = await sent;
  if (answer.status !== status) throw new Error(`expected ${status}, got ${answer.status}: ${answer.text}`);
  return JSON.parse(answer.text);
}

async function until(what, condition) {
  const end = performance.now() + LIMIT_MS;
  for (;;) {
    const dead = parts.find(({ ended }) => ended !== null);
    if (dead !== undefined) throw new Error(`${dead.name} ended (${dead.ended}) before ${what}`);
    if (await condition().catch(() => false)) return;
    if (performance.now() > end) throw new Error(`gave up waiting until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

function finish(code) {
  for (const { child } of parts) child.kill("SIGKILL");
  // etcd may write one more file while it is being killed.
  rmSync(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  process.exit(code);
}
