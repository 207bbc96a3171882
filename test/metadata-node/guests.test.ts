import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { run } from "../harness/daemon.ts";
import { mustRun, whyNotReal } from "../network/containers.ts";
import { MetadataNode } from "./metadata-node.ts";

const UID_1 = "11111111-1111-4111-8111-111111111111";
const UID_2 = "22222222-2222-4222-8222-222222222222";

/** Guests in namespaces, behind the real bridge plugin, as they find their metadata. */
describe.skipIf(whyNotReal() !== null)("a node that answers its guests", () => {
  let node: MetadataNode;
  beforeAll(async () => {
    node = await MetadataNode.start();
  });
  afterAll(() => node?.stop());

  test("a VM is served as soon as its ADD is answered", async () => {
    const net = node.network("asap");
    const vm = await node.vm("vm1", net, UID_1);
    const answer = await vm.ask("/latest/meta-data/local-ipv4");
    expect(answer, node.metadata.log).toEqual({ status: 200, body: vm.address });
    await node.end(vm);
  });

  test("a link-local route is enough", async () => {
    const vm = await node.vm("vm1", node.network("linklocal"), UID_1);
    await node.onlyLinkLocalRoute(vm);
    const { stdout } = await mustRun("ip", ["-n", vm.namespace, "route", "get", "169.254.169.254"]);
    expect(stdout).not.toContain("via");
    const { status, body } = await vm.ask("/openstack/latest/meta_data.json");
    expect(status, node.metadata.log).toBe(200);
    expect(JSON.parse(body)).toMatchObject({ uuid: UID_1, name: "vm1" });
    await node.end(vm);
  });

  test("each VM gets its own metadata where the addresses of networks overlap", async () => {
    const [red, blue] = [node.network("red"), node.network("blue")];
    const one = await node.vm("vm1", red, UID_1, ";IP=10.30.0.7");
    const two = await node.vm("vm2", blue, UID_2, ";IP=10.30.0.7");
    expect(one.address).toBe(two.address);
    const uuids = await Promise.all(
      Array.from({ length: 40 }, async (_, n) => {
        const { body } = await (n % 2 === 0 ? one : two).ask("/openstack/latest/meta_data.json");
        return JSON.parse(body).uuid as string;
      }),
    );
    expect(uuids.filter((_, n) => n % 2 === 0).every((uuid) => uuid === UID_1)).toBe(true);
    expect(uuids.filter((_, n) => n % 2 === 1).every((uuid) => uuid === UID_2)).toBe(true);
    await node.end(one);
    await node.end(two);
  });

  test("an address that goes to another VM is answered with that VM at once", async () => {
    // Six host addresses, five of them excluded: one is left.
    const net = node.network("reuse", {
      subnets: "10.30.1.0/29",
      excludeSubnets: "10.30.1.2/31,10.30.1.4/31,10.30.1.6/32",
      cooldownSeconds: 0,
    });
    for (let turn = 0; turn < 4; turn += 1) {
      const uid = turn % 2 === 0 ? UID_1 : UID_2;
      const name = turn % 2 === 0 ? "vm1" : "vm2";
      const vm = await node.vm(name, net, uid);
      expect(vm.address).toBe("10.30.1.1");
      const { status, body } = await vm.ask("/openstack/latest/meta_data.json");
      expect(status, body).toBe(200);
      expect(JSON.parse(body).uuid).toBe(uid);
      await node.end(vm);
      await node.daemon.delete(`/v1/claims/default/${name}.reuse`);
    }
  });

  test("a guest is served while its default gateway answers no ARP", async () => {
    // The address of a router that is down: nobody has it.
    const routed = { gateway: "10.30.0.200", routes: [{ dst: "0.0.0.0/0" }] };
    const vm = await node.vm("vm1", node.network("downrouter", routed), UID_1);
    const { stdout } = await mustRun("ip", ["-n", vm.namespace, "route", "show"]);
    expect(stdout).toContain("default via 10.30.0.200");
    const { status, body } = await vm.ask("/openstack/latest/meta_data.json");
    expect(status, node.metadata.log).toBe(200);
    expect(JSON.parse(body).uuid).toBe(UID_1);
    await node.end(vm);
  });

  test("a guest is served by a default route alone where its gateway answers ARP, whoever that is", async () => {
    const vm = await node.vm("vm1", node.network("routed"), UID_1);
    const inside = (...words: string[]) => mustRun("ip", ["-n", vm.namespace, ...words]);
    await run("ip", ["-n", vm.namespace, "route", "delete", "169.254.169.254/32"]);
    // A MAC that nobody has.
    await inside("neigh", "replace", "10.30.0.200", "lladdr", "02:00:00:00:00:99", "dev", "eth0");
    await inside("route", "replace", "default", "via", "10.30.0.200", "dev", "eth0");
    const { stdout } = await inside("route", "get", "169.254.169.254");
    expect(stdout).toContain("via 10.30.0.200");
    const { status, body } = await vm.ask("/openstack/latest/meta_data.json");
    expect(status, node.metadata.log).toBe(200);
    expect(JSON.parse(body).uuid).toBe(UID_1);
    await node.end(vm);
  });

  test("a container without a claim gets its metadata, too", async () => {
    const guest = await node.guest("plain", node.network("plain"));
    const { status, body } = await guest.ask("/latest/meta-data/instance-id");
    expect(status).toBe(200);
    expect(body).not.toBe("");
    await node.end(guest);
  });
});
