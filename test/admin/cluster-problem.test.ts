import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AskingApi } from "../../admin/cluster/asking/asking-api.ts";
import { HttpKubeApi } from "../../kube/http/http-kube-api.ts";
import { NETWORKS_PATH } from "../../kube/objects.ts";
import { systemClock } from "../../platform/time.ts";
import { makeCertificate } from "../harness/certificate.ts";

const ABOUT_CERTIFICATES = "see server and certificate-authority of the cluster in the kubeconfig";
const ABOUT_THE_NETWORK = "check the API server and the way to it, or name another kubeconfig with --kubeconfig";

const directory = mkdtempSync(join(tmpdir(), "holdfast-cluster-problem-"));
let server: Server;
let port: number;
let authority: Buffer;

beforeAll(async () => {
  const { certificate, key } = makeCertificate(directory);
  authority = Buffer.from(certificate);
  server = createServer({ cert: certificate, key }, (_request, answer) => answer.end("{}"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  ({ port } = server.address() as AddressInfo);
});
afterAll(async () => {
  await new Promise((resolve) => server.close(resolve));
  rmSync(directory, { recursive: true, force: true });
});

/** What a list of networks fails with at a server. */
async function problemAt(url: string, tls: object = {}): Promise<unknown> {
  const connection = {
    server: new URL(url),
    tls,
    credentialsFrom: "the test",
    authHeaders: async () => ({ headers: {}, generation: 0 }),
    renew: async () => false,
  };
  const http = new HttpKubeApi(connection, systemClock);
  const api = new AskingApi(http, { server: url, silenceMs: 10_000 });
  const deadlineMs = systemClock.monotonicMs() + 2_000;
  try {
    return await api.send({ method: "GET", path: NETWORKS_PATH, priority: "housekeeping", deadlineMs });
  } catch (problem) {
    return problem;
  } finally {
    http.close();
  }
}

test("a certificate of an unknown authority leads to the kubeconfig's certificate-authority", async () => {
  const problem = await problemAt(`https://127.0.0.1:${port}`);
  expect(problem).toMatchObject({ kind: "away", hint: ABOUT_CERTIFICATES });
});

test("a certificate for another name leads there too", async () => {
  const tls = { ca: authority, servername: "kubernetes" };
  const problem = await problemAt(`https://127.0.0.1:${port}`, tls);
  expect(problem).toMatchObject({ kind: "away", hint: ABOUT_CERTIFICATES });
});

test("a server that cannot be reached does not, whatever its name", async () => {
  const problem = await problemAt("https://certificate.invalid");
  expect(problem).toMatchObject({
    kind: "away",
    message: expect.stringContaining("certificate.invalid"),
    hint: ABOUT_THE_NETWORK,
  });
});
