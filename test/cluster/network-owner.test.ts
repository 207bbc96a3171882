/** Whose a network is: recorded when it is first defined, and what other namespaces can and cannot do to it. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { networkObjectName } from "../../kube/object-names.ts";
import { NETWORKS_PATH, objectPath } from "../../kube/objects.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { configOf, NAMESPACE, type Network } from "../harness/world/network.ts";
import { Tenant } from "../harness/world/tenant.ts";
import { metadataApi, serviceBackends, UdnObjects, udnDefinitions } from "../harness/world/udn-objects.ts";
import { World } from "../harness/world/world.ts";

const SHARED_WITH = "ipam.holdfast.dev/shared-with";
const DEFAULT_NETWORK = "v1.multus-cni.io/default-network";
const SERVICE = "metadata.holdfast.dev/service";
const HOST_LOCAL = JSON.stringify({ name: "old", type: "bridge", ipam: { type: "host-local" } });

let world: World;
let evil: Tenant;
let kubeconfig: string;
let count = 0;

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"] });
  evil = await Tenant.create(world.cluster, "evil");
  kubeconfig = world.cluster.kubeconfig("admin");
});
afterAll(async () => {
  evil?.close();
  await world?.stop();
});

const fresh = (what: string) => {
  count += 1;
  return `${what}-${count}`;
};
const networkObject = (network: string): Promise<KubeObject | null> =>
  world.cluster.api.find(objectPath(NETWORKS_PATH, networkObjectName(network)));
const nadPath = (name: string) => pathOf(NAMESPACE, "network-attachment-definitions", name, "k8s.cni.cncf.io/v1");
const admin = (...args: string[]) => world.cli("--kubeconfig", kubeconfig, ...args);
const own = (network: string, namespace: string) => admin("networks", "own", network, "--namespace", namespace);

function share(nad: string, sharedWith: string | null): Promise<KubeObject> {
  return world.cluster.api.patch(nadPath(nad), { metadata: { annotations: { [SHARED_WITH]: sharedWith } } });
}

/** A network of the owner's that is in use, so that it is recorded whose it is. */
async function owned(name: string, ipam: object = {}, plugin: object = {}): Promise<Network> {
  const network = await world.network(name, ipam, plugin);
  await world.given(await world.pod(fresh("first"), "node-a", network), network);
  expect((await networkObject(name))?.spec.definedIn).toBe(NAMESPACE);
  return network;
}

/** Tries again until an ADD succeeds: what changed is seen within seconds. */
async function givenInTheEnd(pod: KubeObject, network: Network): Promise<void> {
  await world.until(async () => (await world.add(pod, network)).code === 0, "an ADD");
}

