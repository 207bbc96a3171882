import { expect, test } from "vitest";
import type { World } from "../world.ts";
import { checkMachines } from "./machines/at-rest.ts";

const ALLOCATION = "blue-0a000005";

/** A world of one IPAddress whose claim is gone. `clusters`: names of those that are there. */
function worldOf({ clusters = [] as string[], state = "Bound" } = {}): World {
  const owner = { kind: "IPAddressClaim", namespace: "metal", name: "m-9", uid: "gone", cluster: "prod" };
  const stored: Record<string, object[]> = {
    "ipam.holdfast.dev/ipallocations": [
      {
        metadata: { name: ALLOCATION },
        spec: { network: "blue", address: "10.0.0.5/24", owner },
        status: { state },
      },
    ],
    "ipam.cluster.x-k8s.io/ipaddresses": [
      {
        metadata: {
          namespace: "metal",
          name: "m-9",
          annotations: { "ipam.holdfast.dev/allocation": ALLOCATION },
        },
        spec: { address: "10.0.0.5" },
      },
    ],
    "cluster.x-k8s.io/clusters": clusters.map((name) => ({ metadata: { namespace: "metal", name } })),
  };
  const etcd = {
    restores: 0,
    range: (storage: string) => (stored[storage] ?? []).map((object) => ({ object })),
    get: (storage: string) => (stored[storage] ?? [])[0] ?? null,
    listen: () => {},
  };
  return { cluster: { etcd }, controllers: [] } as unknown as World;
}

test("an IPAddress of a Cluster whose end nobody saw is expected while its address is kept", () => {
  expect(() => checkMachines(worldOf())).not.toThrow();
});

test("an IPAddress of a living Cluster, or of a released address, counts as left behind", () => {
  expect(() => checkMachines(worldOf({ clusters: ["prod"] }))).toThrow("left");
  expect(() => checkMachines(worldOf({ state: "Cooling" }))).toThrow("left");
});
