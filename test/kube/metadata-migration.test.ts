import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { run } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import type { Vm } from "../harness/kubevirt.ts";
import { ask } from "../harness/metadata/guest.ts";
import { MetadataParts } from "../harness/metadata/parts.ts";
import { cniArgs } from "../harness/node.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import { configOf, NAMESPACE } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";
import { BOOT } from "../metadata-node/boot.ts";
import { Containers, whyNotReal } from "../network/containers.ts";

const FIRMWARE = "5d1a8b1e-7c52-4b7e-9a1f-3f2f1d6b0c11";
/** After how many requests of the boot the target pod is attached, the guest moves, and the source ends. */
const ATTACHED_AFTER = 8;
const MOVED_AFTER = 16;
const ENDED_AFTER = 20;

/** A launcher pod that really has a network namespace, behind a node's own bridge. */
interface Launcher {
  readonly pod: KubeObject;
  readonly namespace: string;
  readonly answer: string;
}

describe.skipIf(whyNotReal() !== null)("a VM that migrates while it boots", () => {
  let world: World;
  const nodes = new Map<string, { metadata: MetadataParts; containers: Containers; bridge: string }>();
  beforeAll(async () => {
    world = await World.start({ api: "memory", time: "machine", nodes: ["a", "b"] });
    for (const node of world.nodes) {
      const kubeconfig = world.cluster.kubeconfig("holdfast-metadata");
      const metadata = await MetadataParts.start(node.daemon, { serverArgs: ["--kubeconfig", kubeconfig] });
      const containers = new Containers(node.daemon);
      nodes.set(node.name, { metadata, containers, bridge: containers.link("hfb") });
    }
  });
  afterAll(async () => {
    for (const { metadata, containers } of nodes.values()) {
      await containers.remove();
      await metadata.stop();
    }
    await world?.stop();
  });

  const on = (node: string) => {
    const found = nodes.get(node);
    if (found === undefined) throw new Error(`there is no node ${node}`);
    return found;
  };
  const confOn = (node: string, config: string) => ({ ...JSON.parse(config), bridge: on(node).bridge });

  async function attach(node: string, pod: KubeObject, config: string): Promise<Launcher> {
    const { containers } = on(node);
    const namespace = await containers.create(pod.metadata.name);
    const container = `sandbox-${pod.metadata.uid}`;
    const args = cniArgs(pod, container);
    const ifname = interfaceOf("blue");
    const added = await containers.cni("ADD", container, namespace, confOn(node, config), args, ifname);
    expect(added.code, added.stdout).toBe(0);
    await world.kubevirt.attached(pod, ifname);
    return { pod, namespace, answer: JSON.stringify(added.json().ips) };
  }

  test("every request of its boot is answered, with one instance ID, on whichever node it runs", async () => {
    const ipam = { metadata: true, subnets: "10.77.0.0/24" };
    const { config } = await world.network("blue", ipam, { bridge: on("a").bridge });
    // Both nodes are this machine, so each has a bridge of its own name: the network's owner has to say both.
    await world.kubevirt.createNad(NAMESPACE, "blue-on-b", configOf("blue", ipam, { bridge: on("b").bridge }));
    const vm: Vm = await world.vm("vm1", { name: "blue", config });
    const { vmi, pod } = await world.kubevirt.startVm(vm, "a");
    await world.cluster.api.call(
      "PATCH",
      pathOf(NAMESPACE, "virtualmachineinstances", vmi.metadata.name, "kubevirt.io/v1"),
      {
        spec: {
          domain: { firmware: { uuid: FIRMWARE }, devices: { interfaces: [{ name: "blue", bridge: {} }] } },
          networks: [{ name: "blue", multus: { networkName: "blue" } }],
        },
      },
      { "content-type": "application/merge-patch+json" },
    );
    const source = await attach("a", pod, config);
    let target: Launcher | null = null;
    let at = source;
    const statuses: string[] = [];
    const uuids = new Set<string>();
    for (const [n, path] of BOOT.entries()) {
      if (n === ATTACHED_AFTER) {
        const launcher = await world.kubevirt.migrate(vm, "b");
        target = await attach("b", launcher, config);
        expect(target.answer).toBe(source.answer);
      }
      if (n === MOVED_AFTER && target) at = target;
      if (n === ENDED_AFTER) {
        const container = `sandbox-${pod.metadata.uid}`;
        const conf = confOn("a", config);
        const args = cniArgs(pod, container);
        await on("a").containers.cni("DEL", container, source.namespace, conf, args, interfaceOf("blue"));
        await world.kubevirt.finishPod(pod);
      }
      const { status, body } = await ask(at.namespace, path);
      // Without user data, and with names of Amazon's that mean nothing here, 404 is the answer of the first try as
      // well.
      if (status !== 200) statuses.push(`${n} ${path}: ${status} ${body}`);
      if (path.endsWith("meta_data.json")) uuids.add(JSON.parse(body).uuid);
      const again = await ask(at.namespace, "/openstack/latest/meta_data.json");
      expect(again.status, `${n}: ${again.body}\n${on("a").metadata.log}${on("b").metadata.log}`).toBe(200);
      uuids.add(JSON.parse(again.body).uuid);
    }
    expect(statuses.filter((line) => !/: 404 /.test(line))).toEqual([]);
    expect([...uuids]).toEqual([FIRMWARE]);
    const { stdout } = await run("ip", ["-n", at.namespace, "route"]);
    expect(stdout).toMatch(/^169\.254\.169\.254 dev \S+ *$/m);
  });
});
