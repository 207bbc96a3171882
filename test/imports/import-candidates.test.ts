import { describe, expect, test } from "vitest";
import { ImportCandidates } from "../../imports/import-candidates.ts";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import { parseAddress } from "../../ipam/space/address.ts";
import { formatInterfaceAddress } from "../../ipam/space/cidr.ts";
import { projectClaim } from "../../kube/views/claim-view.ts";
import { projectPod } from "../../kube/views/pod-view.ts";
import { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import { projectNad } from "../../networks/nad-view.ts";
import { systemClock } from "../../platform/time.ts";
import { pod } from "../claims/objects.ts";

const conf = { name: "blue", type: "bridge", ipam: { type: "holdfast-ipam", subnets: "10.31.0.0/24" } };

/** Network blue, which namespace shop defines by a NetworkAttachmentDefinition. */
function ownedByShop(ipam: object = conf.ipam): DefinitionCatalog {
  const catalog = new DefinitionCatalog(systemClock);
  const metadata = { namespace: "shop", name: "blue", uid: "u", resourceVersion: "1" };
  const creationTimestamp = "2026-01-01T00:00:00Z";
  catalog.upsert(
    projectNad({
      metadata: { ...metadata, creationTimestamp },
      spec: { config: JSON.stringify({ ...conf, ipam }) },
    }),
  );
  catalog.setOwner("blue", { definedIn: "shop", sharedWith: [] });
  return catalog;
}

/** A pod of another namespace that reports an address on a network, by an entry of its network-status. */
function reporting(entry: object) {
  const status = JSON.stringify([{ interface: "eth9", ips: ["10.31.0.77"], ...entry }]);
  return pod({
    metadata: {
      namespace: "evil",
      name: "liar",
      annotations: { "k8s.v1.cni.cncf.io/network-status": status },
    },
  });
}

const read = (object: object) => projectPod(object, { addresses: true });

function found(candidates: ImportCandidates): string[] {
  return candidates.all().map(({ one, foundIn }) => `${formatInterfaceAddress(one)} ${foundIn}`);
}

describe("a status entry that names a network without a NAD", () => {
  test.each([{ name: "blue" }, { name: "blue", default: true }, { name: "evil/blue" }])(
    "%j reserves nothing on a network that the nodes' configuration does not define",
    (entry) => {
      const candidates = new ImportCandidates("blue", { definitions: ownedByShop(), nodes: null });
      candidates.addPod(read(reporting(entry)));
      expect(found(candidates)).toEqual([]);
    },
  );

  test("counts where the nodes' configuration defines the network", () => {
    const options = { definitions: new DefinitionCatalog(systemClock), nodes: parsePluginConfig(conf) };
    const candidates = new ImportCandidates("blue", options);
    candidates.addPod(read(reporting({ name: "blue" })));
    expect(found(candidates)).toEqual(["10.31.0.77/24 Pod evil/liar"]);
  });
});

const STATUS = "k8s.v1.cni.cncf.io/network-status";
const NETWORKS = "k8s.v1.cni.cncf.io/networks";

/** A pod of namespace evil that selects shop/blue once for each interface and reports one address on each. */
function withInterfaces(ips: readonly string[], given: { spec?: object; status?: object } = {}) {
  const interfaces = ips.map((ip, index) => ({ ip, interface: `i${index}` }));
  const named = interfaces.map((one) => ({ name: "blue", namespace: "shop", interface: one.interface }));
  const status = interfaces.map((one) => ({ name: "shop/blue", interface: one.interface, ips: [one.ip] }));
  const annotations = { [NETWORKS]: JSON.stringify(named), [STATUS]: JSON.stringify(status) };
  return pod({ metadata: { namespace: "evil", name: "liar", annotations }, ...given });
}

function hosts(first: number, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `10.31.0.${first + index}`);
}

test("an address that two pods report belongs to the older one, unless that has no sandbox", () => {
  const twice = (conditions: object[]) => {
    const candidates = new ImportCandidates("blue", { definitions: ownedByShop(), nodes: null });
    const annotations = {
      [STATUS]: JSON.stringify([{ name: "shop/blue", interface: "i0", ips: ["10.31.0.77"] }]),
    };
    const made = (name: string, creationTimestamp: string, status: object) =>
      candidates.addPod(read(pod({ metadata: { name, uid: name, creationTimestamp, annotations }, status })));
    made("younger", "2026-11-20T11:00:00Z", {});
    made("older", "2026-11-20T10:00:00Z", { conditions });
    return found(candidates);
  };
  const sandbox = (status: string) => [{ type: "PodReadyToStartContainers", status }];
  expect(twice([])).toEqual(["10.31.0.77/24 Pod shop/older"]);
  expect(twice(sandbox("True"))).toEqual(["10.31.0.77/24 Pod shop/older"]);
  expect(twice(sandbox("False"))).toEqual(["10.31.0.77/24 Pod shop/younger"]);
});

