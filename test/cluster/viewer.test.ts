/** What the role holdfast-viewer is for: every command that only reads a cluster has all the rights that it uses. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { buildProgram } from "../../cli/program.ts";
import { systemClock } from "../../platform/time.ts";
import { policyDefinitions, workloadDefinitions } from "../harness/absent-kinds.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { readManifestDirectory, readManifests } from "../harness/kube-manifests.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import type { MemoryCluster } from "../harness/world/memory-cluster.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import { udnDefinitions } from "../harness/world/udn-objects.ts";
import { World } from "../harness/world/world.ts";

/** How each command that asks a cluster is called, `ADDRESS` being that of a VM. */
const READING: Readonly<Record<string, readonly string[]>> = {
  networks: ["-o", "wide"],
  list: ["-o", "wide"],
  show: ["blue"],
  free: ["blue"],
  plan: ["-n", NAMESPACE],
  who: ["ADDRESS"],
  history: ["ADDRESS"],
  claims: [],
  check: ["--grace", "0"],
  doctor: [],
  import: ["--dry-run"],
};
/** Commands that change something, ask a daemon or nobody, and one that serves the answers of those above. */
const OTHERS = [
  ...["ui", "status", "content", "apply", "diff", "delete", "release", "convert", "daemon", "controller"],
  ...["metadata", "metadata-net", "backup", "rebuild", "wait", "version", "completion", "manual"],
];

let world: World;
let address: string;

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: ["node-a"], controller: {} });
  await world.startClusterApi({ kinds: ["metal3-data", "metal3-host"] });
  await world.cluster.apply(udnDefinitions("keeping"));
  await world.cluster.define([...policyDefinitions(), ...workloadDefinitions()]);
  await world.cluster.apply(readManifestDirectory("deploy/admission"));
  for (const file of ["daemonset", "deployment"]) await world.cluster.apply([readyIn(`deploy/${file}.yaml`)]);
  const network = await world.importedNetwork("blue", { subnets: "10.1.0.0/24" });
  const { pod } = await world.vmGuest(network, "node-a");
  [address = ""] = (await world.given(pod, network, { ifname: interfaceOf("blue") }))[0]?.split("/") ?? [];
});
afterAll(() => world?.stop());

/** The workload of a manifest, as Kubernetes' controllers report it. */
function readyIn(file: string): KubeObject {
  const workload = readManifests(file).find(({ kind }) => kind === "DaemonSet" || kind === "Deployment");
  const status = { desiredNumberScheduled: 1, updatedNumberScheduled: 1, numberReady: 1, readyReplicas: 2 };
  return { ...(workload as KubeObject), status };
}

test("every command of the program is known here", () => {
  const commands = buildProgram(systemClock).commands.map((command) => command.name());
  const known = [...Object.keys(READING), ...OTHERS];
  expect(commands.filter((name) => !known.includes(name) && name !== "help")).toEqual([]);
  expect(known.filter((name) => !commands.includes(name))).toEqual([]);
});

test.each(Object.entries(READING))("holdfast %s is refused nothing", async (name, words) => {
  const { denied } = world.cluster as MemoryCluster;
  denied.splice(0);
  const given = words.map((word) => (word === "ADDRESS" ? address : word));
  const kubeconfig = world.cluster.kubeconfig("viewer");
  const { code, stdout, stderr } = await world.cli("--kubeconfig", kubeconfig, name, ...given);
  expect(denied).toEqual([]);
  expect(stdout + stderr).not.toMatch(/forbidden|refuse|not compared|needs the right/);
  // A finding is an answer; 2 and 3 are none.
  expect([0, 1]).toContain(code);
});
