import type { WriteCounts } from "../../test/harness/kube-metrics.ts";
import type { NodeDaemon } from "../../test/harness/node.ts";
import { atMost, type Line, type Measurement, number, told } from "../line.ts";
import { importNetworks } from "./bench-controller.ts";
import { type Guest, KubeBench, NETWORK, sleep, VM_INTERFACE } from "./kube-bench.ts";

const GUESTS = 50;
const IN_FLIGHT = 8;
/** Without a write for so long, nothing more comes. */
const QUIET_MS = 500;

/** Writes to the API server for one address, as the server itself counts them: all resources, whoever wrote. */
export const kubeWrites: Measurement = () =>
  KubeBench.with("10.0.0.0/8", async (bench) => {
    await importNetworks(bench);
    const [a, b] = [await bench.node(), await bench.node()] as [NodeDaemon, NodeDaemon];
    const add = (guests: readonly Guest[]) => written(bench, () => bench.cni("ADD", guests, IN_FLIGHT));
    const plain = await bench.pods(GUESTS, [a]);
    const vms = await bench.vms(GUESTS, [a]);
    const lines = [
      line("ADD of a plain pod", 1, await add(plain)),
      line("ADD that uses a claim for the first time", 2, await add(vms)),
    ];
    const again = () => bench.cni("ADD", vms, IN_FLIGHT, "-again");
    lines.push(line("ADD of the same pod's next sandbox", 1, await written(bench, again)));
    const targets = await launchers(bench, vms, b);
    lines.push(line("ADD of a migration's target", 2, await add(targets)));
    const ended = await written(bench, async () => {
      await bench.cni("DEL", vms, IN_FLIGHT, "-again");
      await bench.cni("DEL", targets, IN_FLIGHT);
    });
    lines.push(
      told(`${number(totalOf(ended) / (2 * GUESTS))} writes`, {
        what: "DEL of a VM's pod",
        against: against(ended),
      }),
    );
    for (const { vm } of vms) if (vm) await bench.kubevirt.stopVm(vm);
    const restarted: Guest[] = [];
    for (const { vm } of vms) {
      if (vm === null) continue;
      const { pod } = await bench.kubevirt.startVm(vm, b.name, null);
      restarted.push({ node: b, pod, interface: VM_INTERFACE, network: NETWORK, vm });
    }
    await sleep(QUIET_MS);
    lines.push(line("ADD of a VM that starts again", 2, await add(restarted)));
    return lines;
  });

async function launchers(bench: KubeBench, vms: readonly Guest[], node: NodeDaemon): Promise<Guest[]> {
  const guests: Guest[] = [];
  for (const { vm } of vms) {
    if (vm === null) continue;
    const pod = await bench.kubevirt.migrate(vm, node.name, null);
    guests.push({ node, pod, interface: VM_INTERFACE, network: NETWORK, vm });
  }
  await sleep(QUIET_MS);
  return guests;
}

type Counts = Readonly<Record<string, WriteCounts>>;

/** Writes from before the work until none has come for a while after it: also those that nobody waited for. */
async function written(bench: KubeBench, work: () => Promise<unknown>): Promise<Record<string, number>> {
  const before = await bench.cluster.writes();
  await work();
  let after = await bench.cluster.writes();
  for (;;) {
    await sleep(QUIET_MS);
    const later = await bench.cluster.writes();
    if (totalOf(difference(after, later)) === 0) break;
    after = later;
  }
  return difference(before, after);
}

function difference(before: Counts, after: Counts): Record<string, number> {
  const more = Object.entries(after).map(
    ([resource, { total }]) => [resource, total - (before[resource]?.total ?? 0)] as const,
  );
  return Object.fromEntries(more.filter(([, count]) => count > 0));
}

function totalOf(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}

function line(what: string, bound: number, counts: Record<string, number>): Line {
  return atMost(totalOf(counts) / GUESTS, bound, bound === 1 ? "write" : "writes", {
    what,
    against: `${GUESTS} of them; ${against(counts)}`,
  });
}

function against(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([resource, count]) => `${resource} ${number(count)}`)
    .join(", ");
}
