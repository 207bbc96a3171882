import { describe, expect, test } from "vitest";
import type { IdentityInterface, IdentityView } from "../../identity/wire.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { firstIPv4 } from "../../metadata/documents/instance.ts";
import { networkData } from "../../metadata/documents/network-data.ts";
import { hostnameOfObject, instanceOf, projectOf, uuidOf, validHostname } from "../../metadata/tenant/instance-of.ts";
import type { TenantLink } from "../../metadata/tenant/tenant-source.ts";
import { NOTHING } from "./vm-interfaces.ts";

const FIRMWARE = "5d1a8b1e-7c52-4b7e-9a1f-3f2f1d6b0c11";
const VM = "11111111-1111-4111-8111-111111111111";
const VMI = "22222222-2222-4222-8222-222222222222";
const CLAIM = "33333333-3333-4333-8333-333333333333";
const POD = "44444444-4444-4444-8444-444444444444";

function one(given: Partial<IdentityInterface> = {}): IdentityInterface {
  return {
    network: "blue",
    interface: "net1",
    owner: { kind: "claim", uid: CLAIM, interface: "", namespace: "shop", name: "vm1.blue" },
    claim: "shop/vm1.blue",
    addresses: [{ address: "10.0.0.5/24" }],
    mac: "52:54:00:00:00:01",
    mtu: null,
    routes: [],
    dns: {},
    metadata: null,
    source: "holdfast",
    ...given,
  };
}

function view(given: Partial<IdentityView> = {}): IdentityView {
  return {
    state: "running",
    vm: { namespace: "shop", name: "vm1", uid: VM, vmiUid: VMI, firmwareUuid: FIRMWARE },
    pods: [
      {
        namespace: "shop",
        name: "launcher",
        uid: POD,
        node: "a",
        containerID: "0123456789abcdef",
        since: "2026-01-01T00:00:00Z",
      },
    ],
    interfaces: [one()],
    ...given,
  };
}

const vm = (given: Partial<NonNullable<IdentityView["vm"]>>) => ({
  namespace: "shop",
  name: "vm1",
  uid: VM,
  vmiUid: VMI,
  firmwareUuid: FIRMWARE,
  ...given,
});
const pods = (uid: string | null) => view().pods.map((pod) => ({ ...pod, uid, namespace: null, name: null }));
const container = (id: string, network = "blue") => ({
  vm: null,
  pods: pods(null).map((pod) => ({ ...pod, containerID: id })),
  interfaces: [one({ network, owner: { kind: "container", uid: id, interface: "eth0", namespace: "", name: "" } })],
});

describe("the instance ID", () => {
  test.each([
    [
      "what Kubernetes says of the firmware comes first",
      view(),
      "AAAAAAAA-0000-4000-8000-000000000000",
      "aaaaaaaa-0000-4000-8000-000000000000",
    ],
    ["then what the daemon knows of it", view(), null, FIRMWARE],
    ["a firmware UUID that is none does not count", view(), "to be filled by OEM", FIRMWARE],
    ["neither does the daemon's", view({ vm: vm({ firmwareUuid: "0" }) }), "", VM],
    ["the VM before its running instance: it outlives a restart", view({ vm: vm({ firmwareUuid: null }) }), null, VM],
    ["an instance without VM", view({ vm: vm({ firmwareUuid: null, uid: "" }) }), null, VMI],
    ["a claim without VM", view({ vm: null }), null, CLAIM],
    ["a pod", view({ vm: null, interfaces: [] }), null, POD],
    ["upper case", view({ vm: vm({ firmwareUuid: FIRMWARE.toUpperCase() }) }), null, FIRMWARE],
  ])("%s", (_, identity, firmware, uuid) => {
    expect(uuidOf(identity, firmware)).toBe(uuid);
  });

  test("a container ID, or a UID that is no UUID, gives a UUID that is stable and unique", () => {
    const odd = (uid: string) => uuidOf(view({ vm: vm({ firmwareUuid: null, uid }) }), null);
    const bare = (id: string, network?: string) => uuidOf(view(container(id, network)), null);
    const all = [odd("vm-1"), odd("vm-2"), bare("c1"), bare("c2"), bare("c1", "red"), bare("vm-1")];
    expect(new Set(all).size).toBe(all.length);
    for (const uuid of all)
      expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(odd("vm-1")).toBe(all[0]);
    expect(bare("c1")).toBe(all[2]);
  });

  test("is the same from each of a VM's networks", () => {
    const [blue, red] = [one(), one({ network: "red", interface: "net2" })];
    const asked = [view({ vm: null, interfaces: [blue, red] }), view({ vm: null, interfaces: [blue, red] })];
    expect(new Set(asked.map((identity) => uuidOf(identity, null))).size).toBe(1);
  });
});

