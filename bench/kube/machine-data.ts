import { MACHINE_DATAS_PATH } from "../../kube/metal3.ts";
import type { TestCluster } from "../../test/harness/cluster.ts";
import { atMost, type Line, type Measurement, number } from "../line.ts";
import { BenchController } from "./bench-controller.ts";
import { KubeBench } from "./kube-bench.ts";
import {
  claimNames,
  createHosts,
  createMachinePool,
  createMachines,
  createTemplate,
  defineMachines,
  isReady,
  isTold,
  METAL3_MACHINES_PATH,
  POOL,
  timed,
  untilCount,
} from "./machine-objects.ts";
import { restLines } from "./machine-writes.ts";

const AT_ONCE = 1_000;

/** Metal3's machine data in own mode: many machines of one template at once. */
export const kubeMachinesData: Measurement = () =>
  KubeBench.with("10.0.0.0/8", async ({ cluster }) => {
    await defineMachines(cluster);
    return BenchController.with(cluster, ["--machine-data", "own"], async (controller) => {
      await createMachinePool(cluster);
      return [
        ...(await machineLines(cluster, controller, null)),
        ...(await machineLines(cluster, controller, POOL)),
        ...(await restLines(cluster, `${number(2 * AT_ONCE)} Metal3Machines`)),
      ];
    });
  });

async function machineLines(cluster: TestCluster, controller: BenchController, pool: string | null): Promise<Line[]> {
  const template = pool === null ? "plain" : "pooled";
  const names = claimNames(`m-${template}`, AT_ONCE);
  await createTemplate(cluster, template, pool);
  await createHosts(cluster, names);
  const isOf = ({ spec }: { spec: { dataTemplate?: object; template?: { name: string } } }) =>
    spec.template?.name === template;
  await controller.longestTurnMs();
  const rendered = await timed(async () => {
    await createMachines(cluster, names, template);
    const createdMs = performance.now();
    await untilCount(cluster, MACHINE_DATAS_PATH, AT_ONCE, (one) => isOf(one) && isReady(one));
    return createdMs;
  });
  const restMs = performance.now();
  await untilCount(cluster, METAL3_MACHINES_PATH, pool === null ? AT_ONCE : 2 * AT_ONCE, isTold);
  const toldMs = rendered.ms + performance.now() - restMs;
  const turnMs = await controller.longestTurnMs();
  const how = pool === null ? "without a pool" : "with an address of a pool each";
  const what = `${number(AT_ONCE)} Metal3Machines of one template at once, ${how}`;
  const against = `created 32 at a time, from the first on; two Secrets each`;
  return [
    atMost(rendered.ms / 1_000, 30, "s", {
      what: `${what}: Secrets there, data ready`,
      against,
      beside: `${number(rendered.restMs / 1_000)} s after the last was created; machines and hosts told after ${number(toldMs / 1_000)} s`,
    }),
    atMost(turnMs, 100, "ms", { what: "longest turn of the event loop meanwhile", against }),
  ];
}
