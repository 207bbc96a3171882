import { rmSync } from "node:fs";
import { parseArgs } from "node:util";
import { addLatency } from "./add-latency.ts";
import { allocator } from "./allocator.ts";
import { commandLine } from "./command-line.ts";
import { freeAddresses } from "./free.ts";
import { identity } from "./identity.ts";
import { kubeAdds, kubeParallelAdds, kubeRequestedAdds } from "./kube/adds.ts";
import { kubeClaimList } from "./kube/claim-list.ts";
import { kubeFlood } from "./kube/flood.ts";
import { kubeFullNetwork } from "./kube/full-network.ts";
import { kubeList } from "./kube/list.ts";
import { kubeMachinesClaims } from "./kube/machine-claims.ts";
import { kubeMachinesData } from "./kube/machine-data.ts";
import { kubeMachinesStart } from "./kube/machine-start.ts";
import { kubeMachinesSweep } from "./kube/machine-sweep.ts";
import { kubeScale } from "./kube/scale.ts";
import { kubeStart } from "./kube/start.ts";
import { kubeWrites } from "./kube/writes.ts";
import type { Line, Measurement } from "./line.ts";
import { listeners } from "./listeners.ts";
import { describeMachine, machineLabel } from "./machine.ts";
import { memory } from "./memory.ts";
import { metadataClusterMemory } from "./metadata/cluster-memory.ts";
import { metadataGuests } from "./metadata/guests.ts";
import { metadataMemory } from "./metadata/memory.ts";
import { metadataNeighbour } from "./metadata/neighbour.ts";
import { metadataPorts } from "./metadata/ports.ts";
import { parallelAdds } from "./parallel-adds.ts";
import { simulate } from "./simulate.ts";
import { throughput } from "./throughput.ts";
import { newDirectory } from "./workbench.ts";

const MEASUREMENTS: Readonly<Record<string, Measurement>> = {
  "add-latency": addLatency,
  "parallel-adds": parallelAdds,
  throughput,
  listeners,
  memory,
  free: freeAddresses,
  allocator,
  "command-line": commandLine,
  simulate,
  identity,
  "metadata-guests": metadataGuests,
  "metadata-ports": metadataPorts,
  "metadata-neighbour": metadataNeighbour,
  "metadata-memory": metadataMemory,
  "metadata-cluster-memory": metadataClusterMemory,
  "kube-writes": kubeWrites,
  "kube-adds": kubeAdds,
  "kube-requested": kubeRequestedAdds,
  "kube-parallel-adds": kubeParallelAdds,
  "kube-full-network": kubeFullNetwork,
  "kube-flood": kubeFlood,
  "kube-start": kubeStart,
  "kube-list": kubeList,
  "kube-scale": kubeScale,
  "kube-claim-list": kubeClaimList,
  "kube-machines-claims": kubeMachinesClaims,
  "kube-machines-data": kubeMachinesData,
  "kube-machines-start": kubeMachinesStart,
  "kube-machines-sweep": kubeMachinesSweep,
};

const { values } = parseArgs({ options: { only: { type: "string" }, markdown: { type: "boolean" } } });
const { only } = values;
const names = Object.keys(MEASUREMENTS).filter(
  (name) => only === undefined || name === only || name.startsWith(`${only}-`),
);
if (names.length === 0) throw new Error(`--only ${only}: known are ${Object.keys(MEASUREMENTS).join(", ")}`);
const directory = newDirectory();
const machine = machineLabel(directory);
const description = describeMachine(directory);
rmSync(directory, { recursive: true });

const say = values.markdown === true ? console.error : console.log;
say(`${new Date().toISOString().slice(0, 10)}: ${description}`);
const lines: Line[] = [];
for (const name of names) {
  const measure = MEASUREMENTS[name] as Measurement;
  const startMs = performance.now();
  const measured = await measure();
  say(`\n${name} (${((performance.now() - startMs) / 1000).toFixed(0)} s)`);
  for (const line of measured) say(textOf(line));
  lines.push(...measured);
}
const missed = lines.filter(({ reached }) => reached === false).length;
say(`\n${lines.filter(({ reached }) => reached === true).length} bounds reached, ${missed} missed`);
if (values.markdown === true) {
  console.log("| what | bound | measured | | against what | machine |\n|---|---|---|---|---|---|");
  for (const line of lines) console.log(rowOf(line));
  console.log(`\nMachine: ${description}. Measured ${new Date().toISOString().slice(0, 10)}.`);
}

function verdict({ reached }: Line): string {
  return reached === null ? "" : reached ? "reached" : "MISSED";
}

function textOf(line: Line): string {
  const bound = line.bound === "" ? "" : `, bound ${line.bound}`;
  return `  ${verdict(line).padEnd(8)}${line.what}: ${line.measured}${bound}; ${line.against}`;
}

function rowOf(line: Line): string {
  return `| ${line.what} | ${line.bound} | ${line.measured} | ${verdict(line)} | ${line.against} | ${machine} |`;
}
