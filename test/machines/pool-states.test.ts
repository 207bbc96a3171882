/** What claims hear of the states of pools, which change between two passes. */
import pino from "pino";
import { expect, test } from "vitest";
import { Pools, type PoolsOptions } from "../../controller/capi/pools.ts";
import { projectAddressPool } from "../../kube/views/address-pool-view.ts";
import { projectMachineAddress, projectMachineClaim } from "../../kube/views/machine-claim-view.ts";
import { DefinitionsWithPools } from "../../networks/definitions-with-pools.ts";
import { projectNad } from "../../networks/nad-view.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { NAMESPACE } from "../harness/world/network.ts";

const KEY = `${NAMESPACE}/workers`;
const poolRef = { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "workers" };

const metadata = (name: string) => ({
  ...{ namespace: NAMESPACE, name, uid: `uid-${name}`, resourceVersion: "1", generation: 1 },
  creationTimestamp: "2026-01-01T00:00:00Z",
});

/**
 * Pool "workers" of network blue, which is imported; claims of these names have IPAddresses, which nothing has
 * recorded.
 */
function begin(claims: readonly string[]) {
  const definitions = new DefinitionsWithPools(new KubeInMemory().clock);
  const define = (subnet: string) => {
    const config = { name: "blue", type: "bridge", ipam: { type: "holdfast-ipam", subnets: [subnet] } };
    definitions.upsert(projectNad({ metadata: metadata("blue"), spec: { config: JSON.stringify(config) } }));
    pools.touchDefinitions();
  };
  const cache = <T>(items: ReadonlyMap<string, T>) => ({
    ...{ items, known: true, missing: false, path: "" },
    onChange() {},
  });
  const byName = <T>(make: (name: string, index: number) => T) =>
    new Map(claims.map((name, index) => [`${NAMESPACE}/${name}`, make(name, index)]));
  const pool = projectAddressPool({ metadata: metadata("workers"), spec: { network: "blue" } });
  const importedFrom = [{ definition: `${NAMESPACE}/blue`, uid: "uid-blue", generation: 1 }];
  const conditions = [{ type: "Imported", status: "True", reason: "", message: "", lastTransitionTime: "" }];
  const network = {
    ...{ apiVersion: "ipam.holdfast.dev/v1alpha1", kind: "IPNetwork" },
    metadata: metadata("blue"),
    spec: { network: "blue" },
    status: { conditions, importedFrom },
  };
  const addresses = byName((name, index) => {
    const spec = { poolRef, claimRef: { name }, address: `10.0.0.${index + 7}`, prefix: 24 };
    return projectMachineAddress({ metadata: metadata(name), spec });
  });
  const changed: string[] = [];
  const pools = new Pools({
    api: new KubeInMemory(),
    caches: {
      pools: cache(new Map([[KEY, pool]])),
      metal3Pools: cache(new Map()),
      claims: cache(byName((name) => projectMachineClaim({ metadata: metadata(name), spec: { poolRef } }))),
      addresses: cache(addresses),
      doubt: null,
    },
    definitions,
    allocations: cache(new Map()),
    networks: cache(new Map([["blue", { object: network }]])) as PoolsOptions["networks"],
    idle: () => "nothing is written",
    onDue: () => {},
    onTouch: () => {},
    onChange: (key) => changed.push(key),
    log: pino({ level: "silent" }),
  });
  define("10.0.0.0/24");
  const pass = async () => {
    await pools.runPass(new AbortController().signal);
    return changed.splice(0);
  };
  return { pools, define, addresses, pass };
}

test("claims of a pool that was unsettled for a moment are looked at again, even if the pool is unchanged", async () => {
  const { pools, define, pass } = begin([]);
  expect(await pass()).toEqual([KEY]);
  expect(await pass(), "nothing has changed").toEqual([]);
  define("10.0.0.0/23");
  expect(pools.stateOf(KEY).kind).toBe("unsettled");
  define("10.0.0.0/24");
  expect(await pass()).toEqual([KEY]);
  expect(pools.stateOf(KEY).kind).toBe("served");
  expect(await pass()).toEqual([]);
});

test("the state of a pool does not change while IPAddresses are recorded one by one", async () => {
  const { pools, addresses, pass } = begin(["a", "b"]);
  expect(await pass()).toEqual([KEY]);
  const told = pools.stateOf(KEY);
  expect(told).toMatchObject({ kind: "waiting", reason: "NotImported" });
  addresses.delete(`${NAMESPACE}/a`);
  pools.touchMachines();
  expect(await pass(), "another is waited for").toEqual([]);
  expect(pools.stateOf(KEY)).toEqual(told);
  addresses.delete(`${NAMESPACE}/b`);
  pools.touchMachines();
  expect(await pass()).toEqual([KEY]);
  expect(pools.stateOf(KEY).kind).toBe("served");
});
