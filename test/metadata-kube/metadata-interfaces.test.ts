import { afterAll, beforeAll, expect, test } from "vitest";
import { networkData } from "../../metadata/documents/network-data.ts";
import { instanceOf } from "../../metadata/tenant/instance-of.ts";
import type { KubeTenantSource } from "../../metadata/tenant/kube-tenant-source.ts";
import { identityOf, MACS, type OwnerOfNetwork, vmiOf } from "../metadata/vm-interfaces.ts";
import { Tenants } from "./tenants.ts";

const REASON = "MetadataInterfaceUnconfigured";

let tenants: Tenants;
let source: KubeTenantSource;
beforeAll(async () => {
  tenants = await Tenants.start();
  source = await tenants.source();
});
afterAll(() => tenants?.stop());

async function guestOn(owners: readonly OwnerOfNetwork[]) {
  const namespace = await tenants.namespace();
  const { spec, status } = vmiOf(owners);
  const { interfaces } = identityOf(owners);
  const guest = await tenants.vm(namespace, "web", {
    interfaces,
    vmi: { spec, status: { ...status, nodeName: "node-a" } },
  });
  return {
    namespace,
    guest,
    data: networkData(instanceOf(guest.identity, await source.viewOf(guest.identity))),
  };
}

test("a VM on the pod network and on one of ours: each interface is a link, the pod network's by DHCP with the MAC of the status", async () => {
  const { namespace, data } = await guestOn(["default", "blue"]);
  expect(data.links.map(({ id, ethernet_mac_address: mac }) => [id, mac])).toEqual([
    ["default", MACS.default],
    ["blue", MACS.blue],
  ]);
  expect(data.networks.map(({ link, type }) => [link, type])).toEqual([
    ["default", "ipv4_dhcp"],
    ["blue", "ipv4"],
    ["blue", "ipv6"],
  ]);
  const defaults = data.networks.flatMap(({ routes = [] }) => routes.filter(({ netmask }) => netmask === "0.0.0.0"));
  expect(defaults).toEqual([]);
  expect(await tenants.events(namespace)).toEqual([]);
});

test("a VM on networks of three owners: an event names the interface that its guest has to configure itself", async () => {
  const { guest, data } = await guestOn(["data", "default", "blue"]);
  expect(data.links.map(({ id }) => id)).toEqual(["data", "default", "blue"]);
  expect(data.networks.map(({ link }) => link)).toEqual(["default", "blue", "blue"]);
  expect(await tenants.event(guest, REASON)).toBe(
    "interface data (NetworkAttachmentDefinition shop/data): Holdfast allocates no address there, so the guest gets the link alone; configure it by user-data, or in the guest.",
  );
});

test("a VM that the pod network's MAC is not known of: the default route is by ours, and an event says why", async () => {
  const namespace = await tenants.namespace();
  const { spec, status } = vmiOf(["default", "blue"]);
  const interfaces = status.interfaces.filter(({ name }) => name !== "default");
  const guest = await tenants.vm(namespace, "web", {
    interfaces: identityOf(["blue"]).interfaces,
    vmi: { spec, status: { nodeName: "node-a", interfaces } },
  });
  const data = networkData(instanceOf(guest.identity, await source.viewOf(guest.identity)));
  expect(data.networks[0]?.routes?.map(({ gateway }) => gateway)).toEqual(["192.168.10.1"]);
  expect(await tenants.event(guest, REASON)).toContain("interface default: its MAC is not known");
});