describe("the recorded owner of a network", () => {
  test.each(["a node", "the controller"])(
    "is the administrators where %s records it by a ClusterUserDefinedNetwork",
    async (by) => {
      await world.cluster.apply(udnDefinitions("keeping"));
      const name = fresh("wide");
      await new UdnObjects(world.cluster).cudn(name, { topology: "Layer2" });
      if (by === "a node") await world.stopImporter();
      const nad = `cluster_udn_${name}`;
      const network = { name: nad, config: configOf(nad, { subnets: "10.77.0.0/24" }) };
      await world.kubevirt.createNad(NAMESPACE, name, network.config);
      const pod = await world.kubevirt.createPod(NAMESPACE, fresh("guest"), {
        node: "node-a",
        networks: [{ name }],
      });
      if (by === "a node") {
        await world.add(pod, network as Network);
        await world.startImporter();
      }
      await world.until(async () => (await networkObject(nad))?.spec.definedIn !== undefined, "an owner");
      expect((await networkObject(nad))?.spec.definedIn).toBe("");
      expect(await world.refused(pod, network as Network, 7)).toContain("administrators");
    },
  );

  test("is recorded by the first ADD, shown by holdfast, and kept when its NAD is deleted and recreated", async () => {
    const network = await owned("kept");
    for (const { stdout } of [
      await admin("networks", "-o", "wide"),
      await world.node("node-a").daemon.cli("networks", "-o", "wide"),
    ]) {
      expect(stdout).toMatch(/^NETWORK .* OWNER +SHARED WITH/);
      expect(stdout).toMatch(new RegExp(`^kept .* ${NAMESPACE} +- `, "m"));
    }
    await evil.nad("kept", configOf("kept", { subnets: "10.66.0.0/24" }));
    await world.cluster.api.delete(nadPath("kept"));
    const guest = await evil.pod(fresh("squatter"), "node-a", "kept");
    expect(await world.refused(guest, network, 7)).toContain("belongs to namespace shop");
    expect((await networkObject("kept"))?.spec.definedIn).toBe(NAMESPACE);
    await world.until(
      async () => (await admin("networks", "-o", "json")).stdout.includes('"source": "none"'),
      "the network to be without a definition, whatever the other namespace's NAD says",
    );
    await world.network("kept");
    await givenInTheEnd(await world.pod(fresh("after"), "node-b", network), network);
  });

  test("is exactly one of two namespaces that define one name at the same time", async () => {
    const config = configOf("raced");
    await Promise.all([world.kubevirt.createNad(NAMESPACE, "raced", config), evil.nad("raced", config)]);
    const network: Network = { name: "raced", config };
    const pods = [await world.pod("raced-0", "node-a", network), await evil.pod("raced-1", "node-b", "raced")];
    const answers = await Promise.all(pods.map((pod) => world.add(pod, network)));
    expect(answers.map(({ code }) => code === 0).sort()).toEqual([false, true]);
    const winner = answers[0]?.code === 0 ? NAMESPACE : "evil";
    expect((await networkObject("raced"))?.spec.definedIn).toBe(winner);
  });

  test("of a name that only the objects have is the first namespace; refusals say where the name is from", async () => {
    const { name: _, ...unnamed } = JSON.parse(configOf("macvlan-conf"));
    await world.kubevirt.createNad(NAMESPACE, "macvlan-conf", JSON.stringify(unnamed));
    // What Multus calls the plugin with.
    const network: Network = { name: "macvlan-conf", config: configOf("macvlan-conf") };
    await world.given(await world.pod(fresh("inferred"), "node-a", network), network);
    expect((await networkObject("macvlan-conf"))?.spec).toMatchObject({ definedIn: NAMESPACE });
    await evil.nad("macvlan-conf", unnamed);
    const origin = "(its spec.config has no name, so its network has the object's name)";
    expect(await world.refused(await evil.pod(fresh("inferred"), "node-b", "macvlan-conf"), network, 7)).toContain(
      `NetworkAttachmentDefinition evil/macvlan-conf ${origin} asks for network macvlan-conf, which belongs to namespace shop`,
    );
    const list = { cniVersion: "1.0.0", plugins: [{ type: "bridge", ipam: unnamed.ipam }] };
    await world.kubevirt.createNad(NAMESPACE, "list-conf", JSON.stringify(list));
    const listed: Network = { name: "list-conf", config: configOf("list-conf") };
    await world.given(await world.pod(fresh("inferred"), "node-a", listed), listed);
  });

  test("cannot be written by a tenant", async () => {
    await owned("locked");
    const path = objectPath(NETWORKS_PATH, "locked");
    const move = { spec: { definedIn: "evil" } };
    const headers = { "content-type": "application/merge-patch+json" };
    expect((await evil.api.call("PATCH", path, move, headers)).status).toBe(403);
    expect((await evil.api.call("POST", NETWORKS_PATH, { metadata: { name: "x" } })).status).toBe(403);
  });
});