test("what a claim lists is a wish only in a subnet where it has nothing", () => {
  const definitions = ownedByShop({ ...conf.ipam, subnets: "10.31.0.0/24,fd31::/64" });
  const listing = (had: readonly string[]) => {
    const hadBy = () => had.map(parseAddress);
    const candidates = new ImportCandidates("blue", { definitions, nodes: null, hadBy });
    const creationTimestamp = "2026-01-01T00:00:00Z";
    const metadata = { namespace: "shop", name: "db", uid: "db", resourceVersion: "1", creationTimestamp };
    const status = { ips: ["10.31.0.7/24", "10.31.0.8/24", "fd31::7/64"] };
    candidates.addClaim(projectClaim({ metadata, spec: { network: "blue" }, status }));
    return found(candidates).map((one) => one.split(" ")[0]);
  };
  expect(listing([])).toEqual(["10.31.0.7/24", "fd31::7/64"]);
  expect(listing(["10.31.0.99"])).toEqual(["fd31::7/64"]);
});

describe("what a pod's annotations claim", () => {
  const candidatesOf = (object: object, ipam: object = {}, recorded: readonly string[] = []) => {
    const definitions = ownedByShop({ ...conf.ipam, ...ipam });
    const recordedOf = () => recorded.map(parseAddress);
    const candidates = new ImportCandidates("blue", { definitions, nodes: null, recordedOf });
    candidates.addPod(read(object));
    return { candidates, addresses: found(candidates).map((one) => one.split(" ")[0]) };
  };

  test.each([
    ["gateway", { gateway: "10.31.0.1" }, "10.31.0.1"],
    ["excluded address", { excludeSubnets: "10.31.0.96/28" }, "10.31.0.100"],
    ["address outside of the subnets", {}, "10.99.0.1"],
    ["network address", {}, "10.31.0.0"],
  ])("is not recorded as the network's %s, and counted", (_, ipam, ip) => {
    const { candidates, addresses } = candidatesOf(withInterfaces(["10.31.0.77", ip]), ipam);
    expect(addresses).toEqual(["10.31.0.77/24"]);
    expect(candidates.refusedCount).toBe(1);
    expect(candidates.problems).toEqual([
      `Pod evil/liar reports 1 addresses that the network never gives (gateway, excluded or outside of its subnets): ${ip}`,
    ]);
  });

  test("is not recorded before a kubelet has begun with the pod", () => {
    const ips = hosts(10, 1);
    const pending = { phase: "Pending" };
    expect(candidatesOf(withInterfaces(ips, { spec: { nodeName: undefined }, status: pending })).addresses).toEqual([]);
    expect(candidatesOf(withInterfaces(ips, { spec: { nodeName: "none" }, status: pending })).addresses).toEqual([]);
    const pulling = {
      ...pending,
      containerStatuses: [{ state: { waiting: { reason: "ContainerCreating" } } }],
    };
    expect(candidatesOf(withInterfaces(ips, { status: pulling })).addresses).toEqual(["10.31.0.10/24"]);
    expect(candidatesOf(withInterfaces(ips)).addresses).toEqual(["10.31.0.10/24"]);
  });

  test("is recorded for eight interfaces at most, however many it selects", () => {
    const { candidates, addresses } = candidatesOf(withInterfaces(hosts(10, 200)));
    expect(addresses).toEqual(hosts(10, 8).map((ip) => `${ip}/24`));
    expect(candidates.refusedCount).toBe(192);
  });

  test("is recorded for eight addresses at most, what was recorded before included", () => {
    const before = hosts(100, 7);
    const { addresses } = candidatesOf(withInterfaces([...before.slice(0, 2), ...hosts(10, 3)]), {}, before);
    expect(addresses).toEqual(["10.31.0.100/24", "10.31.0.101/24", "10.31.0.10/24"]);
  });
});

test("the first address of a network that a file on the nodes defines is imported only where the kubelet reports it", () => {
  const of = (status: object) => {
    const options = { definitions: new DefinitionCatalog(systemClock), nodes: parsePluginConfig(conf) };
    const candidates = new ImportCandidates("blue", options);
    const annotations = {
      [STATUS]: JSON.stringify([{ name: "blue", interface: "net1", ips: ["10.31.0.1"] }]),
    };
    candidates.addPod(read(pod({ metadata: { annotations }, status })));
    return found(candidates);
  };
  expect(of({})).toEqual([]);
  expect(of({ podIPs: [{ ip: "10.31.0.1" }] })).toEqual(["10.31.0.1/24 Pod shop/web"]);
});

test("a claim that a pod names for two interfaces on one definition is nobody's for sure, so each address is the pod's", () => {
  const holderOf = (claims: readonly string[]) => {
    const candidates = new ImportCandidates("blue", { definitions: ownedByShop(), nodes: null });
    const status = claims.map((_, index) => ({
      name: "shop/blue",
      interface: `i${index}`,
      ips: [`10.31.0.${10 + index}`],
    }));
    const named = claims.map((claim, index) => ({
      name: "blue",
      interface: `i${index}`,
      "ipam-claim-reference": claim,
    }));
    for (const name of claims) {
      const metadata = {
        namespace: "shop",
        name,
        uid: name,
        resourceVersion: "1",
        creationTimestamp: "2026",
      };
      candidates.addClaim(projectClaim({ metadata, spec: { network: "blue" } }));
    }
    const annotations = { [NETWORKS]: JSON.stringify(named), [STATUS]: JSON.stringify(status) };
    candidates.addPod(read(pod({ metadata: { annotations } })));
    return candidates.all().map(({ holder }) => holder.owner.kind);
  };
  expect(holderOf(["left", "right"])).toEqual(["IPAMClaim", "IPAMClaim"]);
  expect(holderOf(["right", "right"])).toEqual(["Pod", "Pod"]);
});
