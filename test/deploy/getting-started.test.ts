/**
 * docs/getting-started.md, typed as it is written, on a real API server with real daemons; KubeVirt and its IPAM
 * controller are played.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { codeBlocks, walkthrough } from "../harness/documents.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import type { Vm } from "../harness/kubevirt.ts";
import { PageReader, withReleaseMade } from "../harness/page-reader.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import type { Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const PAGE = "docs/getting-started.md";
const NIC = { ifname: interfaceOf("blue") };
const VM = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines/vm1";
const NAD = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions/blue";

/** What is typed for KubeVirt, which is played: what comes of it is an act below. */
const READY = "kubectl wait vm/vm1 --for=condition=Ready --timeout=10m";
const PLAYED = [
  READY,
  "virtctl console vm1",
  // No kubelet runs what it looks for.
  "holdfast --kubeconfig ~/.kube/config doctor",
  "virtctl stop vm1",
  "kubectl wait vmi/vm1 --for=delete --timeout=5m",
  "virtctl start vm1",
  "virtctl migrate vm1",
  "kubectl wait vmi/vm1 --for=jsonpath='{.status.migrationState.completed}'=true --timeout=10m",
];

let world: World;
let reader: PageReader;
beforeAll(async () => {
  world = await World.start({ api: "server", nodes: ["worker-1", "worker-2"] });
  reader = new PageReader(world.server);
}, 300_000);
afterAll(async () => {
  await reader?.stop();
  await world?.stop();
});

const BUILDS_ON = {
  "multus-cni": /^kubectl -n kube-system rollout status daemonset\/kube-multus-ds /,
  ipamclaims: null,
  "kubevirt-operator": null,
  "kubevirt-cr": /^kubectl -n kubevirt wait kubevirt\/kubevirt --for=condition=Available /,
  "cert-manager": /^kubectl -n cert-manager wait deployment --all --for=condition=Available /,
  "ipam-extensions": /^kubectl -n kubevirt-ipam-controller-system rollout status deployment\/\S+-manager /,
};

test("what it builds on is applied, one thing after another, and what has to run is waited for", () => {
  const [block = ""] = codeBlocks(PAGE, "What Holdfast builds on");
  const lines = block.trim().split("\n");
  const rest = lines.filter((line) => !/^VERSION=\$\(curl -s \S+\)$/.test(line));
  for (const [name, wait] of Object.entries(BUILDS_ON)) {
    expect(rest.shift(), name).toMatch(new RegExp(`^kubectl apply -f https:\\S+/${name}\\S*\\.ya?ml$`));
    if (wait !== null) expect(rest.shift(), name).toMatch(new RegExp(`${wait.source}--timeout=\\d+m$`));
  }
  expect(rest).toEqual([]);
});

test("a VM keeps its address until it is deleted", async () => {
  const copy = codeBlocks(PAGE, "Install Holdfast")[0]?.split("\n")[1] ?? "";
  const network: { blue?: Network; vm?: Vm; pod?: KubeObject } = {};
  const parts = () => network as { blue: Network; vm: Vm; pod: KubeObject };
  const texts: Record<string, string> = {};
  const start = async (node: string) => {
    const { pod } = await world.kubevirt.startVm(parts().vm, node);
    network.pod = pod;
    const [given = ""] = await world.given(pod, parts().blue, NIC);
    // Nodes begin their search at different addresses.
    const own = given.split("/")[0]?.split(".").at(-1) ?? "";
    texts["192.168.10.57"] = `192.168.10.${own}`;
    texts.c0a80a39 = `c0a80a${Number(own).toString(16).padStart(2, "0")}`;
  };
  const acts = {
    network: async () => {
      network.blue = { name: "blue", config: (await world.server.api.get(NAD)).spec.config };
    },
    firstStart: async () => {
      const { uid } = (await world.server.api.get(VM)).metadata;
      const networks = [{ logical: "blue", nad: "blue", network: "blue" }];
      network.vm = { namespace: "default", name: "vm1", uid, networks };
      await start("worker-1");
    },
    stop: async () => {
      await world.kubevirt.stopVm(parts().vm, { remove: false });
      await world.del(parts().pod, parts().blue, NIC);
      await world.kubevirt.removePod(parts().pod);
    },
    migrate: async () => {
      const source = parts().pod;
      const target = await world.kubevirt.migrate(parts().vm, "worker-1");
      await world.given(target, parts().blue, NIC);
      await world.kubevirt.finishPod(source);
      await world.del(source, parts().blue, NIC);
      network.pod = target;
    },
    remove: async () => {
      const pod = parts().pod;
      await world.kubevirt.stopVm(parts().vm, { remove: false });
      await world.del(pod, parts().blue, NIC);
      await world.kubevirt.removePod(pod);
      await world.kubevirt.releaseClaims(parts().vm);
    },
  };
  const steps = ["Install Holdfast", "A network", "A VM", "Stop, start, migrate", "Who holds what", "Delete"];
  await reader.follow(
    steps.flatMap((heading) => walkthrough(PAGE, heading)),
    {
      commands: {
        ...withReleaseMade("", "image manifests"),
        [copy]: "",
        ...Object.fromEntries(PLAYED.map((line) => [line, ""])),
      },
      texts,
      acts: [
        { after: /^kubectl apply -f dist/m, act: () => reader.startController() },
        { after: /kind: NetworkAttachmentDefinition/, act: acts.network },
        { after: /kind: VirtualMachine/, act: acts.firstStart },
        { after: /virtctl stop/, act: acts.stop },
        { after: /virtctl start/, act: () => start("worker-2") },
        { after: /virtctl migrate/, act: acts.migrate },
        { after: /kubectl delete vm/, act: acts.remove },
      ],
    },
  );
});
