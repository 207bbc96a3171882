/** Own mode in a whole controller, with the rights that deploy/machines brings and no others. */
import { afterEach, describe, expect, test } from "vitest";
import type { Controller } from "../../../controller/controller.ts";
import { ALLOCATIONS_PATH } from "../../../kube/objects.ts";
import { machineDefinitions } from "../../harness/machines/definitions.ts";
import { World } from "../../harness/world/world.ts";
import { DataObjects, forbiddenOf } from "./data-objects.ts";

const TEMPLATE = {
  metaData: {
    objectNames: [{ key: "host", object: "baremetalhost" }],
    indexes: [{ key: "number", offset: 1 }],
    ipAddressesFromPool: [{ key: "address", name: "lan" }],
    dnsServersFromPool: [{ key: "dns", name: "lan" }],
  },
  networkData: {
    links: { ethernets: [{ id: "eth0", type: "phy", macAddress: { fromHostInterface: "eth0" } }] },
    networks: {
      ipv4: [{ id: "lan", link: "eth0", ipAddressFromIPPool: "lan" }],
    },
  },
};

let world: World;
let objects: DataObjects;
let controller: Controller;
afterEach(() => world?.stop());

async function begin({ capi, rights }: { capi: boolean; rights?: (name: string) => boolean }): Promise<void> {
  world = await World.start({ api: "memory" });
  objects = new DataObjects(world.cluster);
  await objects.install(rights === undefined ? {} : { rights });
  if (capi) await world.startClusterApi();
  controller = await world.startController({ machineData: "own" });
  const dns = { nameservers: ["10.0.0.53"] };
  await world.importedNetwork("blue", { dns });
  await objects.pool("lan", "blue");
}

const held = async (state: string) =>
  (await world.cluster.api.list(ALLOCATIONS_PATH))
    .filter(({ status }) => status?.state === state)
    .map(({ spec }) => `${spec.owner.kind} ${spec.owner.name} ${spec.address.split("/")[0]}`)
    .toSorted();

// Metal3's default of a pool in metaData is its own IPPool: where those are not served it means the AddressPool.
describe.each([
  ["with Cluster API's claims", true],
  ["without Cluster API", false],
])("three machines of a template, %s", (_, capi) => {
  test("get addresses, Secrets and hosts, and give everything back", async () => {
    await begin({ capi });
    await objects.template("t", TEMPLATE);
    const names = ["a", "b", "c"];
    for (const name of names) await objects.machine(name);
    for (const name of names) await objects.untilReady(name);
    const datas = await objects.all("datas");
    expect(datas.map(({ metadata }) => metadata.name).sort()).toEqual(["t-0", "t-1", "t-2"]);
    const bound = await held("Bound");
    const kind = capi ? "IPAddressClaim" : "Metal3Data";
    for (const { metadata, spec } of datas) {
      const machine = spec.claim.name;
      const owner = capi ? `${metadata.name}-lan` : metadata.name;
      const address = bound.find((one) => one.startsWith(`${kind} ${owner} `))?.split(" ")[2];
      expect(address).toMatch(/^10\./);
      expect(await objects.secret(`${machine}-metadata`, "metaData")).toBe(
        `address: ${address}\ndns: 10.0.0.53\nhost: ${machine}\nnumber: "${spec.index + 1}"\nproviderid: shop/${machine}/${machine}\n`,
      );
      expect(await objects.secret(`${machine}-networkdata`, "networkData")).toContain(`ip_address: ${address}\n`);
      expect((await objects.read("hosts", machine))?.spec).toMatchObject({
        metaData: { name: `${machine}-metadata` },
        networkData: { name: `${machine}-networkdata` },
      });
    }
    expect(bound).toHaveLength(3);
    for (const name of names) await objects.delete("machines", name);
    await objects.untilGone();
    await world.until(async () => (await held("Bound")).length === 0, "the addresses to cool down");
    expect((await held("Cooling")).map((one) => one.split(" ")[2])).toEqual(bound.map((one) => one.split(" ")[2]));
    await world.until(
      async () =>
        (await objects.all("hosts")).every(({ spec }) => spec.metaData === undefined && spec.networkData === undefined),
      "the hosts to forget the Secrets",
    );
    expect(await forbiddenOf(controller, world.time)).toBe(0);
    // Indexes are given again, and the addresses with them.
    await objects.machine("d", { host: false });
    await objects.host("d");
    await objects.untilReady("d");
    expect((await objects.read("datas", "t-0"))?.spec.claim.name).toBe("d");
    const [again] = await held("Bound");
    expect(bound).toContain(again);
  });
});

test("a machine waits for a host that is inspected late", async () => {
  await begin({ capi: true });
  await objects.template("t", TEMPLATE);
  await objects.machine("a", { host: false });
  await objects.host("a", []);
  await world.until(async () => {
    const conditions = (await objects.read("datas", "t-0"))?.status?.conditions ?? [];
    return conditions.some(
      ({ reason, message }: { reason: string; message: string }) =>
        reason === "WaitingForHost" && message.includes("NICs"),
    );
  }, "the data object to wait for the inspection");
  await objects.inspect("a", [{ name: "eth0", mac: "52:54:00:00:00:07" }]);
  await objects.untilReady("a");
  expect(await objects.secret("a-networkdata", "networkData")).toContain("52:54:00:00:00:07");
});

test("without the right to create Secrets the data object names the missing binding, and is completed once it exists", async () => {
  await begin({ capi: true, rights: (name) => name === "holdfast-machine-data" });
  await objects.template("t", TEMPLATE);
  await objects.machine("a");
  await world.until(
    async () =>
      String((await objects.read("datas", "t-0"))?.status?.errorMessage).includes(
        "bind ClusterRole holdfast-machine-data-secrets",
      ),
    "the data object to say what is missing",
  );
  const data = await objects.read("datas", "t-0");
  await world.untilEvent(data as never, "SecretsForbidden");
  await objects.install();
  await objects.untilReady("a");
});

test("definitions of CAPM3 stop own mode, and nothing else of the controller", async () => {
  await begin({ capi: true });
  await objects.template("t", TEMPLATE);
  await objects.machine("a");
  await objects.untilReady("a");
  await world.cluster.apply(machineDefinitions("metal3-data"));
  await world.advance(2_500);
  const writes = () => world.cluster.writes("metal3dataclaims");
  const before = await writes();
  await objects.machine("b");
  const capi = await world.startClusterApi();
  await capi.claim("m0", "lan");
  await capi.fulfilled("m0");
  await world.advance(2_500);
  expect(await writes()).toEqual(before);
  expect(await objects.read("claims", "b")).toBeNull();
  const ask = (path: string) => world.time.run(fetch(`http://127.0.0.1:${controller.port}${path}`));
  const text = await (await ask("/metrics")).text();
  expect(text).toContain("holdfast_controller_machine_data_refused 1");
  expect((await ask("/readyz")).status).toBe(200);
});

test("machine data is not touched unless the option is on", async () => {
  world = await World.start({ api: "memory", controller: {} });
  objects = new DataObjects(world.cluster);
  await objects.install();
  await objects.template("t", TEMPLATE);
  await objects.machine("a");
  await world.advance(2_000);
  expect(await objects.all("claims")).toEqual([]);
  expect(await world.cluster.reads("metal3machines")).toBe(0);
});