describe("names", () => {
  test.each([
    ["Web_Server 1", "web-server-1"],
    ["vm1.example.NET.", "vm1.example.net"],
    ["-a-", "a"],
    ["..", null],
    ["", null],
    ["ä", null],
    [`${"x".repeat(70)}.y`, `${"x".repeat(63)}.y`],
    [`${"x".repeat(62)}-z`, `${"x".repeat(62)}`],
    [Array(10).fill("y".repeat(60)).join("."), Array(4).fill("y".repeat(60)).join(".")],
  ])("%s becomes %s", (text, hostname) => expect(validHostname(text)).toBe(hostname));

  test("an object's name is a host name up to its first dot", () => {
    expect([hostnameOfObject("vm1.web"), hostnameOfObject("."), hostnameOfObject("A_1")]).toEqual(["vm1", null, "a-1"]);
  });

  test.each([
    ["of the VM", view(), NOTHING, { name: "vm1", namespace: "shop", hostname: "vm1", projectId: "shop" }],
    [
      "of the VM, with what its owner and the cluster say",
      view(),
      { ...NOTHING, hostname: "db.example.net", projectId: "uid-of-shop" },
      { name: "vm1", hostname: "db.example.net", projectId: "uid-of-shop" },
    ],
    ["of a pod", view({ vm: null }), NOTHING, { name: "launcher", namespace: "shop" }],
    [
      "of a claim outside Kubernetes",
      view({ vm: null, pods: pods(null) }),
      NOTHING,
      { name: "vm1.blue", hostname: "vm1", namespace: "default" },
    ],
    [
      "of a container",
      view(container("0123456789abcdef")),
      NOTHING,
      { name: "0123456789ab", hostname: "0123456789ab", namespace: "default", projectId: "default" },
    ],
    ["a host name of which nothing is left", view({ vm: vm({ name: "..." }) }), NOTHING, { hostname: "vm" }],
  ])("%s", (_, identity, tenant, expected) => {
    expect(instanceOf(identity, tenant)).toMatchObject(expected);
    expect(projectOf(identity, tenant).projectId).toBe(instanceOf(identity, tenant).projectId);
  });
});

describe("interfaces", () => {
  const link = (given: Partial<TenantLink>): TenantLink => ({
    interface: null,
    network: null,
    linkId: "x",
    nad: null,
    mac: null,
    primary: false,
    ...given,
  });
  const networks = (interfaces: readonly IdentityInterface[], links: readonly TenantLink[] = []) =>
    instanceOf(view({ interfaces }), { ...NOTHING, links }).networks;
  const red = one({
    network: "red",
    interface: "net2",
    mac: "52:54:00:00:00:02",
    addresses: [{ address: "10.1.0.5/24", gateway: "10.1.0.1" }],
  });

  test("are in the VM's order with its names, and its MACs win", () => {
    const links = [
      link({ interface: "net2", linkId: "data", mac: "02:00:00:00:00:02" }),
      link({ network: "blue", linkId: "front", mac: null }),
    ];
    expect(networks([one(), red], links).map(({ linkId, mac, network }) => [linkId, mac, network])).toEqual([
      ["data", "02:00:00:00:00:02", "red"],
      ["front", "52:54:00:00:00:01", "blue"],
    ]);
  });

  test("are not matched where two of one network are alike", () => {
    const twins = [one(), one({ interface: "net2", mac: null })];
    const links = [link({ network: "blue", linkId: "a", mac: "02:00:00:00:00:0a" })];
    expect(networks(twins, links).map(({ linkId, mac }) => [linkId, mac])).toEqual([
      ["net1", "52:54:00:00:00:01"],
      ["net2", null],
    ]);
  });

  test("with the same ID stay separate links", () => {
    const links = [link({ interface: "net1", linkId: "a" }), link({ interface: "net2", linkId: "a" })];
    expect(networks([one(), red], links).map(({ linkId }) => linkId)).toEqual(["a", "a-2"]);
  });

  test.each([
    ["the VM's choice", [one(), red], [link({ interface: "net1", primary: true })], "blue"],
    ["else the first with a gateway", [one(), red], [], "red"],
    ["else the first", [one(), one({ network: "green" })], [], "blue"],
    [
      "one of two choices",
      [one(), red],
      [link({ interface: "net2", primary: true }), link({ interface: "net1", primary: true })],
      "red",
    ],
  ])("have exactly one primary: %s", (_, interfaces, links, network) => {
    expect(
      networks(interfaces, links)
        .filter(({ primary }) => primary)
        .map((found) => found.network),
    ).toEqual([network]);
  });

  test("are matched by their MAC where their names in the pod are not known", () => {
    const twins = [one(), one({ interface: "net2", mac: "52:54:00:00:00:02" })];
    const links = [link({ linkId: "a", mac: "52-54-00-00-00-02" }), link({ linkId: "b", mac: "52:54:00:00:00:01" })];
    expect(networks(twins, links).map(({ linkId, mac }) => [linkId, mac])).toEqual([
      ["a", "52-54-00-00-00-02"],
      ["b", "52:54:00:00:00:01"],
    ]);
  });

  test("lose an invalid address and keep the others", () => {
    const odd = one({
      addresses: [{ address: "rubbish" }, { address: "10.0.0.5/24", gateway: "?" }, { address: "fd00::5/64" }],
    });
    const [found] = networks([odd]);
    expect(found?.addresses.map(({ address }) => formatAddress(address.address))).toEqual(["fd00::5"]);
    expect(firstIPv4(instanceOf(view({ interfaces: [odd, red] }), NOTHING))).toMatchObject({ family: 4 });
  });

  test("without a MAC are not described to the guest, and the others are", () => {
    const of = instanceOf(view({ interfaces: [one({ mac: null }), red] }), NOTHING);
    expect(networkData(of).links.map(({ id }) => id)).toEqual(["net2"]);
  });
});
