import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import type { NetworkDocument, PoolResult } from "../../metadata/documents/machine-template.ts";
import { templateNetworkConfig } from "../../metadata/documents/network-config.ts";
import { yamlText } from "../../metadata/documents/nocloud.ts";
import {
  poolResultOf,
  renderVmTemplate,
  type TemplatedVm,
  VM_DOCUMENT_BYTES_MAX,
} from "../../metadata/documents/vm-template.ts";
import { drive, readNetworkData, whyNoCloudInit } from "./cloud-init/cloud-init.ts";
import { address, BARE, get, instance, MAC, network } from "./instances.ts";

const why = whyNoCloudInit();
if (why !== null) console.warn(why);

const BLUE = network({
  addresses: [address("192.168.10.5/24", "192.168.10.1"), address("fd10::5/64")],
  dns: { nameservers: ["192.168.10.53"] },
  primary: true,
});
const VM_WITH_TWO: TemplatedVm = {
  namespace: "shop",
  name: "web",
  labels: { tier: "front" },
  annotations: { rack: "r1" },
  nics: [
    { name: "default", mac: "02:00:00:00:00:09" },
    { name: "blue", mac: MAC },
  ],
  networks: [BLUE],
};
const POOLS = new Map<string, PoolResult>([["blue", poolResultOf(BLUE) as PoolResult]]);

const NETWORK_DATA = {
  links: {
    ethernets: [{ id: "eth", type: "phy", name: "front0", mtu: 1450, macAddress: { fromHostInterface: "blue" } }],
  },
  networks: {
    ipv4: [
      {
        id: "v4",
        link: "eth",
        fromPoolRef: { name: "blue" },
        routes: [{ network: "0.0.0.0", prefix: 0, gateway: { fromPoolRef: { name: "blue" } } }],
      },
    ],
    ipv6: [{ id: "v6", link: "eth", fromPoolRef: { name: "blue" } }],
  },
  services: { dnsFromIPPool: "blue" },
};

const render = (spec: object, { vm = VM_WITH_TWO, index = 0, pools = POOLS } = {}) =>
  renderVmTemplate(spec, { index, vm, pools });
function documentOf(networkData: object): NetworkDocument {
  const rendered = render({ networkData });
  if ("problem" in rendered || rendered.networkDocument === null) throw new Error(JSON.stringify(rendered));
  return rendered.networkDocument;
}

