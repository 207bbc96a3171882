import { describe, expect, test } from "vitest";
import { readClusterRequest } from "../../claims/cluster-request.ts";
import { parseCniArgs } from "../../claims/cni-args.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import { RefusalError } from "../../ipam/refusals.ts";
import { projectPod } from "../../kube/views/pod-view.ts";
import { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import { subnetsOf } from "../../networks/import-sources.ts";
import { projectNad } from "../../networks/nad-view.ts";
import { NodeConfigurations } from "../../networks/node-configurations.ts";
import { systemClock } from "../../platform/time.ts";
import { pod } from "./objects.ts";

const RANGES = { subnets: "10.30.0.0/24,fd00:30::/64" };
const ROUTED = { ...RANGES, routes: [{ dst: "0.0.0.0/0" }] };
const ROUTES = [{ dst: "0.0.0.0/0" }, { dst: "10.31.0.0/16", gw: "10.30.0.9" }];
const twoRoutes = (routes: object[]) => ({ ...RANGES, routes });

type Ipam = Readonly<Record<string, unknown>>;

function configuration(ipam: Ipam, plugin: Ipam = {}) {
  const { name = "podnet", ...more } = plugin;
  return { cniVersion: "1.0.0", name, type: "bridge", ...more, ipam: { type: "holdfast-ipam", ...ipam } };
}

/**
 * What pod shop/web gets on its primary interface: `node` is the configuration that the runtime passes on, `defined`
 * that of the NetworkAttachmentDefinition evil/x, in the namespace that the network belongs to and shares with shop.
 * `listed` are the subnets that the IPNetwork has as the nodes'. The subnets, or the refusal, and whether an import
 * takes them for the nodes'.
 */
async function ask(
  node: object,
  defined: object,
  {
    interface: name = "eth0",
    annotations = {},
    others = [] as object[],
    owner = "evil",
    definer = "evil",
    sharedWith = ["shop"],
    listed = "",
    args = "K8S_POD_NAME=web;K8S_POD_NAMESPACE=shop;K8S_POD_UID=uid-1",
  } = {},
): Promise<{ text: string; isOfNodes: boolean }> {
  const catalog = new DefinitionCatalog(systemClock);
  const metadata = { namespace: definer, name: "x", uid: "u", resourceVersion: "1" };
  const creationTimestamp = "2026-01-01T00:00:00Z";
  const spec = { config: JSON.stringify(defined) };
  catalog.upsert(projectNad({ metadata: { ...metadata, creationTimestamp }, spec }));
  for (const one of others) catalog.upsert(projectNad(one));
  catalog.setOwner("podnet", { definedIn: owner, sharedWith });
  const view = projectPod(pod({ metadata: { annotations } }));
  const parts = {
    api: { send: async () => ({ status: 404, body: {} }) },
    pods: { find: async () => ({ view, fresh: true }) },
    catalog,
    owners: {
      learn: async () => {},
      listAsNodes: (_: string, one: NetworkDefinition) => subnetsOf(one) === listed,
    },
    configurations: new NodeConfigurations(systemClock),
    node: "node-a",
  };
  const request = {
    interface: name,
    args: parseCniArgs(args),
    conf: node as Record<string, unknown>,
    network: "podnet",
    ownDefinition: () => ({ definition: parsePluginConfig(node), source: "" }),
  };
  try {
    const deadlineMs = performance.now() + 60_000;
    const { definition, nodes } = await readClusterRequest(parts as never, request, deadlineMs);
    return { text: subnetsOf(definition), isOfNodes: nodes !== null };
  } catch (error) {
    if (!(error instanceof RefusalError)) throw error;
    const { code, message, hint } = error.refusal;
    return { text: `${code}: ${message}; ${hint}`, isOfNodes: false };
  }
}

const primary = async (...asked: Parameters<typeof ask>) => (await ask(...asked)).text;

describe("a primary interface, whose network a NetworkAttachmentDefinition defines too", () => {
  test("is refused where the two definitions differ, and both are named with what an administrator can do", async () => {
    const said = await primary(configuration(RANGES), configuration({ subnets: "10.31.0.0/24" }));
    expect(said).toContain("DEFINITION_CONFLICT: the configuration on node node-a defines network podnet");
    expect(said).toContain("differently from NetworkAttachmentDefinition evil/x (other ranges), which counts");
    expect(said).toContain("holdfast networks own podnet --administrators");
  });

  test.each([
    ["ranges", RANGES, { subnets: "10.30.0.0/24" }, "a subnet is missing"],
    ["ranges", RANGES, { subnets: "10.30.0.0/24,fd00:30::/64,10.31.0.0/24" }, "one is added"],
    ["ranges", { ...RANGES, excludeSubnets: "10.30.0.0/28" }, RANGES, "what is excluded would be given"],
    ["ranges", { ...RANGES, reservedSubnets: "10.30.0.0/28" }, RANGES, "what is reserved would be given"],
    ["gateway", { ...RANGES, gateway: "10.30.0.1" }, { ...RANGES, gateway: "10.30.0.66" }, "another one"],
    ["routes", RANGES, ROUTED, "a route that the node does not have"],
    ["DNS", RANGES, { ...RANGES, dns: { nameservers: ["10.30.0.66"] } }, "a resolver"],
    ["metadata", RANGES, { ...RANGES, metadata: true }, "somebody's metadata service"],
  ])("is refused where the two differ in %s", async (what, node, defined, reason) => {
    const said = await primary(configuration(node), configuration(defined));
    expect(said, reason).toContain(`evil/x (other ${what})`);
  });

  test.each([
    [{}, RANGES, {}, "the node's configuration has no ranges"],
    [ROUTED, ROUTED, {}, "the two are equal"],
    [{ ...ROUTED, subnets: ["10.30.0.0/24", "fd00:30::/64"] }, ROUTED, {}, "in another spelling"],
    [RANGES, { ...RANGES, excludeSubnets: "10.30.0.0/28" }, {}, "fewer addresses are given"],
    [RANGES, { ...RANGES, gateway: "10.30.0.1" }, {}, "the gateway stands beside the list's plugins"],
    [twoRoutes(ROUTES), twoRoutes(ROUTES.toReversed()), {}, "their routes are in another order"],
    [RANGES, { ...RANGES, cooldownSeconds: 5 }, {}, "keys that no interface gets to see"],
    [RANGES, RANGES, { isGateway: true }, "the bridge's own gateway, which the definition does not mention"],
  ])(
    "gets the NAD's addresses where the node has %j, the NAD %j, and its plugin %j",
    async (node, defined, plugin, reason) => {
      expect(await primary(configuration(node, plugin), configuration(defined)), reason).toBe(RANGES.subnets);
    },
  );

  test("gets the addresses of the nodes' configuration once the network belongs to the administrators", async () => {
    const defined = configuration({ subnets: "10.31.0.0/24" });
    expect(await primary(configuration(RANGES), defined, { owner: "" })).toBe(RANGES.subnets);
  });
});

test("an interface whose NetworkAttachmentDefinition stands for a file on the nodes is refused in the same cases", async () => {
  const nads = JSON.stringify([{ name: "file", namespace: "evil" }]);
  const metadata = { namespace: "evil", name: "file", uid: "f", resourceVersion: "1" };
  const creationTimestamp = "2026-01-02T00:00:00Z";
  const options = {
    interface: "net1",
    annotations: { "k8s.v1.cni.cncf.io/networks": nads },
    others: [{ metadata: { ...metadata, creationTimestamp }, spec: {} }],
  };
  const defined = configuration(RANGES);
  expect(await primary(configuration(RANGES), defined, options)).toBe(RANGES.subnets);
  const said = await primary(configuration({ subnets: "10.31.0.0/24" }), defined, options);
  expect(said).toContain("evil/x (other ranges)");
});

describe("an interface without a NetworkAttachmentDefinition, as when its annotation went after the runtime had read it", () => {
  const defined = configuration(RANGES);

  test.each(["eth0", "net1"])("%s is refused on a network that is another namespace's", async (name) => {
    const said = await primary(defined, defined, { interface: name, sharedWith: [] });
    expect(said).toContain(
      `NETWORK_NOT_SHARED: pod shop/web, whose ${name} has no NetworkAttachmentDefinition, asks for network podnet`,
    );
    expect(said).toContain("which belongs to namespace evil");
    expect(said).toContain('ipam.holdfast.dev/shared-with: "shop"');
    const owner = name === "eth0" ? "--administrators" : "--namespace shop";
    expect(said).toContain(`holdfast networks own podnet ${owner}`);
  });

  test.each([
    [{}, false, "is shared with the pod's namespace"],
    [{ owner: "shop", definer: "shop", sharedWith: [] }, false, "belongs to the pod's namespace"],
    [{ owner: "", sharedWith: [] }, true, "is the nodes' own"],
    [{ owner: "", sharedWith: [], interface: "net1" }, true, "is the nodes' own, on any interface"],
    [{ owner: "kube-system", definer: "kube-system", sharedWith: [] }, true, "Multus's namespace gives to all"],
    [{ sharedWith: [], listed: RANGES.subnets }, true, "was the nodes' with these subnets"],
    [{ sharedWith: [], args: "" }, false, "a container without a pod is on"],
  ])(
    "may use the network with %j, and the definition counts as the nodes' own: %o",
    async (options, isOfNodes, reason) => {
      expect(await ask(defined, defined, options), reason).toEqual({ text: RANGES.subnets, isOfNodes });
    },
  );

  test.each([
    [{ sharedWith: [], listed: "10.30.0.0/24" }, "NETWORK_NOT_SHARED", "the nodes had it with other subnets"],
    [
      { sharedWith: [], listed: RANGES.subnets, interface: "net1" },
      "NETWORK_NOT_SHARED",
      "the nodes give primary interfaces",
    ],
    [
      { owner: "kube-system", definer: "kube-system", sharedWith: [], interface: "net1" },
      "NETWORK_NOT_SHARED",
      "so does Multus",
    ],
    [{ owner: "bank" }, "DEFINITION_MISSING", "the pod's own configuration would be the definition"],
  ])("with %j it is refused with %s", async (options, code, reason) => {
    expect(await primary(defined, defined, options), reason).toContain(`${code}: `);
  });

  test("a file on the nodes does not make the nodes a source of a network that a namespace owns", async () => {
    const metadata = { namespace: "evil", name: "podnet", uid: "f", resourceVersion: "1" };
    const options = {
      interface: "net1",
      annotations: { "k8s.v1.cni.cncf.io/networks": "evil/podnet" },
      others: [{ metadata: { ...metadata, creationTimestamp: "2026-01-02T00:00:00Z" }, spec: {} }],
    };
    expect(await ask(defined, defined, options)).toEqual({ text: RANGES.subnets, isOfNodes: false });
    expect((await ask(defined, defined, { ...options, owner: "" })).isOfNodes).toBe(true);
  });
});
