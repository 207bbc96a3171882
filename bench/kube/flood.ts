import { Flood } from "../../test/harness/flood.ts";
import { flowControl, flowCounts } from "../../test/harness/flow-control.ts";
import { until } from "../../test/harness/wait.ts";
import { atMost, type Measurement, number, told } from "../line.ts";
import { quantile } from "../statistics.ts";
import { type Guest, KubeBench } from "./kube-bench.ts";

/** Requests at once in the server; by the shares of Kubernetes 1.20 four of them are the tenant's. */
const REQUESTS_MAX = 12;
const LISTS = 4;
/** Clients: as many as have a place, and far more. */
const LOADS = { quiet: 0, busy: LISTS, flooded: 32 } as const;
const WARM_UP = 50;
const TURNS = 5;
/** ADDs under each load in turn, so that a disturbance meets all. */
const TURN = 40;
/** With the built-in levels an ADD takes seconds. */
const BUILT_IN_ADDS = 40;
const P99 = 0.99;

/**
 * One ADD of a plain pod while a tenant lists all that it can, with the built-in priority levels and with those of
 * deploy/.
 */
export const kubeFlood: Measurement = () =>
  KubeBench.with(
    "10.0.0.0/8",
    async (bench) => {
      await bench.node();
      const flood = await Flood.prepare(bench.cluster);
      try {
        await bench.cni("ADD", await bench.pods(WARM_UP), 1);
        const builtIn = await under(LOADS.flooded, bench, flood, BUILT_IN_ADDS);
        await bench.cluster.apply(await flowControl(bench.cluster.api));
        await inForce(bench);
        const ms: Record<keyof typeof LOADS, number[]> = { quiet: [], busy: [], flooded: [] };
        for (let turn = 0; turn < TURNS; turn += 1)
          for (const load of ["quiet", "busy", "flooded"] as const)
            ms[load].push(...(await under(LOADS[load], bench, flood, TURN)));
        const ratio = (one: readonly number[], other: readonly number[]) => quantile(one, P99) / quantile(other, P99);
        const against = `${TURNS * TURN} ADDs each, by turns; ${LOADS.flooded} clients list 1,000 claims, ${LISTS} at once in the server`;
        return [
          atMost(ratio(ms.flooded, ms.quiet), 2, "×", {
            what: "p99 of an ADD of a plain pod while a tenant floods the API server",
            against: `while nobody else asks; ${against}`,
            beside: `${say(ms.flooded)}; nobody else: ${say(ms.quiet)}`,
          }),
          told(`${number(ratio(ms.flooded, ms.busy))} × (${say(ms.busy)})`, {
            what: "the same beside as many lists as have a place: the processors are as busy, and no list waits",
            against: `${LISTS} clients; ${against}`,
          }),
          told(`${number(ratio(builtIn, ms.quiet))} × (${say(builtIn)})`, {
            what: "the same with the built-in priority levels alone",
            against: `${BUILT_IN_ADDS} ADDs, while nobody else asks as above`,
          }),
        ];
      } finally {
        await flood.stop();
        flood.close();
      }
    },
    { requestsMax: REQUESTS_MAX },
  );

/** What each ADD takes while so many clients list. */
async function under(clients: number, bench: KubeBench, flood: Flood, adds: number): Promise<number[]> {
  const guests = await bench.pods(adds);
  flood.start(clients);
  // The tenant's FlowSchema.
  if (clients > LISTS)
    await until(async () => (await counts(bench))("service-accounts").waiting > 0, "lists that wait");
  const times: number[] = [];
  for (const guest of guests) times.push(await addMs(bench, guest));
  await flood.stop();
  return times;
}

/** One that the API server does not answer in time counts with what it took: the runtime would try again. */
async function addMs(bench: KubeBench, guest: Guest): Promise<number> {
  const startMs = performance.now();
  return bench.cni("ADD", [guest], 1).then(
    ({ ms }) => ms,
    () => performance.now() - startMs,
  );
}

const counts = (bench: KubeBench) => flowCounts(bench.cluster.api);

/** Until the schemas have taken a request. */
async function inForce(bench: KubeBench): Promise<void> {
  await until(async () => {
    await bench.cni("ADD", await bench.pods(1), 1);
    return (await counts(bench))("holdfast-adds").dispatched > 0;
  }, "the priority levels");
}

function say(ms: readonly number[]): string {
  return `${number(quantile(ms, 0.5))} ms, p99 ${number(quantile(ms, P99))} ms`;
}
