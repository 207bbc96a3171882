import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TestCluster } from "../harness/cluster.ts";
import { cleanEnv, HOLDFAST, until } from "../harness/daemon.ts";
import { identity, UUID } from "./fake-identity.ts";
import { ask, Stage } from "./stage.ts";

let cluster: TestCluster;
let stage: Stage;
beforeAll(async () => {
  cluster = await TestCluster.start();
  stage = await Stage.start(["--kubeconfig", cluster.kubeconfig("holdfast-metadata"), "--node", "node-a"]);
  stage.identity.known.set("blue 10.10.0.5", identity());
});
afterAll(async () => {
  await stage?.stop();
  await cluster?.stop();
});

test("with a kubeconfig the cluster says what it knows of the VM, from the first request on", async () => {
  const { metadata } = await cluster.api.get("/api/v1/namespaces/default");
  const answer = await stage.ask("/openstack/latest/meta_data.json");
  expect([answer.status, stage.log]).toEqual([200, expect.not.stringContaining("a request failed")]);
  expect(answer.json()).toMatchObject({ uuid: UUID, name: "vm1", project_id: metadata.uid });
});

test("a kubeconfig that cannot be used is named", async () => {
  const started = Stage.start(["--kubeconfig", join(stage.folder, "none"), "--node", "node-a"]);
  await expect(started).rejects.toThrow(join(stage.folder, "none"));
});

test("an API server that is away: 503 for those of whom nothing is known yet, and served when it is there", async () => {
  await cluster.stopApiServer();
  try {
    await stage.end();
    await stage.run();
    const away = await stage.ask("/openstack/latest/meta_data.json");
    expect([away.status, away.headers["retry-after"]]).toEqual([503, "1"]);
  } finally {
    await cluster.startApiServer();
  }
  await until(async () => (await stage.ask("/openstack")).status === 200, "the answer of the API server");
});

test("as a Service's own pod it asks the API who is behind an address, and nobody is 404", async () => {
  const fixed = ["--network", "cluster_udn_red", "--listen", "127.0.0.1:0"];
  const pod = new PodProcess(
    ["--kubeconfig", cluster.kubeconfig("holdfast-metadata"), ...fixed],
    stage.folder,
  );
  try {
    const where = await pod.address();
    await until(async () => (await ask(where, "/openstack")).status === 404, `a 404; log: ${pod.log}`);
    expect((await ask(where, "/")).status).toBe(200);
    expect(stage.identity.asked.some((query) => query.includes("cluster_udn_red"))).toBe(false);
  } finally {
    await pod.end();
  }
});

test("it ends at once, whatever it watches", async () => {
  expect(await stage.end()).toBe(0);
  await stage.run();
  await until(async () => (await stage.ask("/openstack")).status === 200, "the next run");
});

/** The server without socket: it says in its log where it listens. */
class PodProcess {
  readonly #child: ChildProcess;
  log = "";

  constructor(args: readonly string[], folder: string) {
    const more = ["--state", join(folder, "pod"), "--metrics-address", "off", "--node", "node-a"];
    this.#child = spawn(process.execPath, [HOLDFAST, "metadata", ...args, ...more], {
      env: cleanEnv(),
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#child.stdout?.on("data", (chunk: Buffer) => {
      this.log += chunk;
    });
  }

  async address(): Promise<{ host: string; port: number }> {
    const line = () => this.log.split("\n").find((text) => text.includes('"listening"'));
    await until(() => line() !== undefined, `the server; log: ${this.log}`);
    const { address } = JSON.parse(line() ?? "") as { address: { port: number } };
    return { host: "127.0.0.1", port: address.port };
  }

  async end(): Promise<void> {
    const exited = once(this.#child, "exit");
    this.#child.kill("SIGTERM");
    await exited;
  }
}