describe("a template of a VM", () => {
  test("the VM is machine, Metal3Machine and host; its interfaces are the host's", () => {
    const of = (object: string) => [{ key: `name-${object}`, object }];
    const metaData = {
      objectNames: [...of("machine"), ...of("metal3machine"), ...of("baremetalhost")],
      indexes: [{ key: "number", prefix: "n-", offset: 10 }],
      namespaces: [{ key: "namespace" }],
      fromLabels: [{ key: "tier", object: "machine", label: "tier" }],
      fromAnnotations: [{ key: "rack", object: "baremetalhost", annotation: "rack" }],
      fromHostInterfaces: [
        { key: "pod-mac", interface: "default" },
        { key: "boot-mac", fromBootMAC: true },
      ],
      ipAddressesFromPool: [{ key: "address", name: "blue" }],
      prefixesFromPool: [{ key: "prefix", name: "blue" }],
      gatewaysFromPool: [{ key: "gateway", name: "blue" }],
      dnsServersFromPool: [{ key: "dns", name: "blue" }],
    };
    expect(render({ metaData }, { index: 3 })).toEqual({
      meta: {
        "name-machine": "web",
        "name-metal3machine": "web",
        "name-baremetalhost": "web",
        number: "n-13",
        namespace: "shop",
        tier: "front",
        rack: "r1",
        "pod-mac": "02:00:00:00:00:09",
        "boot-mac": MAC,
        address: "192.168.10.5",
        prefix: "24",
        gateway: "192.168.10.1",
        dns: "192.168.10.53",
        providerid: "shop/web/web",
      },
      networkDocument: null,
    });
  });

  test("each network has the VM's address of its own family from the one pool", () => {
    expect(documentOf(NETWORK_DATA)).toEqual({
      links: [{ type: "phy", id: "eth", name: "front0", mtu: 1450, ethernet_mac_address: MAC }],
      networks: [
        {
          type: "ipv4",
          id: "v4",
          link: "eth",
          ip_address: "192.168.10.5",
          netmask: "255.255.255.0",
          routes: [{ network: "0.0.0.0", netmask: "0.0.0.0", gateway: "192.168.10.1", services: [] }],
        },
        {
          type: "ipv6",
          id: "v6",
          link: "eth",
          ip_address: "fd10::5",
          netmask: "ffff:ffff:ffff:ffff::",
          routes: [],
        },
      ],
      services: [{ type: "dns", address: "192.168.10.53" }],
    });
  });

  test("a pool of one family has no address for a network of the other", () => {
    const pools = new Map([["blue", poolResultOf(BLUE, 6) as PoolResult]]);
    expect(render({ networkData: NETWORK_DATA }, { pools })).toEqual({
      problem: 'networkData network "v4": pool blue has no IPv4 address here',
    });
    expect(poolResultOf(network({ addresses: [] }))).toBeNull();
    expect(poolResultOf(network(), 6)).toBeNull();
  });

  test.each([
    [
      "no such interface",
      { metaData: { fromHostInterfaces: [{ key: "k", interface: "x" }] } },
      /NIC name not found x: .*default, blue/,
    ],
    ["no such pool", { metaData: { ipAddressesFromPool: [{ key: "k", name: "x" }] } }, /pool not found in cache: x/],
    ["a MAC that is not known yet", { networkData: NETWORK_DATA }, /bad MAC address/],
  ])("%s is a problem that names the part of the template", (_why, spec, problem) => {
    const nics = VM_WITH_TWO.nics.map(({ name }) => ({ name, mac: "" }));
    const vm = { ...VM_WITH_TWO, nics };
    expect(render(spec, { vm })).toEqual({ problem: expect.stringMatching(problem) });
  });

  test("a document that is larger than any guest needs is a problem that names its size", () => {
    const metaData = { strings: [{ key: "k", value: "x".repeat(VM_DOCUMENT_BYTES_MAX) }] };
    expect(render({ metaData })).toEqual({
      problem: expect.stringMatching(/^metaData has 65\d{3} bytes, and a VM is given 65536 at most/),
    });
  });
});

describe("a VM with a network document", () => {
  const of = instance({ networkDocument: documentOf(NETWORK_DATA) });

  test("network_data.json is the document, as it is", () => {
    const { headers, text } = get("/openstack/latest/network_data.json", { of });
    expect(JSON.parse(text)).toEqual(of.networkDocument);
    expect(headers["content-type"]).toBe("text/plain; charset=UTF-8");
  });

  test("the document is served for a VM of which no link is known", () => {
    const bare = { ...BARE, networkDocument: of.networkDocument };
    expect(get("/openstack/latest/network_data.json", { of: BARE }).status).toBe(404);
    expect(get("/openstack/latest/network_data.json", { of: bare }).status).toBe(200);
    expect(get("/openstack/latest", { of: bare }).text).toContain("network_data.json");
  });

  test("network-config of NoCloud says the same", () => {
    expect(parse(get("/nocloud/network-config", { of }).text)).toEqual({
      version: 2,
      ethernets: {
        front0: {
          match: { macaddress: MAC },
          "set-name": "front0",
          mtu: 1450,
          addresses: ["192.168.10.5/24", "fd10::5/64"],
          routes: [{ to: "0.0.0.0/0", via: "192.168.10.1" }],
          nameservers: { addresses: ["192.168.10.53"] },
        },
      },
    });
  });

  test("EC2's tree is what it was", () => {
    expect(get("/latest/meta-data/local-ipv4", { of }).text).toBe("192.168.10.5");
    expect(get("/latest/meta-data/", { of }).text).toBe(get("/latest/meta-data/").text);
  });
});

