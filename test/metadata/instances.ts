import { Buffer } from "node:buffer";
import { parseAddress } from "../../ipam/space/address.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { Instance, InstanceAddress, InstanceNetwork } from "../../metadata/documents/instance.ts";
import type { MetadataOptions, MetadataRequest } from "../../metadata/documents/route.ts";
import { respond } from "../../metadata/documents/route.ts";

/** 2026-01-01T00:00:00Z */
export const NOW_MS = 1_767_225_600_000;

export const OPTIONS: MetadataOptions = {
  tokens: "optional",
  tokenKeys: [Buffer.alloc(32, 1)],
  seed: () => Buffer.alloc(512, 2),
};

export const MAC = "52:54:00:de:5b:bf";

export function address(text: string, gateway: string | null = null): InstanceAddress {
  return {
    address: parseInterfaceAddress(text),
    gateway: gateway === null ? null : parseAddress(gateway),
  };
}

export function network(given: Partial<InstanceNetwork> = {}): InstanceNetwork {
  return {
    network: "tenantblue",
    linkId: "blue",
    mac: MAC,
    mtu: 1450,
    addressing: "allocated",
    addresses: [address("192.168.10.5/24", "192.168.10.1")],
    routes: [],
    dns: {},
    primary: false,
    ...given,
  };
}

/** A VM with everything that can be known of one. */
export function instance(given: Partial<Instance> = {}): Instance {
  return {
    uuid: "5d1a8b1e-7c52-4b7e-9a1f-3f2f1d6b0c11",
    name: "vm1",
    namespace: "default",
    hostname: "vm1.example.net",
    publicIPv4: null,
    publicHostname: null,
    projectId: "0b4c7f0e-2f7d-4a43-8a52-6a1a4c5d0f01",
    networks: [
      network({
        addresses: [address("192.168.10.5/24", "192.168.10.1"), address("fd10::5/64", "fd10::1")],
        routes: [
          { dst: "10.0.0.0/8" },
          { dst: "169.254.169.254/32", gw: "192.168.10.2" },
          { dst: "fd99::/48", gw: "fd10::2" },
        ],
        dns: { nameservers: ["192.168.10.1", "fd10::53"], domain: "example.net" },
        primary: true,
      }),
      network({
        network: "storage",
        linkId: "storage",
        mac: "52-54-00-00-00-02",
        mtu: 9000,
        addresses: [address("10.9.0.7/16", "10.9.0.1")],
      }),
    ],
    publicKeys: [
      { name: "alice", data: "ssh-ed25519 AAAAalice alice@example.net" },
      { name: "bob", data: "ssh-ed25519 AAAAbob bob@example.net\n" },
    ],
    userData: Buffer.from("#cloud-config\npackages: [jq]\n"),
    vendorData: "#cloud-config\nntp: {}\n",
    networkDocument: null,
    meta: { role: "db", "cost-centre": "17" },
    launchIndex: 0,
    availabilityZone: "zone-a",
    instanceType: "u1.medium",
    rootDevice: "/dev/vda",
    password: { stored: null },
    ...given,
  };
}

/** A VM of which next to nothing is known. */
export const BARE = instance({
  networks: [],
  publicKeys: [],
  userData: null,
  vendorData: null,
  meta: {},
  availabilityZone: null,
  instanceType: null,
  rootDevice: null,
  password: null,
});

export function request(target: string, given: Partial<MetadataRequest> = {}): MetadataRequest {
  return { method: "GET", target, headers: {}, clientForwarded: false, ...given };
}

export function get(
  target: string,
  {
    of = instance(),
    options = {},
    ...rest
  }: { of?: Instance | null; options?: Partial<MetadataOptions> } & Partial<MetadataRequest> = {},
) {
  const answer = respond(request(target, rest), of, { ...OPTIONS, ...options }, NOW_MS);
  return { ...answer, text: answer.body.toString("utf8") };
}