describe("a tenant with NAD and pod rights in its own namespace", () => {
  test("cannot redirect another network to its own metadata Service by an older NAD", async () => {
    await evil.nad("sleeper", HOST_LOCAL, { [SERVICE]: "thief" });
    // Times are in whole seconds: the owner's is certainly younger.
    await world.advance(1_100);
    await owned("vault");
    await world.cluster.api.patch(nadPath("vault"), { metadata: { annotations: { [SERVICE]: "md" } } });
    const api = metadataApi(world.cluster);
    const backends = serviceBackends(world.cluster, api, "node-a");
    backends.start();
    try {
      const service = async () => (await backends.backendOf("vault")) as KubeObject;
      await world.until(async () => (await service())?.service === `${NAMESPACE}/md`, "the owner's Service");
      await evil.editNad("sleeper", { spec: { config: configOf("vault") } });
      await evil.nad("vault-too", configOf("seen"), { [SERVICE]: "thief" });
      // What was written later is known, so the edit is.
      await world.until(async () => (await backends.backendOf("seen")) !== null, "the tenant's NADs to be seen");
      expect((await service())?.service).toBe(`${NAMESPACE}/md`);
    } finally {
      await backends.stop();
      api.close();
    }
  });

  test("cannot break another network's ADDs by an older NAD with other ranges", async () => {
    await evil.nad("older", HOST_LOCAL);
    await world.advance(1_100);
    const network = await owned("ranges");
    await evil.editNad("older", { spec: { config: configOf("ranges", { subnets: "10.99.0.0/24" }) } });
    const pod = await evil.pod(fresh("older"), "node-b", "older");
    const said = await world.refused(pod, network, 7);
    expect(said).toContain("NetworkAttachmentDefinition evil/older asks for network ranges");
    expect(said).toContain('ipam.holdfast.dev/shared-with: "evil"');
    expect(said).toContain("holdfast networks own ranges --namespace evil");
    expect(await world.untilEvent(pod, "NetworkNotShared")).toContain("belongs to namespace shop");
    for (const node of ["node-a", "node-b"]) {
      const [ip] = await world.given(await world.pod(fresh("on"), node, network), network);
      expect(ip).toMatch(/^10\.0\.0\./);
    }
  });

  test("cannot use up another network's addresses by a copied NAD, by no NAD, or by its pods' annotations", async () => {
    const network = await owned("drained", { subnets: "10.0.0.0/28" });
    await evil.nad("copy", network.config);
    const before = (await world.allocations(network)).length;
    for (const node of ["node-a", "node-b"]) {
      const pod = await evil.pod(fresh("thirsty"), node, "copy");
      expect(await world.refused(pod, network, 7)).toContain("evil/copy");
      const bare = await evil.pods.createPod("evil", fresh("bare"), { node });
      expect(await world.refused(bare, network, 7)).toContain(`pod evil/${bare.metadata.name}`);
    }
    const ips = Array.from({ length: 8 }, (_, i) => `10.0.0.${i + 5}`);
    const status = JSON.stringify([{ name: "evil/copy", interface: "net1", ips }]);
    await evil.pod(fresh("liar"), "node-a", "copy", { "k8s.v1.cni.cncf.io/network-status": status });
    // A daemon that starts looks at what pods report before it serves.
    await world.node("node-b").restart();
    await world.given(await world.pod(fresh("later"), "node-b", network), network);
    expect((await world.allocations(network)).length).toBe(before + 1);
  });

  test("cannot join a network by an annotation that it removes after Multus has read it", async () => {
    const network = await owned("stripped");
    await evil.nad("stripped", network.config);
    const before = (await world.allocations(network)).length;
    const primary = { ifname: "eth0" };
    const pod = await evil.pods.createPod("evil", fresh("stripped"), {
      node: "node-b",
      annotations: { [DEFAULT_NETWORK]: "evil/stripped" },
    });
    expect(await world.refused(pod, network, 7, primary)).toContain("evil/stripped");
    await evil.api.patch(pathOf("evil", "pods", pod.metadata.name), {
      metadata: { annotations: { [DEFAULT_NETWORK]: null } },
    });
    await world.until(
      async () => (await world.refused(pod, network, 7, primary)).includes(`pod evil/${pod.metadata.name},`),
      "the pod to be seen without its annotation",
    );
    const said = await world.refused(pod, network, 7, primary);
    expect(said).toContain("asks for network stripped, which belongs to namespace shop");
    expect(said).toContain('ipam.holdfast.dev/shared-with: "evil"');
    expect(said).toContain("holdfast networks own stripped --administrators");
    expect((await world.allocations(network)).length).toBe(before);
    await share("stripped", "evil");
    await world.until(async () => (await world.add(pod, network, primary)).code === 0, "the share to let it in");
    const { importedFrom } = (await networkObject("stripped"))?.status ?? {};
    expect(
      importedFrom.filter((one: KubeObject) => one.subnets),
      "no source of the nodes'",
    ).toEqual([]);
  });

  test("cannot occupy the IPNetwork name of another network", async () => {
    const victim = "Team_Blue";
    const squat = networkObjectName(victim);
    await evil.nad("squat", configOf(squat));
    const thief = await evil.pod(fresh("squat"), "node-a", "squat");
    await world.given(thief, { name: squat, config: configOf(squat) });
    const config = configOf(victim);
    await world.kubevirt.createNad(NAMESPACE, "team-blue", config);
    const pod = await world.kubevirt.createPod(NAMESPACE, fresh("team"), {
      node: "node-b",
      networks: [{ name: "team-blue" }],
    });
    await world.given(pod, { name: victim, config });
    expect(await networkObject(victim)).toMatchObject({ spec: { network: victim, definedIn: NAMESPACE } });
    expect(await networkObject(squat)).toMatchObject({ spec: { network: squat, definedIn: "evil" } });
  });
});

