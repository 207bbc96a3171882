import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TestCluster } from "../harness/cluster.ts";
import { walkthrough } from "../harness/documents.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { KubeVirt, type Vm } from "../harness/kubevirt.ts";
import { MetadataParts } from "../harness/metadata/parts.ts";
import { cniArgs, NodeDaemon } from "../harness/node.ts";
import { PageReader, withReleaseMade } from "../harness/page-reader.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import { Containers, whyNotReal } from "../network/containers.ts";

/**
 * "VMs with templates" of docs/machines.md, typed on a real API server and in a guest; KubeVirt and the runtime are
 * played.
 */

const NAMESPACE = "shop";
const KUBEVIRT = "kubevirt.io/v1";
const NODE = "node-a";
const BRIDGE_LINE = '      "bridge": "br-blue",';

describe.skipIf(whyNotReal() !== null)("VMs with templates", () => {
  let cluster: TestCluster;
  let reader: PageReader;
  let node: NodeDaemon;
  let metadata: MetadataParts;
  let containers: Containers;
  beforeAll(async () => {
    // The listeners' container asks for it.
    cluster = await TestCluster.start({ apiServerArgs: ["--allow-privileged=true"] });
    reader = new PageReader(cluster);
  }, 300_000);
  afterAll(async () => {
    await reader?.stop();
    await containers?.remove();
    await metadata?.stop();
    await node?.stop();
    await cluster?.stop();
  });

  test("a guest gets its VM's rendered template, and the index is free once the VM is gone", async () => {
    const kubevirt = new KubeVirt(cluster.api);
    const steps = walkthrough("docs/machines.md", "VMs with templates");
    const commands: Record<string, string> = {
      ...withReleaseMade("metadata machines"),
    };
    const texts: Record<string, string> = {};
    let vm: Vm;
    const startNode = async () => {
      // The garbage collector would learn of the new kinds half a minute later.
      await cluster.define([]);
      await reader.startController();
      await kubevirt.createNode(NODE);
      node = await NodeDaemon.start({ node: NODE, kubeconfig: cluster.kubeconfig("holdfast-node") });
      const serverArgs = ["--kubeconfig", cluster.kubeconfig("holdfast-metadata"), "--node", NODE];
      metadata = await MetadataParts.start(node.daemon, { serverArgs });
      containers = new Containers(node.daemon);
      commands[BRIDGE_LINE] = `      "bridge": "${containers.link("hfb")}",`;
    };
    /** The VM's instance and launcher pod, and the ADD of its interface. */
    const startVm = async () => {
      const object = await cluster.api.get(pathOf(NAMESPACE, "virtualmachines", "shop-front", KUBEVIRT));
      const { name, uid } = object.metadata;
      vm = {
        ...{ namespace: NAMESPACE, name, uid },
        networks: [{ logical: "blue", nad: "blue", network: "tenantblue-network" }],
      };
      const { pod } = await kubevirt.startVm(vm, NODE);
      const { spec } = object.spec.template;
      await cluster.api.patch(pathOf(NAMESPACE, "virtualmachineinstances", name, KUBEVIRT), { spec });
      const nad = await cluster.api.get(
        pathOf(NAMESPACE, "network-attachment-definitions", "blue", "k8s.cni.cncf.io/v1"),
      );
      const namespace = await containers.create("front");
      const container = `sandbox-${pod.metadata.uid}`;
      const config = JSON.parse(nad.spec.config);
      const args = cniArgs(pod, container);
      const added = await containers.cni("ADD", container, namespace, config, args, interfaceOf("blue"));
      expect(added.code, added.stdout).toBe(0);
      await kubevirt.attached(pod, interfaceOf("blue"));
      [texts["192.168.10.122"] = ""] = added.json().ips[0].address.split("/");
      for (const { typed } of steps.filter((one) => one.typed.startsWith("curl ")))
        commands[typed.trimEnd()] = `ip netns exec ${namespace} ${typed.trimEnd()}`;
    };
    await reader.follow(steps, {
      commands,
      texts,
      acts: [
        { after: /apply -f dist\/release/, act: startNode },
        { after: /kind: VirtualMachine/, act: startVm },
        { after: /delete virtualmachine/, act: () => kubevirt.stopVm(vm) },
        { after: /delete virtualmachine/, act: () => kubevirt.releaseClaims(vm) },
      ],
    });
  });
});
