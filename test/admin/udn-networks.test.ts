import { beforeEach, expect, test } from "vitest";
import { udnNetworks } from "../../admin/cluster/udn-networks.ts";
import { ListRefused } from "../../kube/kube-api.ts";
import { CLAIMS_PATH, NADS_PATH, namespacedPath, PODS_PATH } from "../../kube/objects.ts";
import { CUDNS_PATH, UDNS_PATH } from "../../networks/udn/udn-object.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { layer2, layer3, PRIMARY } from "../networks/udn-objects.ts";

const NONE = new Set<string>();
let api: KubeInMemory;
beforeEach(() => {
  api = new KubeInMemory();
});

test("a network is counted from what pods and claims report, each address once", async () => {
  put(UDNS_PATH, "shop", "blue", { spec: layer2({ role: "Primary", subnets: ["10.0.0.0/24"] }) });
  nad("shop", "blue", "shop_blue");
  nad("shop", "other", "another");
  pod("a", { "shop/blue": ["10.0.0.5/24"] });
  pod("b", { "shop/blue": ["10.0.0.5/24"] });
  pod("c", { "shop/blue": ["10.0.0.6/24"], "shop/other": ["10.0.0.7/24"], default: ["10.0.0.8/24"] });
  pod("done", { "shop/blue": ["10.0.0.9/24"] }, "Succeeded");
  claim("vm1.blue", "shop_blue", ["10.0.0.6/24", "10.0.0.10/24"]);
  claim("odd", "shop_blue", ["nonsense"]);
  claim("foreign", "another", ["10.0.0.11/24"]);
  expect(await udnNetworks(api, NONE)).toEqual([
    expect.objectContaining({
      name: "shop_blue",
      source: "UserDefinedNetwork shop/blue",
      attachments: 3,
      outside: "0",
      ranges: [
        expect.objectContaining({
          subnets: ["10.0.0.0/24"],
          gateways: ["10.0.0.1"],
          size: "256",
          allocated: "3",
          excluded: "4",
          free: "249",
        }),
      ],
    }),
  ]);
});

test("a cluster's persistent network is listed, and networks without one range, wrong ones and ours are not", async () => {
  const network = layer2({ ...PRIMARY, ipam: { lifecycle: "Persistent" } });
  put(CUDNS_PATH, null, "blue", { spec: { namespaceSelector: {}, network } });
  put(UDNS_PATH, "shop", "wide", { spec: layer3({ role: "Primary", subnets: [{ cidr: "10.0.0.0/8" }] }) });
  put(UDNS_PATH, "shop", "wrong", { spec: layer2({ role: "Primary" }) });
  put(UDNS_PATH, "shop", "ours", { spec: layer2(PRIMARY) });
  const found = await udnNetworks(api, new Set(["shop_ours"]));
  expect(found).toEqual([
    expect.objectContaining({
      name: "cluster_udn_blue",
      source: "ClusterUserDefinedNetwork blue",
      allowPersistentIPs: true,
    }),
  ]);
});

test("without UDN definitions, or the right to read them, no network is listed", async () => {
  api.missing.add(UDNS_PATH);
  api.missing.add(CUDNS_PATH);
  expect(await udnNetworks(api, NONE)).toEqual([]);
  api.missing.clear();
  api.before = ({ path }) => {
    if (path.includes("k8s.ovn.org")) throw new ListRefused("forbidden", 403);
  };
  expect(await udnNetworks(api, NONE)).toEqual([]);
  put(UDNS_PATH, "shop", "blue", { spec: layer2(PRIMARY) });
  api.before = ({ path }) => {
    if (path === PODS_PATH) throw new ListRefused("forbidden", 403);
  };
  expect(await udnNetworks(api, NONE)).toEqual([]);
  api.away = true;
  api.before = () => {};
  await expect(udnNetworks(api, NONE)).rejects.toMatchObject({ name: "ApiAway" });
});

function put(path: string, namespace: string | null, name: string, object: object): void {
  const collection = namespace === null ? path : namespacedPath(path, namespace);
  api.put(collection, { metadata: { name, ...(namespace === null ? {} : { namespace }) }, ...object });
}

function nad(namespace: string, name: string, network: string): void {
  const config = JSON.stringify({ name: network, type: "ovn-k8s-cni-overlay" });
  put(NADS_PATH, namespace, name, { spec: { config } });
}

function pod(name: string, networks: Record<string, string[]>, phase = "Running"): void {
  const map = Object.fromEntries(Object.entries(networks).map(([key, ips]) => [key, { ip_addresses: ips }]));
  const annotations = { "k8s.ovn.org/pod-networks": JSON.stringify(map) };
  api.put(namespacedPath(PODS_PATH, "shop"), {
    metadata: { namespace: "shop", name, annotations },
    spec: {},
    status: { phase },
  });
}

function claim(name: string, network: string, ips: readonly string[]): void {
  put(CLAIMS_PATH, "shop", name, { spec: { network, interface: "" }, status: { ips } });
}
