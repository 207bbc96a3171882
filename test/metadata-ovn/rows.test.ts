import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { pause, until, untilSaid } from "../harness/wait.ts";
import { BalancingNode } from "./balancing-node.ts";
import { whyNoOvn, Zone } from "./zone.ts";

// Rows of a real northbound database that nobody acts on: who owns them, and who puts them back.

const BLUE = "cluster_udn_blue";
const SWITCH = "cluster_udn_blue_ovn_layer2_switch";
const NAME = `holdfast_metadata_${SWITCH}`;
const VIP = "169.254.169.254:80";
const BACKEND = "10.20.0.30:8080";

let zone: Zone;
let node: BalancingNode;
describe.skipIf(whyNoOvn() !== null)("rows of a northbound database", () => {
  beforeEach(async () => {
    zone = await Zone.start("node-a", { wired: false });
    node = await BalancingNode.start("node-a", zone.central.northbound);
  });
  afterEach(async () => {
    await node?.stop();
    await zone?.stop();
  });

  const references = async (own = SWITCH) =>
    (await zone.central.nbctl("--bare", "--columns=load_balancer", "find", "logical_switch", `name=${own}`)).trim();
  const own = async () => (await zone.balancers())[0];
  const uuid = async () => (await own())?._uuid ?? "none";
  /** There, and referred to by the switch. */
  const isWhole = async () => {
    const row = await own();
    return row?._uuid !== undefined && (await references()).split(" ").includes(row._uuid);
  };

  test("a wanted network gets one row on its switch, which OVN-Kubernetes' own clean-ups do not take for theirs", async () => {
    await zone.network(BLUE, { net: 20 });
    await node.want({ [BLUE]: [BACKEND, "10.20.0.31:8080"] });
    const rows = await zone.balancers();
    expect(rows).toHaveLength(1);
    expect(rows[0]).toMatchObject({
      name: NAME,
      protocol: "tcp",
      vips: { [VIP]: "10.20.0.30:8080,10.20.0.31:8080" },
      external_ids: { "holdfast.dev/owner": "metadata", "k8s.ovn.org/network": BLUE },
      options: {
        ct_flush: "true",
        hairpin_snat_ip: "169.254.0.5 fd69::5",
        neighbor_responder: "none",
        reject: "true",
      },
    });
    expect(await references()).toBe(rows[0]?._uuid);
    expect(node.written).toContain(BLUE);
  });

  test("other backends change the row in place, and none at all leave one that refuses", async () => {
    await zone.network(BLUE, { net: 20 });
    await node.want({ [BLUE]: [BACKEND] });
    const before = await uuid();
    await node.want({ [BLUE]: ["10.20.0.31:8080"] });
    expect(await own()).toMatchObject({ _uuid: before, vips: { [VIP]: "10.20.0.31:8080" } });
    await node.want({ [BLUE]: [] });
    expect(await own()).toMatchObject({ _uuid: before, vips: { [VIP]: "" } });
    // Not known now: what is there stays.
    await node.want({ [BLUE]: null });
    expect(await own()).toMatchObject({ _uuid: before, vips: { [VIP]: "" } });
  });

  test("further ports are entries of the same row, and one that is not wanted any more is none", async () => {
    await zone.network(BLUE, { net: 20 });
    const ports = [
      { port: 5000, backends: ["10.20.0.30:9000", "10.20.0.31:9000"] },
      { port: 8443, backends: [] },
    ];
    await node.want({ [BLUE]: [BACKEND] }, ports);
    const before = await uuid();
    const entries = { "169.254.169.254:5000": "10.20.0.30:9000,10.20.0.31:9000", "169.254.169.254:8443": "" };
    expect((await own())?.vips).toEqual({ [VIP]: BACKEND, ...entries });
    // Not known now: what is there stays.
    await node.want({ [BLUE]: null });
    expect((await own())?.vips).toEqual({ [VIP]: BACKEND, ...entries });
    await node.want({ [BLUE]: [BACKEND] }, ports.slice(1));
    expect(await own()).toMatchObject({ _uuid: before });
    expect((await own())?.vips).toEqual({ [VIP]: BACKEND, "169.254.169.254:8443": "" });
  });

  test("a network that is not wanted any more has no row, and what else is on its switch stays", async () => {
    await zone.network(BLUE, { net: 20 });
    await zone.central.nbctl("lb-add", "other", "172.30.0.1:443", "10.20.0.9:443", "--", "ls-lb-add", SWITCH, "other");
    const other = await references();
    await node.want({ [BLUE]: [BACKEND] });
    expect((await references()).split(" ")).toHaveLength(2);
    await node.want({});
    expect(await zone.balancers()).toEqual([]);
    expect(await references()).toBe(other);
  });

  test("of the switches that carry a network's name only those for guests get a row", async () => {
    const layer3 = await zone.network(BLUE, { net: 20, topology: "layer3" });
    for (const name of ["join", "transit_switch"])
      await zone.central.nbctl(
        ...["ls-add", `${BLUE}_${name}`, "--", "set", "logical_switch", `${BLUE}_${name}`],
        ...[`external_ids:k8s.ovn.org/network=${BLUE}`, "external_ids:k8s.ovn.org/role=primary"],
      );
    await zone.network("shop_secondary", { net: 21 });
    const secondary = "shop_secondary_ovn_layer2_switch";
    await zone.central.nbctl("set", "logical_switch", secondary, "external_ids:k8s.ovn.org/role=secondary");
    await node.want({ [BLUE]: [BACKEND], shop_secondary: ["10.21.0.30:8080"] });
    expect((await zone.balancers()).map(({ name }) => name)).toEqual([`holdfast_metadata_${layer3}`]);
    expect(node.report?.networks).toEqual([BLUE]);
  });

  describe("changes of a row by somebody else are undone", () => {
    beforeEach(async () => {
      await zone.network(BLUE, { net: 20 });
      await node.want({ [BLUE]: [BACKEND] });
    });

    test.each([
      ["the row is deleted", () => zone.central.nbctl("lb-del", NAME)],
      ["the switch's reference is taken away", () => zone.central.nbctl("ls-lb-del", SWITCH, NAME)],
      [
        "the switch's column is set to nothing",
        () => zone.central.nbctl("clear", "logical_switch", SWITCH, "load_balancer"),
      ],
      [
        "its backends are changed",
        () => zone.central.nbctl("set", "load_balancer", NAME, 'vips:"169.254.169.254:80"="10.20.0.66:80"'),
      ],
      ["reject is taken away", () => zone.central.nbctl("remove", "load_balancer", NAME, "options", "reject")],
      [
        "it is said to be of a Service",
        () => zone.central.nbctl("set", "load_balancer", NAME, "external_ids:k8s.ovn.org/kind=Service"),
      ],
    ])("%s", async (_, act) => {
      const before = node.written.length;
      await act();
      await until(isWhole, "the row and its reference to be back");
      await until(async () => {
        const row = await own();
        return row?.vips[VIP] === BACKEND && row.options.reject === "true";
      }, "the row to be as it was");
      await until(async () => (await own())?.external_ids["k8s.ovn.org/kind"] === undefined, "the foreign mark to go");
      await until(() => node.written.length > before, "the repair to be told");
      await untilSaid(() => node.log, "had been changed by somebody else");
    });

    test("the database is recreated", async () => {
      await zone.central.endDatabase("nb", { remove: true });
      await zone.central.startDatabase("nb");
      await zone.introduce();
      await zone.network(BLUE, { net: 20 });
      await until(isWhole, "the row in the new database");
      expect(await own()).toMatchObject({ vips: { [VIP]: BACKEND } });
    });

    test("the network's switch is deleted and made again", async () => {
      await zone.removeNetwork(BLUE);
      await until(async () => (await zone.balancers()).length === 0, "no row without a switch");
      await zone.network(BLUE, { net: 20 });
      await until(isWhole, "the row on the new switch");
    });
  });

  test("a network that is removed as OVN-Kubernetes does it leaves no row, and no other network's is touched", async () => {
    await zone.network(BLUE, { net: 20 });
    await zone.network("shop_green", { net: 21 });
    await node.want({ [BLUE]: [BACKEND], shop_green: ["10.21.0.30:8080"] });
    await zone.removeNetwork(BLUE);
    await until(() => node.report?.networks.length === 1, "the network to be gone");
    const rows = await zone.balancers();
    expect(rows.map(({ name }) => name)).toEqual(["holdfast_metadata_shop_green_ovn_layer2_switch"]);
  });

  test("balancers of Services, and one that has our name without our mark, stay as they are", async () => {
    await zone.network(BLUE, { net: 20 });
    for (const [name, ids] of [
      ["Service_shop/web", ["external_ids:k8s.ovn.org/kind=Service", `external_ids:k8s.ovn.org/network=${BLUE}`]],
      [NAME, [`external_ids:k8s.ovn.org/network=${BLUE}`]],
    ] as const) {
      const add = ["lb-add", name, "172.30.0.1:80", "10.20.0.9:80", "--", "ls-lb-add", SWITCH, name];
      await zone.central.nbctl(...add, "--", "set", "load_balancer", name, ...ids);
    }
    const before = await zone.central.rows("load_balancer");
    const referred = await references();
    await node.want({ [BLUE]: [BACKEND] });
    expect(await zone.balancers()).toHaveLength(1);
    await node.want({});
    await node.endNet();
    expect(await zone.central.rows("load_balancer")).toEqual(before);
    expect(await references()).toBe(referred);
  });

  test("the row stays when metadata-net is killed, and the next one adopts it without a write", async () => {
    await zone.network(BLUE, { net: 20 });
    await node.want({ [BLUE]: [BACKEND] });
    const before = await own();
    await node.endNet("SIGKILL");
    expect(await own()).toEqual(before);
    const written = node.written.length;
    node.startNet();
    await node.want({ [BLUE]: [BACKEND] });
    expect(await own()).toEqual(before);
    expect(node.written).toHaveLength(written);
    // Whoever is wanted no more since then goes.
    await node.endNet("SIGKILL");
    node.startNet();
    await node.want({});
    expect(await zone.balancers()).toEqual([]);
  });

  test("the rows are removed when metadata-net stops", async () => {
    await zone.network(BLUE, { net: 20 });
    await node.want({ [BLUE]: [BACKEND] });
    expect(await node.endNet()).toBe(0);
    expect(await zone.balancers()).toEqual([]);
    expect(await references()).toBe("");
  });

  test("a database of another zone is not written, and is reported", async () => {
    await zone.network(BLUE, { net: 20 });
    await zone.central.nbctl("set", "NB_Global", ".", "name=global");
    await node.want({ [BLUE]: [BACKEND] });
    await until(() => node.report?.problems.length === 1, "the problem to be told");
    expect(node.report?.problems[0]).toMatchObject({ network: BLUE, kind: "failed" });
    expect(node.report?.problems[0]?.problem).toMatch(/zone "global".*interconnect mode/);
    expect(await zone.balancers()).toEqual([]);
    await zone.introduce();
    await until(isWhole, "the row once the database is this node's");
  });

  test("a switch without a router is reported as one that a balancer does not serve", async () => {
    await zone.network(BLUE, { net: 20, router: false });
    await node.want({ [BLUE]: [BACKEND] });
    await until(() => node.report?.problems.length === 1, "the problem to be told");
    expect(node.report?.problems[0]).toMatchObject({ network: BLUE, kind: "no-router" });
    await zone.router(BLUE, { net: 20 });
    await until(() => node.report?.problems.length === 0, "the problem to be over");
  });

  test("a row that somebody changes repeatedly is restored without a busy loop", async () => {
    await zone.network(BLUE, { net: 20 });
    await node.want({ [BLUE]: [BACKEND] });
    const startMs = performance.now();
    let changes = 0;
    while (changes <= 10 || performance.now() < startMs + 3_000) {
      await zone.central.nbctl("--if-exists", "lb-del", NAME);
      changes += 1;
      await pause(20);
    }
    // Its pause doubles from 5 ms to two seconds.
    const repairs = node.log.split("had been changed by somebody else").length - 1;
    expect(repairs).toBeLessThanOrEqual(10 + (performance.now() - startMs) / 2_000);
    await until(isWhole, "the row in the end");
  });
});
