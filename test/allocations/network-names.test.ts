import { expect, test } from "vitest";
import { newAllocation } from "../../allocations/allocation-object.ts";
import { Picture } from "../../allocations/picture.ts";
import { isNetworkName } from "../../ipam/definition/plugin-config.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { readNetworkObject } from "../../kube/network-object.ts";
import { labelSelector, labelValue, networkObjectName } from "../../kube/object-names.ts";
import { ALLOCATIONS_PATH, NETWORKS_PATH } from "../../kube/objects.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";

/** Names that Kubernetes does not take as they are, and one that is too long. */
const AWKWARD = ["cluster_udn_blue", "TenantBlue", "x".repeat(70)];

function owner(uid: string) {
  return { kind: "Pod", namespace: "shop", name: uid, uid, interface: "net1" } as const;
}

test.each(AWKWARD)("the shortened name of network %s cannot be taken by a network of that name", (network) => {
  const object = networkObjectName(network);
  expect(isNetworkName(object)).toBe(true);
  expect(networkObjectName(object)).not.toBe(object);
  const label = labelValue(network);
  if (label !== network) expect(labelValue(label)).not.toBe(label);
});

test.each(["blue", "tenant-blue", "a.b-c", "blue-0123456789abcde", "cafe0123456789abcdef"])(
  "an ordinary name is not shortened: %s",
  (network) => {
    expect(networkObjectName(network)).toBe(network);
    expect(labelValue(network)).toBe(network);
    expect(labelSelector("k", network)).toBe(`k=${network}`);
  },
);

test("a network whose name is the shortened one of another has an object of its own", async () => {
  const victim = "cluster_udn_blue";
  const squatter = networkObjectName(victim);
  const api = new KubeInMemory();
  api.put(NETWORKS_PATH, { metadata: { name: squatter }, spec: { network: victim } });
  expect(await readNetworkObject(api, squatter)).toBeNull();
  expect((await readNetworkObject(api, victim))?.spec.network).toBe(victim);
});

test("two networks whose allocations carry the same label share no picture, although somebody has edited the labels", async () => {
  const victim = "x".repeat(70);
  const other = labelValue(victim);
  const api = new KubeInMemory();
  const put = (network: string, address: string) => {
    const one = parseInterfaceAddress(address);
    const object = newAllocation(network, one, { owner: owner(address), attachment: null }, "t");
    const metadata = object.metadata as { labels: Record<string, string> };
    // As somebody may have edited it.
    metadata.labels["ipam.holdfast.dev/network"] = other;
    api.put(ALLOCATIONS_PATH, object);
  };
  put(victim, "10.0.0.1/24");
  put(victim, "10.0.0.2/24");
  put(other, "10.0.0.3/24");
  const nothingPublished = { serverMs: () => 0, read: async () => {} };
  const picture = new Picture({ api, startSeed: "node", ...nothingPublished });
  expect(await picture.makeSure(victim, api.clock.monotonicMs() + 60_000)).toBe(true);
  expect(picture.boundCount(victim)).toBe(2);
});
