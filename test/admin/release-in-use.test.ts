import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { ClusterAdmin } from "../../admin/cluster/cluster-admin.ts";
import { answerInProcess } from "../../admin/in-process.ts";
import { newAllocation } from "../../allocations/allocation-object.ts";
import { preallocationUid } from "../../ipam/owner.ts";
import { RefusalError } from "../../ipam/refusals.ts";
import { parseAddress } from "../../ipam/space/address.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ALLOCATIONS_PATH, type AllocationOwner, CLAIMS_PATH, namespacedPath, PODS_PATH } from "../../kube/objects.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { collectionOf } from "../harness/kube-manifests.ts";
import { mirrorOf } from "../harness/kube-pods.ts";
import { capiDefinitions, machineDefinitions } from "../harness/machines/definitions.ts";
import { clusterStore } from "../store/cluster-store.ts";

// An imported address has no attachment: only its pod tells whether it is in use.

const ADDRESS = "10.0.0.5";
const directory = mkdtempSync(join(tmpdir(), "holdfast-release-"));
let api: KubeInMemory;

beforeEach(() => {
  api = new KubeInMemory();
  const owner = { kind: "Pod", namespace: "shop", name: "web", uid: "p1", interface: "net1" } as const;
  const one = parseInterfaceAddress(`${ADDRESS}/24`);
  api.put(ALLOCATIONS_PATH, newAllocation("blue", one, { owner, attachment: null }, "2026-01-01T00:00:00Z"));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function pod(uid: string, status: object, more: object = {}): void {
  api.put(namespacedPath(PODS_PATH, "shop"), {
    metadata: { name: "web", namespace: "shop", uid, ...more },
    spec: { nodeName: "n1" },
    status,
  });
}

function state(): string {
  return [...api.objects].find(([path]) => path.startsWith(ALLOCATIONS_PATH))?.[1].status.state;
}

/** `released`, or the code and message of the refusal. */
type Release = (force: boolean, dryRun: boolean) => Promise<string>;

const byDaemon: Release = async (force, dryRun) => {
  const store = clusterStore({ directory, api, context: { node: "n1" } });
  try {
    const outcome = await store.release({ network: "blue", address: parseAddress(ADDRESS), force, dryRun });
    return outcome.kind === "released" ? "released" : `${outcome.refusal.code}: ${outcome.refusal.message}`;
  } catch (error) {
    if (!(error instanceof RefusalError)) throw error;
    return `${error.refusal.code}: ${error.refusal.message}`;
  }
};

const byCommandLine: Release = async (force, dryRun) => {
  const body = { network: "blue", address: ADDRESS, force, dryRun };
  try {
    const admin = new ClusterAdmin({ api, silenceMs: 0 });
    await answerInProcess(admin, { method: "POST", path: "/v1/release", query: {}, body });
    return "released";
  } catch (error) {
    const { refusal } = error as { refusal: { code: string; message: string } };
    return `${refusal.code}: ${refusal.message}`;
  }
};

describe.each([
  ["a daemon", byDaemon],
  ["the command line at a cluster", byCommandLine],
])("release by %s of an address without attachment", (_, asked) => {
  /** A dry run says the same, and changes nothing. */
  const release = async (force: boolean) => {
    const writes = api.writes.length;
    const rehearsed = await asked(force, true);
    expect(api.writes).toHaveLength(writes);
    expect(await asked(force, false)).toBe(rehearsed);
    return rehearsed;
  };
  const IN_USE = "IN_USE: 10.0.0.5 is in use by pod shop/web (net1)";

  test("is refused while its pod lives, and done with force", async () => {
    pod("p1", { phase: "Running" });
    expect(await release(false)).toBe(IN_USE);
    expect(state()).toBe("Bound");
    expect(await release(true)).toBe("released");
    expect(state()).toBe("Cooling");
  });

  test("is refused while a container of a failed pod runs", async () => {
    pod("p1", { phase: "Failed", containerStatuses: [{ state: { running: {} } }] });
    expect(await release(false)).toBe(IN_USE);
  });

  test("is refused for a static pod, which the runtime knows by another UID", async () => {
    pod("mirror", { phase: "Running" }, mirrorOf("p1", "n1"));
    expect(await release(false)).toBe(IN_USE);
  });

  test("is refused for a claim's address while the definition of claims is missing, with force too", async () => {
    const owner = { kind: "IPAMClaim", namespace: "shop", name: "vm1", uid: "c1", interface: "" } as const;
    const one = parseInterfaceAddress(`${ADDRESS}/24`);
    api.put(ALLOCATIONS_PATH, newAllocation("blue", one, { owner, attachment: null }, "2026-01-01T00:00:00Z"));
    api.missing.add(namespacedPath(CLAIMS_PATH, "shop"));
    expect(await release(true)).toBe("IN_USE: 10.0.0.5 is in use by claim shop/vm1");
    expect(state()).toBe("Bound");
    api.missing.clear();
    expect(await release(false)).toBe("released");
  });

  describe("of a machine", () => {
    const MACHINE: AllocationOwner = {
      kind: "IPAddressClaim",
      namespace: "shop",
      name: "m0",
      uid: "c1",
      interface: "",
    };
    const HELD = "IN_USE: 10.0.0.5 is in use by machine claim shop/m0";
    const CLAIMS_OF_MACHINES = "/apis/ipam.cluster.x-k8s.io/v1beta1/namespaces/shop/ipaddressclaims";
    const ADDRESSES = CLAIMS_OF_MACHINES.replace("claims", "es");
    const poolRef = { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "blue" };

    beforeEach(() => {
      for (const one of capiDefinitions("v1beta1")) api.server.put(collectionOf(one), one);
      hold(MACHINE);
      api.put(ADDRESSES, {
        metadata: { name: "m0", namespace: "shop" },
        spec: { claimRef: { name: "m0" }, poolRef, address: ADDRESS, prefix: 24 },
      });
    });

    const hold = (owner: AllocationOwner) =>
      api.put(
        ALLOCATIONS_PATH,
        newAllocation(
          "blue",
          parseInterfaceAddress(`${ADDRESS}/24`),
          { owner, attachment: null },
          "2026-01-01T00:00:00Z",
        ),
      );
    const claim = (uid: string) =>
      api.put(CLAIMS_OF_MACHINES, { metadata: { name: "m0", namespace: "shop", uid }, spec: { poolRef } });
    const told = () => api.at(`${ADDRESSES}/m0`)?.spec.address;

    test.each(["c1", "c2"])("is refused while a claim of its name exists, with force too: %s", async (uid) => {
      claim(uid);
      expect(await release(true)).toBe(HELD);
      expect([state(), told()]).toEqual(["Bound", ADDRESS]);
    });

    test("is refused while nothing serves its claims, with force too", async () => {
      api.missing.add("/apis/ipam.cluster.x-k8s.io/");
      expect(await release(true)).toBe(HELD);
      expect(state()).toBe("Bound");
    });

    test("is refused, with what to do, by one who may not read its claim", async () => {
      const send = api.send.bind(api);
      api.send = async (request) =>
        request.path.includes("/ipaddressclaims/")
          ? { status: 403, body: { message: "ipaddressclaims is forbidden" }, serverMs: null }
          : send(request);
      expect(await release(true)).toMatch(/^API_REFUSED: .* machine claim shop\/m0, .*--kubeconfig.*forbidden/);
      expect([state(), told()]).toEqual(["Bound", ADDRESS]);
    });

    test("is done when its claim is gone, and takes its IPAddress along", async () => {
      expect(await release(false)).toBe("released");
      expect([state(), told()]).toEqual(["Cooling", undefined]);
    });

    test("is refused while a pool may keep it for a claim to come, and done with force", async () => {
      hold({ ...MACHINE, uid: preallocationUid("p1") });
      expect(await release(false)).toBe(HELD);
      expect(await release(true)).toBe("released");
      expect([state(), told()]).toEqual(["Cooling", ADDRESS]);
    });

    test("is refused while its data exists, where it has no claim", async () => {
      for (const one of machineDefinitions("metal3-data")) api.server.put(collectionOf(one), one);
      const datas = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/shop/metal3datas";
      hold({ ...MACHINE, kind: "Metal3Data", interface: "blue" });
      api.put(datas, { metadata: { name: "m0", namespace: "shop", uid: "c1" } });
      expect(await release(true)).toBe("IN_USE: 10.0.0.5 is in use by machine data shop/m0 (blue)");
      api.remove(`${datas}/m0`);
      expect(await release(false)).toBe("released");
    });
  });

  test.each([
    ["has ended", () => pod("p1", { phase: "Succeeded" })],
    ["is another one by its name", () => pod("p2", { phase: "Running" })],
    ["is gone", () => {}],
  ])("is done when its pod %s", async (_reason, prepare) => {
    prepare();
    expect(await release(false)).toBe("released");
    expect(state()).toBe("Cooling");
  });
});
