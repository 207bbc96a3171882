/** Controllers that are killed while they import: nothing is given before the end, and nothing is missed. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Leftovers } from "../cluster/leftovers.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { freePorts } from "../harness/kube-process.ts";
import { ProductProcess } from "../harness/product-process.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const PODS = 300;
const KILLS = 4;
const PODS_AT_ONCE = 16;

let world: World;
let leftovers: Leftovers;
const controllers: ProductProcess[] = [];

beforeAll(async () => {
  world = await World.start({ api: "server", nodes: ["node-a"] });
  await world.stopImporter();
  leftovers = new Leftovers(world);
});
afterAll(async () => {
  await Promise.all(controllers.map((one) => one.end("SIGKILL")));
  await world?.stop();
});

/** A controller of this name, as a container that is started again has it. */
async function controller(identity: string): Promise<ProductProcess> {
  const [port = 0] = await freePorts(1);
  const kubeconfig = ["--kubeconfig", world.cluster.kubeconfig("holdfast-controller")];
  const started = new ProductProcess([
    ...["controller", ...kubeconfig, "--identity", identity],
    ...["--metrics-address", `127.0.0.1:${port}`],
  ]);
  controllers.push(started);
  return started;
}

test("what pods have from before is recorded to the last address, and none of it is given", async () => {
  const network = await world.network("killed", { subnets: "10.60.0.0/16" });
  const ips = Array.from({ length: PODS }, (_, index) => `10.60.${index % 250}.${1 + Math.floor(index / 250)}`);
  const left = [...ips.entries()];
  await Promise.all(
    Array.from({ length: PODS_AT_ONCE }, async () => {
      for (let next = left.pop(); next !== undefined; next = left.pop())
        await leftovers.pod(`killed-${next[0]}`, `${NAMESPACE}/killed`, [next[1]]);
    }),
  );
  const pod = await world.pod("new", "node-a", network);
  let isOver = false;
  const given = (async () => {
    for (;;) {
      const answer = await world.add(pod, network);
      if (answer.code === 0) {
        expect(isOver, "given before the import was over").toBe(true);
        return answer.json().ips[0].address.split("/")[0];
      }
      expect(answer.json().code, answer.stdout).toBe(11);
    }
  })();
  const recorded = async () => (await world.allocations(network)).length;
  const isImported = async () => ((await leftovers.networkObject("killed"))?.status?.importedFrom ?? []).length > 0;
  let killed = 0;
  for (let turn = 0; turn < KILLS; turn += 1) {
    const before = await recorded();
    const one = await controller("first");
    await one.until(async () => (await recorded()) > before || (await isImported()), "to record something");
    if (await isImported()) break;
    await one.end("SIGKILL");
    killed += 1;
  }
  expect(killed).toBeGreaterThan(0);
  isOver = true;
  await controller("first");
  await controller("second");
  await world.until(isImported, "the import to end");
  expect(ips).not.toContain(await given);
  const byAddress = new Map<string, KubeObject>();
  for (const one of await world.allocations(network)) byAddress.set(one.spec.address.split("/")[0], one);
  expect(byAddress.size).toBe(PODS + 1);
  for (const [index, ip] of ips.entries())
    expect(byAddress.get(ip)?.spec.owner, ip).toMatchObject({ kind: "Pod", name: `killed-${index}` });
});
