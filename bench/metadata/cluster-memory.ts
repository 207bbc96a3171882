import { rmSync } from "node:fs";
import { Agent } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { join } from "node:path";
import { createServer, type Server } from "node:tls";
import { type Certificate, makeCertificate } from "../../test/harness/certificate.ts";
import type { KubeObject } from "../../test/harness/kube-api.ts";
import { readManifests } from "../../test/harness/kube-manifests.ts";
import { pathOf } from "../../test/harness/kube-pods.ts";
import { ask, TestMetadataServer } from "../../test/harness/metadata/server.ts";
import { MemoryCluster } from "../../test/harness/world/memory-cluster.ts";
import { FakeIdentity, identity } from "../../test/metadata-server/fake-identity.ts";
import { atMost, type Measurement, number } from "../line.ts";
import { memoryBytesOf, newDirectory } from "../workbench.ts";

const NAMESPACES = 400;
const VMS = 1_000;
/** VMs of the same namespaces on other nodes, for each that is here. */
const ELSEWHERE = 2;
const NODE = "node-a";
const KUBEVIRT = "kubevirt.io/v1";
const PATHS = ["/openstack/latest/meta_data.json", "/openstack/latest/user_data", "/latest/meta-data/"];
const ROUNDS = 5;
const IN_FLIGHT = 16;
const USER_DATA_BYTES = 4_096;

/**
 * `holdfast metadata` in a cluster, after each of a thousand VMs of its node in 400 namespaces has asked several times.
 */
export const metadataClusterMemory: Measurement = async () => {
  const directory = newDirectory();
  const cluster = await MemoryCluster.start();
  const known = await FakeIdentity.start(join(directory, "identity.sock"));
  const certificate = makeCertificate(directory);
  const secure = await secured(new URL(cluster.server).port, certificate);
  const api = `https://127.0.0.1:${(secure.address() as AddressInfo).port}`;
  const kubeconfig = cluster.kubeconfig("holdfast-metadata", api, certificate.certificate);
  const server = new TestMetadataServer(directory, {
    args: ["--kubeconfig", kubeconfig, "--node", NODE],
    metricsAddress: "off",
  });
  const agent = new Agent({ keepAlive: true, maxSockets: IN_FLIGHT });
  try {
    for (let n = 0; n < NAMESPACES; n += 1) await createNamespace(cluster, `tenant-${n}`);
    for (let n = 0; n < VMS; n += 1) {
      const namespace = `tenant-${n % NAMESPACES}`;
      for (let other = 0; other < ELSEWHERE; other += 1)
        await createVm(cluster, namespace, `vm${n}-${other}`, `node-${other}`);
      const { vm, vmi } = await createVm(cluster, namespace, `vm${n}`, NODE);
      const { uid } = vm.metadata;
      const view = identity({
        vm: { namespace, name: `vm${n}`, uid, vmiUid: vmi.metadata.uid, firmwareUuid: null },
      });
      known.known.set(`blue container/c${n}/net1`, view);
    }
    // As the shipped unit and DaemonSet start it.
    Object.assign(process.env, { NODE_OPTIONS: "--max-semi-space-size=2", MALLOC_ARENA_MAX: "1" });
    await server.run();
    let failed = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      const rest = Array.from({ length: VMS }, (_, n) => `container/c${n}/net1`).values();
      const path = PATHS[round % PATHS.length] as string;
      await Promise.all(
        Array.from({ length: IN_FLIGHT }, async () => {
          for (const subject of rest) {
            const { status } = await ask({ socketPath: server.socket, agent }, path, { subject });
            if (status !== 200) failed += 1;
          }
        }),
      );
    }
    if (failed > 0) throw new Error(`${failed} requests were not answered with 200`);
    return [
      atMost(memoryBytesOf(server.pid, "VmHWM") / 1_000_000, 100, "MB", {
        what: `memory of holdfast metadata in a cluster, ${number(VMS)} local VMs in ${NAMESPACES} namespaces`,
        against: `most there ever was, after ${number(ROUNDS * VMS)} requests; ${number(ELSEWHERE * VMS)} VMs elsewhere`,
      }),
    ];
  } finally {
    delete process.env.NODE_OPTIONS;
    delete process.env.MALLOC_ARENA_MAX;
    agent.destroy();
    await server.end();
    await known.stop();
    secure.close();
    await cluster.stop();
    rmSync(directory, { recursive: true, force: true });
  }
};

/** What costs a client most of an API server: its connections are encrypted. */
async function secured(port: string, { certificate, key }: Certificate): Promise<Server> {
  const server = createServer({ cert: certificate, key }, (socket) => {
    const behind = connect(Number(port), "127.0.0.1");
    socket.on("error", () => behind.destroy()).pipe(behind);
    behind.on("error", () => socket.destroy()).pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

async function createNamespace(cluster: MemoryCluster, namespace: string): Promise<void> {
  await cluster.api.create("/api/v1/namespaces", {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: namespace },
  });
  await cluster.apply(
    readManifests("deploy/metadata/tenant.yaml").map((one) => ({
      ...one,
      metadata: { ...one.metadata, namespace },
      ...(one.kind === "Role"
        ? { rules: [{ apiGroups: [""], resources: ["secrets", "configmaps"], verbs: ["get"] }] }
        : {}),
    })),
  );
}

async function createVm(cluster: MemoryCluster, namespace: string, name: string, node: string) {
  await cluster.api.create(pathOf(namespace, "secrets"), {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name, labels: { "metadata.holdfast.dev/serve": "true" } },
    data: { userdata: Buffer.alloc(USER_DATA_BYTES, name).toString("base64") },
  });
  const vm: KubeObject = await cluster.api.create(pathOf(namespace, "virtualmachines", "", KUBEVIRT), {
    apiVersion: KUBEVIRT,
    kind: "VirtualMachine",
    metadata: { name, namespace, annotations: { "metadata.holdfast.dev/user-data": `secret/${name}` } },
    spec: { runStrategy: "Always" },
  });
  const owner = {
    apiVersion: KUBEVIRT,
    kind: "VirtualMachine",
    name,
    uid: vm.metadata.uid,
    controller: true,
  };
  const vmi: KubeObject = await cluster.api.create(pathOf(namespace, "virtualmachineinstances", "", KUBEVIRT), {
    apiVersion: KUBEVIRT,
    kind: "VirtualMachineInstance",
    metadata: {
      name,
      namespace,
      labels: { "kubevirt.io/nodeName": node, app: name },
      ownerReferences: [owner],
    },
    spec: {
      domain: {
        devices: { interfaces: [{ name: "blue", bridge: {}, macAddress: "52:54:00:de:5b:bf" }] },
        firmware: { uuid: vm.metadata.uid },
      },
      networks: [{ name: "blue", multus: { networkName: "blue" } }],
    },
    status: { nodeName: node, interfaces: [{ name: "blue", mac: "52:54:00:de:5b:bf" }] },
  });
  return { vm, vmi };
}
