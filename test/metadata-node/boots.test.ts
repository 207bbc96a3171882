import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { run } from "../harness/daemon.ts";
import { drive, whyNoCloudInit, whyNoNewerCloudInit } from "../metadata/cloud-init/cloud-init.ts";
import { whyNotReal } from "../network/containers.ts";
import { MetadataNode } from "./metadata-node.ts";

const UID_1 = "11111111-1111-4111-8111-111111111111";
const MAC = "52:54:00:de:5b:bf";

const SCHEMA = join(import.meta.dirname, "../metadata/network-data-schema.json");

const noCloudInit = whyNoCloudInit();
const NEWER = whyNoNewerCloudInit();
const CLOUD_INITS = [
  { release: "Debian 12", newer: false, why: noCloudInit },
  { release: "Debian 13", newer: true, why: NEWER },
];

/** cloud-init's own data sources, of two releases, in guests behind the real bridge plugin. */
describe.skipIf(whyNotReal() !== null)("a guest that boots", () => {
  let node: MetadataNode;
  beforeAll(async () => {
    node = await MetadataNode.start();
  });
  afterAll(() => node?.stop());

  describe.each(CLOUD_INITS)("cloud-init of $release, in the guest", ({ newer, why }) => {
    const both = newer ? "newer" : "older";

    test.skipIf(why !== null).each(["openstack", "ec2", "aws", "nocloud"])("%s", async (source) => {
      const net = node.network(`${both}-${source}`, {
        subnets: "10.31.0.0/24",
        gateway: "10.31.0.1",
        dns: { nameservers: ["10.31.0.53"] },
      });
      const vm = await node.vm("vm1", net, UID_1, `;MAC=${MAC}`);
      await node.onlyLinkLocalRoute(vm);
      const found = await drive(source, ["http://169.254.169.254"], {
        macs: { [MAC]: "eth0" },
        namespace: vm.namespace,
        newer,
      });
      expect(found, node.metadata.log).toMatchObject({ found: true, hostname: "vm1" });
      if (source === "openstack" || source === "nocloud") expect(found.instanceId).toBe(UID_1);
      if (source === "openstack") {
        expect(found.netplan?.network.ethernets).toMatchObject({
          eth0: { addresses: [`${vm.address}/24`], match: { macaddress: MAC } },
        });
      }
      await node.end(vm);
    });

    test.skipIf(why !== null)("at the addresses that it asks by itself, over both families", async () => {
      const vm = await node.vm("vm1", node.network(`${both}-dual`), UID_1, `;MAC=${MAC}`);
      await node.untilIpv6(vm);
      const found = await drive("openstack-default", ["eth0"], {
        macs: { [MAC]: "eth0" },
        namespace: vm.namespace,
        newer,
      });
      const from = newer ? "http://[fe80::a9fe:a9fe%25eth0]" : "http://169.254.169.254";
      expect(found, node.metadata.log).toMatchObject({ found: true, instanceId: UID_1, from });
      await node.end(vm);
    });
  });

  test.skipIf(NEWER !== null)("cloud-init boots where there is no IPv4 at all", async () => {
    const net = node.network("six", { subnets: "fd00:30::/64" });
    const vm = await node.vm("vm1", net, UID_1, `;MAC=${MAC}`);
    await run("ip", ["-n", vm.namespace, "-4", "route", "flush", "table", "all"]);
    await node.untilIpv6(vm);
    const found = await drive("openstack-default", ["eth0"], {
      macs: { [MAC]: "eth0" },
      namespace: vm.namespace,
      newer: true,
    });
    const from = "http://[fe80::a9fe:a9fe%25eth0]";
    expect(found, node.metadata.log).toMatchObject({ found: true, instanceId: UID_1, hostname: "vm1", from });
    const address = await vm.ask(`${from}/openstack/latest/network_data.json`, ["-g"]);
    expect(JSON.parse(address.body).networks).toMatchObject([
      { type: "ipv6", ip_address: expect.stringContaining(vm.address) },
    ]);
    await node.end(vm);
  });

  test.skipIf(noCloudInit !== null)("network data that comes through the listener is as the schema says", async () => {
    const net = node.network("schema", {
      subnets: "10.32.0.0/24,fd00:32::/64",
      gateway: "10.32.0.1",
      routes: [{ dst: "10.99.0.0/16", gw: "10.32.0.2" }],
      dns: { nameservers: ["10.32.0.53"] },
    });
    const vm = await node.vm("vm1", net, UID_1, `;MAC=${MAC}`);
    const directory = mkdtempSync(join(tmpdir(), "holdfast-schema-"));
    try {
      const file = join(directory, "network_data.json");
      for (const version of ["latest", "2018-08-27"]) {
        const { status, body } = await vm.ask(`/openstack/${version}/network_data.json`);
        expect(status).toBe(200);
        writeFileSync(file, body);
        expect(JSON.parse(body).networks.length).toBe(2);
        expect(await drive("schema", [SCHEMA, file])).toEqual({ errors: [] });
      }
    } finally {
      rmSync(directory, { recursive: true });
    }
    await node.end(vm);
  });
});