describe("network configuration version 2", () => {
  const COMPLEX = {
    links: {
      ethernets: [
        { id: "a", type: "phy", macAddress: { string: "02-00-00-00-00-0A" } },
        { id: "b", type: "phy", macAddress: { string: "02:00:00:00:00:0b" } },
      ],
      bonds: [
        {
          id: "bond",
          name: "bond0",
          bondMode: "802.3ad",
          bondXmitHashPolicy: "layer3+4",
          bondLinks: ["a", "b"],
          macAddress: { string: "02:00:00:00:00:0c" },
          parameters: [{ name: "miimon", value: 100 }],
        },
      ],
      vlans: [{ id: "v", name: "vlan7", vlanID: 7, vlanLink: "bond", macAddress: { string: "02:00:00:00:00:0d" } }],
    },
    networks: {
      ipv4DHCP: [{ id: "d", link: "bond" }],
      ipv6SLAAC: [{ id: "s", link: "bond" }],
      ipv6DHCP: [{ id: "six", link: "v" }],
      ipv4: [
        {
          id: "static",
          link: "v",
          fromPoolRef: { name: "blue" },
          routes: [
            {
              network: "10.0.0.0",
              prefix: 8,
              gateway: { string: "192.168.10.9" },
              services: { dns: ["10.0.0.53"] },
            },
            { network: "11.0.0.0", prefix: 8, gateway: {} },
          ],
        },
      ],
    },
    services: { dns: ["9.9.9.9"] },
  };

  test("bonds and VLANs refer to links by their keys, and each link has its networks", () => {
    expect(templateNetworkConfig(documentOf(COMPLEX))).toEqual({
      version: 2,
      ethernets: {
        a: { match: { macaddress: "02:00:00:00:00:0a" }, mtu: 1500 },
        b: { match: { macaddress: "02:00:00:00:00:0b" }, mtu: 1500 },
      },
      bonds: {
        bond0: {
          macaddress: "02:00:00:00:00:0c",
          mtu: 1500,
          interfaces: ["a", "b"],
          parameters: { mode: "802.3ad", "transmit-hash-policy": "layer3+4", "mii-monitor-interval": 100 },
          dhcp4: true,
          "accept-ra": true,
          nameservers: { addresses: ["9.9.9.9"] },
        },
      },
      vlans: {
        vlan7: {
          macaddress: "02:00:00:00:00:0d",
          mtu: 1500,
          id: 7,
          link: "bond0",
          dhcp6: true,
          addresses: ["192.168.10.5/24"],
          routes: [{ to: "10.0.0.0/8", via: "192.168.10.9" }],
          nameservers: { addresses: ["10.0.0.53", "9.9.9.9"] },
        },
      },
    });
  });

  test.skipIf(why !== null)("cloud-init takes it as it is", async () => {
    const directory = mkdtempSync(join(tmpdir(), "holdfast-vm-template-"));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const file = join(directory, "network-config");
    const config = templateNetworkConfig(documentOf(COMPLEX));
    writeFileSync(file, yamlText(config));
    const macs = { "02:00:00:00:00:0a": "enp1s0", "02:00:00:00:00:0b": "enp2s0" };
    expect((await drive("network-config", [file], { macs })).netplan?.network).toMatchObject(config);
  });

  test("a template without networks configures its links alone", () => {
    expect(templateNetworkConfig(documentOf({ services: { dns: ["9.9.9.9"] } }))).toEqual({ version: 2 });
    expect(templateNetworkConfig(documentOf({ links: { ethernets: [{ id: "a", type: "phy" }] } }))).toEqual({
      version: 2,
      ethernets: { a: { mtu: 1500 } },
    });
  });
});

test.skipIf(why !== null)("cloud-init makes an interface of the network document", async () => {
  const [netplan] = await readNetworkData([JSON.stringify(documentOf(NETWORK_DATA))], {
    macs: { [MAC]: "enp1s0" },
  });
  expect(netplan).toMatchObject({
    network: {
      ethernets: {
        front0: {
          addresses: ["192.168.10.5/24", "fd10::5/64"],
          match: { macaddress: MAC },
          mtu: 1450,
          routes: [{ to: "0.0.0.0/0", via: "192.168.10.1" }],
          "set-name": "front0",
        },
      },
    },
  });
});
