/** Claims of machines (IPAddressClaims on AddressPools) get their addresses. */
import { afterEach, describe, expect, test } from "vitest";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { CLUSTER_LABEL, type ClusterApi, type ClusterApiOptions } from "../harness/machines/cluster-api.ts";
import { IPAM_VERSIONS } from "../harness/machines/definitions.ts";
import { pause } from "../harness/wait.ts";
import { CutLink } from "../harness/world/cut-link.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

let world: World;
let capi: ClusterApi;
let link: CutLink;

afterEach(async () => {
  await world?.stop();
});

/** A controller, Cluster API, and the pool "lan" on network "blue" unless it is not wanted. */
async function begin({
  ipam = {},
  pool = {},
  ...options
}: ClusterApiOptions & { readonly ipam?: object; readonly pool?: object | null } = {}): Promise<void> {
  world = await World.start({ api: "memory" });
  capi = await world.startClusterApi(options);
  link = new CutLink();
  await world.startController({}, link);
  await world.importedNetwork("blue", ipam);
  if (pool !== null) await capi.pool("lan", "blue", pool);
}

/** The Bound allocations of claims, `name address`. */
async function bound(): Promise<string[]> {
  const all = await world.cluster.api.list(ALLOCATIONS_PATH);
  return all
    .filter(({ spec, status }) => spec.owner.kind === "IPAddressClaim" && status.state === "Bound")
    .map(({ spec }) => `${spec.owner.name} ${spec.address}`)
    .toSorted();
}

describe.each(IPAM_VERSIONS)("of %s", (version) => {
  test("a claim gets an IPAddress and a status as Cluster API has them, in three writes", async () => {
    await begin({ version });
    await capi.capiCluster("prod");
    const claim = await capi.claim("m0", "lan", { labels: { [CLUSTER_LABEL]: "prod" } });
    const text = await capi.fulfilled("m0");
    const address = (await capi.address("m0")) as KubeObject;
    expect(text).toMatch(/^10\.0\.0\.\d+\/24$/);
    expect(address.spec).toEqual({
      claimRef: { name: "m0" },
      poolRef: { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "lan" },
      address: text.split("/")[0],
      prefix: 24,
    });
    const [allocation] = await world.cluster.api.list(ALLOCATIONS_PATH);
    expect(address.metadata).toMatchObject({
      labels: { [CLUSTER_LABEL]: "prod" },
      annotations: { "ipam.holdfast.dev/allocation": allocation.metadata.name },
      ownerReferences: [
        {
          apiVersion: `ipam.cluster.x-k8s.io/${version}`,
          kind: "IPAddressClaim",
          name: "m0",
          uid: claim.metadata.uid,
          controller: true,
          blockOwnerDeletion: true,
        },
        {
          apiVersion: "ipam.holdfast.dev/v1alpha1",
          kind: "AddressPool",
          name: "lan",
          uid: (await capi.readPool("lan"))?.metadata.uid,
          controller: false,
          blockOwnerDeletion: true,
        },
      ],
    });
    expect(address.metadata.finalizers).toBeUndefined();
    expect(allocation.spec.owner).toEqual({
      kind: "IPAddressClaim",
      namespace: NAMESPACE,
      name: "m0",
      uid: claim.metadata.uid,
      interface: "",
      cluster: "prod",
    });
    const time = expect.any(String);
    const common = { type: "Ready", status: "True", reason: "AddressAllocated", lastTransitionTime: time };
    const forms = {
      v1alpha1: { conditions: [common] },
      v1beta1: { conditions: [common], v1beta2: { conditions: [{ ...common, message: "" }] } },
      v1beta2: { conditions: [{ ...common, message: "" }] },
    };
    expect((await capi.readClaim("m0"))?.status).toEqual({ addressRef: { name: "m0" }, ...forms[version] });
    await world.settled();
    // Two runs over everything that has changed.
    await pause(2_500);
    expect(link.writes.filter((one) => /ipaddress|ipallocation/.test(one))).toEqual([
      "POST /apis/ipam.holdfast.dev/v1alpha1/ipallocations",
      `POST /apis/ipam.cluster.x-k8s.io/${version}/namespaces/shop/ipaddresses`,
      `PATCH /apis/ipam.cluster.x-k8s.io/${version}/namespaces/shop/ipaddressclaims/m0/status`,
    ]);
    expect(await bound()).toEqual([`m0 ${text}`]);
  });
});
