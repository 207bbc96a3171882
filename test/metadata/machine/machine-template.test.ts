import { Buffer } from "node:buffer";
import { describe, expect, test } from "vitest";
import {
  type Host,
  type MachineTemplateSpec,
  needsMachine,
  type PoolReference,
  poolReferencesOf,
  type Rendered,
  type RenderedValues,
  readMachineTemplate,
  renderMachineTemplate,
  renderMachineValues,
} from "../../../metadata/documents/machine-template.ts";
import { type GivenInputs, inputs } from "./inputs.ts";

function valuesOf(spec: MachineTemplateSpec, given?: GivenInputs): Exclude<RenderedValues, { kind: "failed" }> {
  const values = renderMachineValues(spec, inputs(given));
  if (values.kind === "failed") throw new Error(values.problem);
  return values;
}

function metaDataOf(metaData: MachineTemplateSpec["metaData"], given?: GivenInputs): Record<string, string> {
  const { providerid: _, ...rest } = valuesOf({ metaData: metaData ?? {} }, given).metaData ?? {};
  return rest;
}

function problemOf(spec: MachineTemplateSpec, given?: GivenInputs): string {
  const rendered: Rendered = renderMachineTemplate(spec, inputs(given));
  return rendered.kind === "failed" ? rendered.problem : "";
}

const POOL = { address: "10.0.0.7", prefix: 24, gateway: "10.0.0.1", dnsServers: ["10.0.0.2", "fd00::2"] };

describe("metaData", () => {
  test("every source has its text", () => {
    const values = metaDataOf(
      {
        fromHostInterfaces: [
          { key: "nic", interface: "eth1" },
          { key: "boot", fromBootMAC: true },
        ],
        ipAddresses: [{ key: "computed", subnet: "10.1.0.0/24", step: 2 }],
        ipAddressesFromPool: [{ key: "address", name: "p" }],
        prefixesFromPool: [{ key: "prefix", name: "p" }],
        gatewaysFromPool: [{ key: "gateway", name: "p" }],
        dnsServersFromPool: [{ key: "dns", name: "p" }],
        indexes: [{ key: "index", offset: 10, step: 5, prefix: "n", suffix: "x" }],
        namespaces: [{ key: "namespace" }],
        objectNames: [
          { key: "machine", object: "Machine" },
          { key: "m3m", object: "metal3machine" },
          { key: "host", object: "BareMetalHost" },
        ],
        fromLabels: [
          { key: "label", object: "machine", label: "zone" },
          { key: "no-label", object: "machine", label: "constructor" },
        ],
        fromAnnotations: [{ key: "annotation", object: "metal3machine", annotation: "a" }],
        strings: [{ key: "string", value: "yes" }],
      },
      {
        index: 3,
        machine: { labels: { zone: "z1" } },
        metal3Machine: { annotations: { a: "b" } },
        host: { bootMACAddress: "00:00:00:00:00:01", nics: [{ name: "eth1", mac: "00:00:00:00:00:02" }] },
        pools: { p: POOL },
      },
    );
    expect(values).toEqual({
      nic: "00:00:00:00:00:02",
      boot: "00:00:00:00:00:01",
      computed: "10.1.0.7",
      address: "10.0.0.7",
      prefix: "24",
      gateway: "10.0.0.1",
      dns: "10.0.0.2,fd00::2",
      index: "n25x",
      namespace: "NS",
      machine: "MACHINE",
      m3m: "M3M",
      host: "BMH",
      label: "z1",
      "no-label": "",
      annotation: "b",
      string: "yes",
    });
  });

  test("of two sources for one key the later list counts", () => {
    const values = metaDataOf(
      {
        strings: [{ key: "a", value: "string" }],
        namespaces: [{ key: "a" }, { key: "b" }],
        indexes: [{ key: "b" }],
        objectNames: [{ key: "b", object: "machine" }],
      },
      {},
    );
    expect(values).toEqual({ a: "string", b: "MACHINE" });
  });

  test.each([
    [{ step: 0, offset: 4 }, "7"],
    [{ step: 2 ** 30, offset: 0 }, String((3 * 2 ** 30) | 0)],
    [{ offset: 2 ** 31 - 1 }, String(-(2 ** 31) + 2)],
  ])("an index is counted in 32 bits, a step of 0 as one: %j", (item, expected) => {
    expect(metaDataOf({ indexes: [{ key: "i", ...item }] }, { index: 3 })).toEqual({ i: expected });
  });

  test("a key that JavaScript knows is one like others", () => {
    const metaData = { strings: [{ key: "__proto__", value: "a" }] };
    expect(renderMachineTemplate({ metaData }, inputs())).toMatchObject({
      metaData: "__proto__: a\nproviderid: NS/BMH/M3M\n",
    });
  });

  test("a document that no Secret holds is refused with the size that one holds", () => {
    const strings = [{ key: "k", value: "x".repeat(1 << 20) }];
    expect(problemOf({ metaData: { strings } })).toMatch(/^metaData has more than the 1048576 bytes .*: shorten/);
  });
});

