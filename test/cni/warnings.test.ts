import { afterAll, beforeAll, expect, test } from "vitest";
import { network, type ServedDaemon, TestDaemon } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";

let daemon: ServedDaemon;
beforeAll(async () => {
  daemon = await TestDaemon.start();
});
afterAll(() => daemon.stop());

/** How often the daemon says it. What it says may come behind its answer. */
async function said(text: string): Promise<number> {
  await until(() => daemon.log.includes(text), `the daemon to say ${text}`);
  return daemon.log.split(text).length - 1;
}

test("a dataDir without a directory of the network is reported, once", async () => {
  const config = network("migrated", {
    subnets: undefined,
    subnet: "10.40.0.0/24",
    dataDir: daemon.directory,
  });
  for (const id of ["w1", "w2"]) expect((await daemon.cni("ADD", id, { config })).code).toBe(0);
  expect(await said("/migrated, so no address of host-local")).toBe(1);
});

test("ranges of the runtime that differ from the applied ones are reported once, and do not count", async () => {
  const manifest = {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name: "applied", namespace: "default" },
    spec: { config: JSON.stringify(network("applied", { subnets: "10.41.0.0/24" })) },
  };
  await daemon.post("/v1/apply", { objects: [manifest] });
  const config = network("applied", { subnets: "10.42.0.0/24" });
  for (const id of ["w3", "w4"]) {
    const answer = await daemon.cni("ADD", id, { config });
    expect(answer.json().ips[0].address).toMatch(/^10\.41\.0\./);
  }
  expect(await said("not those of default/applied, which was applied and counts")).toBe(1);
});