test("a network of the nodes' configuration serves every pod's primary interface, and no namespace's NAD may join it", async () => {
  const network: Network = { name: "podnet", config: configOf("podnet", { subnets: "10.30.0.0/24" }) };
  const primary = { ifname: "eth0" };
  for (const namespace of [NAMESPACE, "evil"]) {
    const pod = await world.kubevirt.createPod(namespace, fresh("primary"), { node: "node-a" });
    await world.given(pod, network, primary);
  }
  expect((await networkObject("podnet"))?.spec.definedIn).toBe("");
  const { stdout } = await admin("networks", "-o", "json");
  expect(JSON.parse(stdout).items.find(({ name }: KubeObject) => name === "podnet")?.definedIn).toBe("");
  await evil.nad("podnet", configOf("podnet", { subnets: "10.31.0.0/24" }));
  // As if it had been edited after the runtime had read it.
  await evil.nad("edited", HOST_LOCAL);
  for (const nad of ["podnet", "edited"]) {
    const pod = await evil.pod(fresh("joiner"), "node-b", nad);
    expect(await world.refused(pod, network, 7)).toContain("belongs to the cluster's administrators");
  }
  // The configuration of this one is a file on the nodes, which administrators write.
  await evil.nad("from-file", "");
  await world.given(await evil.pod(fresh("by-file"), "node-b", "from-file"), network);
});

describe("a shared network", () => {
  test("is open to the namespaces in the owner's annotation, or to all, until the annotation is removed", async () => {
    const network = await owned("shared");
    await evil.nad("shared", network.config);
    const guest = () => evil.pod(fresh("guest"), "node-a", "shared");
    await world.refused(await guest(), network, 7);
    await share("shared", "other, evil");
    await givenInTheEnd(await guest(), network);
    await share("shared", "*");
    await givenInTheEnd(await guest(), network);
    const shown = (await admin("networks", "-o", "wide")).stdout;
    expect(shown).toMatch(new RegExp(`^shared .* ${NAMESPACE} +\\* `, "m"));
    await evil.editNad("shared", { spec: { config: configOf("shared", { subnets: "10.7.0.0/24" }) } });
    await world.until(async () => {
      const answer = await world.add(await guest(), network);
      return answer.code !== 0 && answer.json().msg.includes("evil/shared defines network shared differently");
    }, "the guest's other ranges to be refused");
    await share("shared", null);
    await world.until(async () => {
      const answer = await world.add(await guest(), network);
      return answer.code !== 0 && answer.json().msg.includes("belongs to namespace shop");
    }, "the share to end");
  });

  test("refuses the other namespaces' ADDs once the owner's NAD is deleted", async () => {
    const network = await owned("orphaned");
    await evil.nad("orphaned", network.config);
    await world.cluster.api.patch(objectPath(NETWORKS_PATH, "orphaned"), { spec: { sharedWith: ["evil"] } });
    await givenInTheEnd(await evil.pod(fresh("before"), "node-a", "orphaned"), network);
    await world.cluster.api.delete(nadPath("orphaned"));
    await world.until(async () => {
      const answer = await world.add(await evil.pod(fresh("after"), "node-a", "orphaned"), network);
      return answer.code !== 0 && answer.json().msg.includes("no NetworkAttachmentDefinition defines it now");
    }, "the guest to be told");
    const { stdout, code } = await admin("check", "--grace", "0");
    expect(code).toBe(1);
    expect(stdout).toContain(
      "network orphaned belongs to namespace shop, where no NetworkAttachmentDefinition defines it now",
    );
    expect(stdout).toContain("NetworkAttachmentDefinitions of evil name it: ADDs through those are refused");
  });

  test("follows the new owner's NAD after an administrator has moved it", async () => {
    const network = await owned("moved");
    await evil.nad("moved", configOf("moved", { subnets: "10.42.0.0/24" }));
    expect(await own("moved", "evil")).toMatchObject({
      code: 0,
      stdout:
        "network moved belongs to evil, formerly of shop\n" +
        "it stays so when nothing uses it any more; kubectl delete ipnetwork moved ends that then\n",
    });
    expect((await own("moved", "evil")).stdout).toMatch(/^network moved belongs to evil already\n/);
    const pod = await evil.pod(fresh("moved"), "node-a", "moved");
    await givenInTheEnd(pod, network);
    expect((await world.given(pod, network))[0]).toMatch(/^10\.42\.0\./);
    expect(await world.refused(await world.pod(fresh("left"), "node-a", network), network, 7)).toContain(
      "belongs to namespace evil",
    );
  });

  test("cannot be moved if it does not exist, to an invalid namespace, or by a node's daemon", async () => {
    expect(await own("never-made", "evil")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("there is no IPNetwork of network never-made"),
    });
    expect(await own("moved", "No Namespace")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("expected the name of a namespace"),
    });
    const { code, stderr } = await world.node("node-a").daemon.cli("networks", "own", "moved", "-n", "evil");
    expect(code).toBe(2);
    expect(stderr).toContain("--kubeconfig FILE");
  });
});