describe("problems", () => {
  const ethernet = (macAddress: object) => ({
    networkData: { links: { ethernets: [{ type: "phy", id: "eth0", macAddress }] } },
  });
  const nic = { metaData: { fromHostInterfaces: [{ key: "k", interface: "eth1" }] } };
  const route = (gateway: object, prefix = 0) => ({
    networkData: { networks: { ipv4DHCP: [{ id: "n", link: "l", routes: [{ prefix, gateway }] }] } },
  });
  test.each<[string, MachineTemplateSpec, GivenInputs]>([
    [
      'metadata key "k": BareMetalHost NS/BMH spec.bootMACAddress is empty',
      { metaData: { fromHostInterfaces: [{ key: "k", fromBootMAC: true }] } },
      {},
    ],
    ['metadata key "k": NICs list not populated: host NS/BMH has no nics', nic, { host: { nics: null } }],
    [
      'metadata key "k": NIC name not found eth1: host NS/BMH has a, b',
      nic,
      { host: { nics: [{ name: "a" }, { name: "a" }, {}, { name: "b" }] } },
    ],
    [
      'metadata key "k": pool not found in cache: p',
      { metaData: { dnsServersFromPool: [{ key: "k", name: "p" }] } },
      {},
    ],
    [
      'metadata key "k": unknown object type "node": expected machine, metal3machine or baremetalhost',
      { metaData: { fromLabels: [{ key: "k", object: "node", label: "x" }] } },
      {},
    ],
    [
      'metadata key "k": machine is nil but referenced',
      { metaData: { objectNames: [{ key: "k", object: "machine" }] } },
      { machine: null },
    ],
    ["baremetalhost is nil but referenced", { metaData: {} }, { host: null }],
    ['networkData link "eth0": bad MAC address: 12:34', ethernet({ string: "12:34" }), {}],
    [
      'networkData link "eth0": bad MAC address: ',
      ethernet({ fromAnnotation: { object: "machine", annotation: "x" } }),
      {},
    ],
    [
      'networkData link "b": illegal params "mode", "a" into bond params blob into link id=b',
      {
        networkData: {
          links: {
            bonds: [
              {
                id: "b",
                parameters: [{ name: "mode", value: 1 }, { name: "a" }, { name: "a" }],
              },
            ],
          },
        },
      },
      {},
    ],
    ['networkData network "n": gateway: failed to fetch pool from cache: p', route({ fromPoolRef: { name: "p" } }), {}],
    [
      'networkData network "n": annotation x not found or empty on machine',
      route({ fromPoolAnnotation: { object: "machine", annotation: "x" } }),
      { machine: { annotations: { x: "" } } },
    ],
    ['networkData network "n": prefix 33: IPv4 has lengths from 0 to 32', route({}, 33), {}],
    ["dnsFromIPPool: pool not found in cache: p", { networkData: { services: { dnsFromIPPool: "p" } } }, {}],
  ])("%s", (problem, spec, given) => {
    expect(problemOf(spec, given)).toBe(problem);
  });

  test("only a host that is not inspected is worth waiting for", () => {
    const awaits = (nics: Host["nics"]) => {
      const rendered = renderMachineTemplate(nic, inputs({ host: { nics } }));
      return rendered.kind === "failed" ? rendered.awaits : "nothing failed";
    };
    expect([awaits(null), awaits([]), awaits([{ name: "eth0", mac: "" }])]).toEqual(["inspection", "inspection", null]);
  });
});

