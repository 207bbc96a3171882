/** Machine data on a real API server, with the shipped rights and the admission that guards owner references. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Controller } from "../../controller/controller.ts";
import { until } from "../harness/wait.ts";
import { World } from "../harness/world/world.ts";
import { DataObjects, forbiddenOf } from "../machines/data/data-objects.ts";

const MACHINES = 30;
const TEMPLATE = {
  metaData: {
    indexes: [{ key: "number" }],
    ipAddressesFromPool: [{ key: "address", name: "lan" }],
  },
  networkData: {
    links: { ethernets: [{ id: "eth0", type: "phy", macAddress: { fromHostInterface: "eth0" } }] },
  },
};

let world: World;
let objects: DataObjects;
let controller: Controller;

beforeAll(async () => {
  world = await World.start({
    api: "server",
    cluster: { apiServerArgs: ["--enable-admission-plugins=OwnerReferencesPermissionEnforcement"] },
  });
  objects = new DataObjects(world.cluster);
  await objects.install();
  await world.startClusterApi();
  controller = await world.startController({ machineData: "own" });
  await world.importedNetwork("blue", { subnets: "10.1.0.0/22" });
  await objects.pool("lan", "blue");
});
afterAll(() => world?.stop());

test(`${MACHINES} machines get indexes, addresses, Secrets and hosts, and the garbage collector takes everything back`, async () => {
  await objects.template("t", TEMPLATE);
  const names = Array.from({ length: MACHINES }, (_, i) => `m${i}`);
  for (const name of names) await objects.machine(name);
  await objects.untilAllReady(MACHINES);
  const datas = await objects.all("datas");
  expect(datas.map(({ spec }) => spec.index).toSorted((a, b) => a - b)).toEqual(names.map((_, i) => i));
  const texts = await Promise.all(names.map((name) => objects.secret(`${name}-metadata`, "metaData")));
  expect(new Set(texts.map((text) => /^address: (.*)$/m.exec(text ?? "")?.[1])).size).toBe(MACHINES);
  await until(
    async () => (await objects.read("templates", "t"))?.status?.indexes?.length === MACHINES,
    "the template to show its indexes",
  );
  expect((await objects.read("hosts", "m0"))?.spec).toMatchObject({
    bootMACAddress: "52:54:00:00:00:ff",
    metaData: { name: "m0-metadata", namespace: "shop" },
    networkData: { name: "m0-networkdata", namespace: "shop" },
  });
  for (const name of names) await objects.delete("machines", name);
  await objects.untilGone();
  await until(async () => (await world.bound({ name: "blue" })).length === 0, "the addresses to cool down");
  await until(
    async () => (await objects.all("hosts")).every(({ spec }) => spec.metaData === undefined),
    "the hosts to forget the Secrets",
  );
  expect(await forbiddenOf(controller, world.time)).toBe(0);
});
