import { expect, onTestFinished, test } from "vitest";
import { NODES_PATH, PODS_PATH } from "../../kube/objects.ts";
import { DaemonHere } from "../harness/daemon-here.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { PassingClock } from "../harness/passing-clock.ts";

test("a daemon whose pods were answered 404 at first is ready once they are listed", async () => {
  const clock = new PassingClock();
  const api = new KubeInMemory(clock);
  api.put(NODES_PATH, { metadata: { name: "node-a" }, status: { nodeInfo: {} } });
  api.missing.add(PODS_PATH);
  const started = DaemonHere.start(["--node", "node-a", "--kubeconfig", "/dev/null"], {
    connect: () => Object.assign(api, { close() {} }),
    clock,
  });
  const daemon = await clock.passWhile(started);
  onTestFinished(() => clock.passWhile(daemon.stop()));
  await clock.passUntil(() => daemon.log.includes(`${PODS_PATH}: not served`), "the first answer");
  const status = async () => (await clock.passWhile(daemon.get("/readyz"))).status;
  expect(await status()).toBe(503);
  api.missing.clear();
  await clock.passUntil(() => daemon.log.includes('"ready"'), "readiness");
  expect(await status()).toBe(200);
});