describe("networkData", () => {
  test("the parts of an empty one are lists", () => {
    expect(renderMachineTemplate({ networkData: {} }, inputs())).toEqual({
      kind: "rendered",
      metaData: null,
      networkData: "links: []\nnetworks: []\nservices: []\n",
    });
  });

  test("bonds come before Ethernet interfaces and VLANs, and a bond without links says so", () => {
    const links = {
      vlans: [{ id: "v", vlanID: 0, vlanLink: "b" }],
      ethernets: [{ id: "e", type: "vif", mtu: 9000, name: "ens1" }],
      bonds: [{ id: "b", bondMode: "802.3ad", parameters: [{ name: "miimon", value: { ms: 100 } }] }],
    };
    expect(valuesOf({ networkData: { links } }).networkData?.links).toEqual([
      {
        type: "bond",
        id: "b",
        mtu: 1500,
        bond_mode: "802.3ad",
        bond_xmit_hash_policy: "",
        bond_links: null,
        bond_miimon: { ms: 100 },
      },
      { type: "vif", id: "e", mtu: 9000, name: "ens1" },
      { type: "vlan", id: "v", mtu: 1500, vlan_id: 0, vlan_link: "b" },
    ]);
  });

  test("a network's pool is the one of its annotation, then of its reference, then by its name", () => {
    const pools = Object.fromEntries(["a", "r", "n"].map((name) => [name, { ...POOL, address: name }]));
    const all = {
      fromPoolAnnotation: { object: "machine", annotation: "pool" },
      fromPoolRef: { name: "r" },
      ipAddressFromIPPool: "n",
    };
    const { fromPoolAnnotation: _a, ...later } = all;
    const { fromPoolRef: _r, ...last } = later;
    const networks = { ipv4: [all, later, last] };
    const given = { machine: { annotations: { pool: "a" } }, pools };
    expect(valuesOf({ networkData: { networks } }, given).networkData?.networks).toMatchObject([
      { ip_address: "a" },
      { ip_address: "r" },
      { ip_address: "n" },
    ]);
  });

  test("computed addresses have the mask that is written, or their subnet's", () => {
    const networks = {
      ipv4: [
        { ipAddress: { start: "10.0.0.250", end: "10.0.1.5" }, netmask: 16 },
        { ipAddress: { subnet: "10.9.8.7/20" } },
      ],
      ipv6: [{ ipAddress: { subnet: "fd00:1::/64", step: 16 } }],
    };
    const spec = { networkData: { networks } };
    expect(valuesOf(spec, { index: 8 }).networkData?.networks).toMatchObject([
      { ip_address: "10.0.1.2", netmask: "255.255.0.0" },
      { ip_address: "10.9.8.16", netmask: "255.255.240.0" },
      { ip_address: "fd00:1::81", netmask: "ffff:ffff:ffff:ffff::" },
    ]);
    expect(problemOf(spec, { index: 12 })).toBe('networkData network "": 10.0.1.6 of index 12 is beyond end 10.0.1.5');
  });

  test.each([
    [{ start: "10.0.0.1", subnet: "10.0.1.0/24" }, "is outside subnet 10.0.1.0/24"],
    [{ subnet: "10.0.1.0/32" }, "is outside subnet 10.0.1.0/32"],
    [{ start: "255.255.255.254", step: 2 }, "leads beyond the last IPv4 address"],
    [{ start: "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" }, "leads beyond the last IPv6 address"],
    [{ start: "10.0.0.1", end: "fd00::1" }, "is beyond end fd00::1"],
    [{ start: "10.0.0.01" }, "start: "],
    [{ end: "10.0.0.1" }, "needs start or subnet"],
  ])("no address can be computed from %j", (range, problem) => {
    const ipAddresses = [{ key: "k", ...range }];
    expect(problemOf({ metaData: { ipAddresses } }, { index: 1 })).toContain(problem);
  });
});

describe("pools of a template", () => {
  const objects = inputs({ host: { annotations: { pool: "h" } } });
  const claim = (name: string): PoolReference => ({ apiGroup: "ipam.metal3.io", kind: "IPPool", name });

  test("each is named once, in the template's order, with the kind that metaData says", () => {
    const spec = {
      metaData: {
        ipAddressesFromPool: [
          { key: "a", name: "x", apiGroup: "ipam.holdfast.dev", kind: "AddressPool" },
          { key: "b", name: "y" },
        ],
        dnsServersFromPool: [{ key: "c", name: "y" }],
      },
      networkData: {
        networks: {
          ipv4: [{ fromPoolRef: { name: "x", apiGroup: "ipam.holdfast.dev", kind: "AddressPool" } }],
          ipv6SLAAC: [
            {
              routes: [
                {
                  gateway: { fromPoolAnnotation: { object: "baremetalhost", annotation: "pool" } },
                  services: { dnsFromIPPool: "d" },
                },
              ],
            },
          ],
        },
        services: { dnsFromIPPool: "s" },
      },
    };
    expect(poolReferencesOf(spec, objects)).toEqual({
      kind: "pools",
      pools: [{ apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "x" }, ...["y", "h", "d", "s"].map(claim)],
    });
  });

  test("an annotation that names none is a problem, but not when no object is at hand", () => {
    const spec = {
      networkData: {
        networks: { ipv4: [{ fromPoolAnnotation: { object: "machine", annotation: "pool" } }] },
      },
    };
    const nothing = { machine: null, metal3Machine: null, host: null };
    expect(poolReferencesOf(spec, objects)).toMatchObject({
      kind: "failed",
      problem: "annotation pool not found or empty on machine",
    });
    expect(poolReferencesOf(spec, nothing)).toEqual({ kind: "pools", pools: [] });
  });
});

describe("a template that names the machine", () => {
  const annotation = { object: "Machine", annotation: "x" };
  test.each<[string, boolean, MachineTemplateSpec]>([
    ["nothing at all", false, {}],
    ["another object", false, { metaData: { objectNames: [{ key: "k", object: "metal3machine" }] } }],
    ["its name", true, { metaData: { objectNames: [{ key: "k", object: "machine" }] } }],
    ["its label", true, { metaData: { fromLabels: [{ key: "k", object: "MACHINE", label: "x" }] } }],
    ["its annotation", true, { metaData: { fromAnnotations: [{ key: "k", ...annotation }] } }],
    [
      "a link's MAC",
      true,
      { networkData: { links: { bonds: [{ id: "b", macAddress: { fromAnnotation: annotation } }] } } },
    ],
    ["a network's pool", true, { networkData: { networks: { ipv6: [{ fromPoolAnnotation: annotation }] } } }],
    [
      "a gateway's pool",
      true,
      {
        networkData: {
          networks: { ipv6DHCP: [{ routes: [{ gateway: { fromPoolAnnotation: annotation } }] }] },
        },
      },
    ],
  ])("by %s", (_what, expected, spec) => {
    expect(needsMachine(spec)).toBe(expected);
  });
});

describe("reading a template", () => {
  test.each<[string, unknown]>([
    ["spec: expected an object, not []", []],
    ["spec.metaData.strings: expected a list, not {}", { metaData: { strings: {} } }],
    ["spec.metaData.strings[1].value: expected a string, not 5", { metaData: { strings: [{}, { value: 5 }] } }],
    [
      "spec.metaData.indexes[0].step: expected an integer from 0 to 2147483647, not -1",
      { metaData: { indexes: [{ step: -1 }] } },
    ],
    [
      "spec.metaData.fromHostInterfaces[0]: interface must be empty when fromBootMAC is true",
      { metaData: { fromHostInterfaces: [{ fromBootMAC: true, interface: "eth0" }] } },
    ],
    [
      'spec.networkData.links.bonds[0].bondMode: expected 802.3ad, which is the mode that was meant, not "802.1ad"',
      { networkData: { links: { bonds: [{ bondMode: "802.1ad" }] } } },
    ],
    [
      "spec.networkData.networks.ipv4[0]: ipAddress and a pool are both named; omit one",
      {
        networkData: { networks: { ipv4: [{ ipAddressFromIPPool: "p", ipAddress: { start: "10.0.0.1" } }] } },
      },
    ],
    [
      "spec.networkData.networks.ipv6[0]: ipAddress needs netmask, a prefix length, or a subnet",
      { networkData: { networks: { ipv6: [{ ipAddress: { start: "fd00::1" } }] } } },
    ],
  ])("%s", (problem, spec) => {
    expect(readMachineTemplate(spec)).toEqual({ problem });
  });

  test("a long value is cut in the message", () => {
    const read = readMachineTemplate({ metaData: "x".repeat(10_000) });
    expect(Buffer.byteLength("problem" in read ? read.problem : "")).toBeLessThan(200);
  });

  test("unknown fields are left out and null is absent", () => {
    const spec = {
      clusterName: "c",
      problem: "none",
      metaData: { strings: [{ key: "a", value: "b", extra: 1 }], renders: null, indexes: null },
      networkData: null,
    };
    expect(readMachineTemplate(spec)).toEqual({ metaData: { strings: [{ key: "a", value: "b" }] } });
    expect(readMachineTemplate(undefined)).toEqual({});
  });
});

test("parameters of a bond have at most 64 levels: more would not fit on the stack", () => {
  const nested = (levels: number): unknown =>
    Array.from({ length: levels }).reduce<unknown>((value) => ({ a: value }), 1);
  const read = (levels: number) =>
    readMachineTemplate({
      networkData: { links: { bonds: [{ id: "b", parameters: [{ name: "x", value: nested(levels) }] }] } },
    });
  const rendered = renderMachineTemplate(read(64) as MachineTemplateSpec, inputs());
  expect(rendered.kind).toBe("rendered");
  for (const levels of [65, 100_000])
    expect(read(levels)).toMatchObject({
      problem: expect.stringContaining("bonds[0].parameters[0].value: expected at most 64 levels"),
    });
});

test("what is no object of the machine does not count as one at hand", () => {
  const fromPoolAnnotation = { object: "machine", annotation: "pool" };
  const spec = { networkData: { networks: { ipv4: [{ fromPoolAnnotation }] } } };
  const nothing = inputs({ machine: null, metal3Machine: null, host: null });
  expect(poolReferencesOf(spec, nothing)).toEqual({ kind: "pools", pools: [] });
});
