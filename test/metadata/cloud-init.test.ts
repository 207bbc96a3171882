import { Buffer } from "node:buffer";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Instance } from "../../metadata/documents/instance.ts";
import { networkConfig } from "../../metadata/documents/network-config.ts";
import { networkData } from "../../metadata/documents/network-data.ts";
import { yamlText } from "../../metadata/documents/nocloud.ts";
import type { MetadataOptions } from "../../metadata/documents/route.ts";
import { drive, type Found, whyNoCloudInit, whyNoNewerCloudInit } from "./cloud-init/cloud-init.ts";
import { type DocumentServer, serve } from "./document-server.ts";
import { address, BARE, instance, MAC, network, OPTIONS } from "./instances.ts";
import { guestOf, MACS as VM_MACS } from "./vm-interfaces.ts";

const why = whyNoCloudInit();
if (why !== null) console.warn(why);
const MACS = { [MAC]: "enp1s0", "52:54:00:00:00:02": "enp2s0" };
/** Another address than the server's, so that the answers go to where they were asked for. */
const GUEST = { macs: MACS, source: "127.9.8.7" };

let server: DocumentServer | null = null;
afterEach(() => server?.close());

/** Runs a data source against a VM's metadata; `log` is what it asked for and got. */
async function boot(
  source: string,
  { of = instance(), options = {} }: { of?: Instance; options?: Partial<MetadataOptions> } = {},
): Promise<Found & { readonly log: readonly string[] }> {
  server = await serve(of, { ...OPTIONS, ...options });
  const found = await drive(source, [server.url], GUEST);
  return { ...found, log: server.log };
}

const failed = (log: readonly string[]) => log.filter((line) => !line.endsWith(" 200"));
const COMMON = {
  found: true,
  hostname: "vm1.example.net",
  keys: ["ssh-ed25519 AAAAalice alice@example.net", "ssh-ed25519 AAAAbob bob@example.net"],
  userdata: Buffer.from("#cloud-config\npackages: [jq]\n").toString("base64"),
  zone: "zone-a",
};

/** The first interface, as netplan would get it. */
const BLUE = {
  addresses: ["192.168.10.5/24", "fd10::5/64"],
  match: { macaddress: MAC },
  mtu: 1450,
};

/** By the renderer. */
interface Rendered extends Found {
  readonly networkd: Readonly<Record<string, string>>;
  readonly eni: string;
}

describe.skipIf(why !== null)(why ?? "cloud-init itself", () => {
  let directory = "";
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "holdfast-cloud-init-"));
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  describe("OpenStack", () => {
    test("cloud-init finds everything at the first try, in fewer than 60 requests", async () => {
      const { log, ...found } = await boot("openstack");
      expect(found).toMatchObject({
        ...COMMON,
        instanceId: instance().uuid,
        vendordata: "#cloud-config\nntp: {}\n",
        ec2: { "local-ipv4": "192.168.10.5", placement: { "availability-zone": "zone-a" } },
      });
      expect(failed(log)).toEqual([]);
      expect(log.length).toBeLessThan(40);
      expect(server?.sources).toEqual(new Set([GUEST.source]));
    });

    test("cloud-init configures both interfaces", async () => {
      const { netplan } = await boot("openstack");
      expect(netplan?.network.ethernets).toMatchObject({
        enp1s0: {
          ...BLUE,
          "accept-ra": false,
          nameservers: { addresses: ["192.168.10.1", "fd10::53"], search: ["example.net"] },
          routes: [
            { to: "0.0.0.0/0", via: "192.168.10.1" },
            { to: "10.0.0.0/8", via: "192.168.10.1" },
            { to: "169.254.169.254/31", via: "192.168.10.2" },
            { to: "::/0", via: "fd10::1" },
            { to: "fd99::/48", via: "fd10::2" },
          ],
        },
        enp2s0: { addresses: ["10.9.0.7/16"], mtu: 9000 },
      });
    });

    test("a link without a MAC is skipped, and the others are configured", async () => {
      const networks = [network({ mac: null, linkId: "dark" }), ...instance().networks];
      const { netplan } = await boot("openstack", { of: instance({ networks }) });
      expect(Object.keys(netplan?.network.ethernets ?? {})).toEqual(["enp1s0", "enp2s0"]);
    });

    test("a VM of which little is known is served", async () => {
      const { log, ...found } = await boot("openstack", { of: BARE, options: { seed: null } });
      expect(found).toMatchObject({ found: true, instanceId: BARE.uuid, keys: [], userdata: "" });
      // Nothing rather than an empty configuration, which would leave the guest without any network.
      expect(found.netplan).toBeNull();
      expect(failed(log)).toEqual([
        "GET /openstack/2018-08-27/user_data 404",
        "GET /openstack/2018-08-27/network_data.json 404",
      ]);
    });

    test("a tenant cannot disable its own data source by accident", async () => {
      const { found } = await boot("openstack", { of: instance({ meta: { dsmode: "disabled" } }) });
      expect(found).toBe(true);
    });
  });

  describe("EC2", () => {
    test("cloud-init is served without tokens", async () => {
      const { log, ...found } = await boot("ec2");
      expect(found).toMatchObject({ ...COMMON, instanceId: "i-5d1a8b1e7c524b7e9a1f3f2f1d6b0c11" });
      expect(failed(log)).toEqual([
        "GET /2021-03-23/meta-data/instance-id 404",
        "GET /2018-09-24/meta-data/instance-id 404",
        "GET /2016-09-02/meta-data/instance-id 404",
      ]);
    });

    test.each(["optional", "required"] as const)("cloud-init is served with tokens, %s", async (tokens) => {
      const { log, ...found } = await boot("aws", { options: { tokens } });
      expect(found).toMatchObject({
        ...COMMON,
        instanceId: "i-5d1a8b1e7c524b7e9a1f3f2f1d6b0c11",
        identity: { instanceId: "i-5d1a8b1e7c524b7e9a1f3f2f1d6b0c11", privateIp: "192.168.10.5" },
      });
      expect(log[0]).toBe("PUT /latest/api/token 200");
      expect(log.filter((line) => / 401$| 400$/.test(line))).toEqual([]);
      expect(log.filter((line) => line.includes("instance-identity"))).toHaveLength(2);
    });

    test.skipIf(whyNoNewerCloudInit() !== null)(
      "a newer cloud-init is served with required tokens, as on AWS",
      async () => {
        server = await serve(instance(), { ...OPTIONS, tokens: "required" });
        const found = await drive("aws", [server.url], { ...GUEST, newer: true });
        expect(found).toMatchObject({ ...COMMON, instanceId: "i-5d1a8b1e7c524b7e9a1f3f2f1d6b0c11" });
        expect(server.log[0]).toBe("PUT /latest/api/token 200");
      },
    );

    test("cloud-init gives up at once where tokens are switched off", async () => {
      const { found, log } = await boot("aws", { options: { tokens: "off" } });
      expect([found, log]).toEqual([false, ["PUT /latest/api/token 403"]]);
    });
  });

  describe("NoCloud", () => {
    test("the source is found by the serial number, and nothing is requested twice", async () => {
      const { log, ...found } = await boot("nocloud");
      expect(found).toMatchObject({
        ...COMMON,
        instanceId: instance().uuid,
        vendordata: "#cloud-config\nntp: {}\n",
        metadata: { meta: { role: "db" } },
      });
      expect(log).toEqual(["GET /nocloud/meta-data 200", "GET /nocloud/user-data 200", "GET /nocloud/vendor-data 200"]);
    });

    test("a VM of which little is known is served without retries", async () => {
      const { log, ...found } = await boot("nocloud", { of: BARE });
      expect(found).toMatchObject({ found: true, instanceId: BARE.uuid, userdata: "" });
      expect(log).toHaveLength(3);
    });

    test("cloud-init's YAML parser reads every text that we write", async () => {
      const hostname = "a\u0085b\u007fc\ufeffd\u2028e\ud83d\ude00f: #{}[]'\"\\\t";
      const meta = { ['"'.repeat(253)]: "no\n- yes", "1e3": "0x10", null: "~" };
      const { metadata } = await boot("nocloud", { of: instance({ hostname, meta }) });
      expect(metadata).toMatchObject({ "local-hostname": hostname, meta });
    });

    test("network-config configures both interfaces", async () => {
      const file = join(directory, "network-config");
      writeFileSync(file, yamlText(networkConfig(instance())));
      const { netplan } = await drive("network-config", [file], GUEST);
      expect(netplan?.network.ethernets).toMatchObject({
        blue: { ...BLUE, nameservers: { addresses: ["192.168.10.1", "fd10::53"], search: ["example.net"] } },
        storage: { addresses: ["10.9.0.7/16"], match: { macaddress: "52:54:00:00:00:02" } },
      });
    });
  });

  test.skipIf(whyNoNewerCloudInit() !== null)(
    "addresses with /32 and /128 have a default route by a gateway outside, by each of cloud-init's renderers",
    async () => {
      const addresses = [address("10.9.0.5/32", "203.0.113.1"), address("fd09::5/128", "fd99::1")];
      const routes = [{ dst: "169.254.169.254/32", gw: "0.0.0.0" }];
      const networks = [network({ addresses, routes, primary: true })];
      const file = join(directory, "outside.json");
      writeFileSync(file, JSON.stringify(networkData(instance({ networks }))));
      const { netplan, networkd, eni } = await drive<Rendered>("rendered", [file], { ...GUEST, newer: true });
      expect(netplan?.network.ethernets.enp1s0).toMatchObject({
        addresses: ["10.9.0.5/32", "fd09::5/128"],
        routes: [
          { to: "default", via: "203.0.113.1", "on-link": true },
          { to: "203.0.113.1/32", via: "0.0.0.0" },
          { to: "169.254.169.254/31", via: "0.0.0.0" },
          { to: "default", via: "fd99::1", "on-link": true },
          { to: "fd99::1/128", via: "::" },
        ],
      });
      for (const gateway of ["203.0.113.1", "fd99::1"])
        expect(networkd.enp1s0).toMatch(new RegExp(`Gateway=${gateway}\\nGatewayOnLink=yes`));
      for (const gateway of ["203.0.113.1", "fd99::1"]) expect(eni).toContain(`    gateway ${gateway}\n`);
    },
  );

  describe.each([
    ["Debian 12's cloud-init", false],
    ["a newer cloud-init", true],
  ])("%s", (_name, newer) => {
    test.skipIf(newer && whyNoNewerCloudInit() !== null).each([
      ["KubeVirt's commonest VM, the pod network first", ["default", "blue"]],
      ["KubeVirt's commonest VM, ours first", ["blue", "default"]],
      ["a VM on networks of three owners", ["default", "blue", "data"]],
      ["a VM on networks of others that no default route comes from", ["data", "blue"]],
    ] as const)("%s has each interface configured, and one default route", async (_vm, owners) => {
      const { instance: of } = guestOf(owners);
      const names = { default: "enp1s0", blue: "enp2s0", data: "enp3s0" };
      const macs = Object.fromEntries(owners.map((owner) => [VM_MACS[owner], names[owner]]));
      const file = join(directory, `vm-${owners.join("-")}-${newer}`);
      writeFileSync(`${file}.json`, JSON.stringify(networkData(of)));
      writeFileSync(`${file}.yaml`, yamlText(networkConfig(of)));
      const byDhcp = (owners as readonly string[]).includes("default");
      const { netplan, networkd, eni } = await drive<Rendered>("rendered", [`${file}.json`], { macs, newer });
      const seed = await drive("network-config", [`${file}.yaml`], { macs, newer });
      const forms = [
        { ethernets: netplan?.network.ethernets, nameOf: (owner: keyof typeof names) => names[owner] },
        { ethernets: seed.netplan?.network.ethernets, nameOf: (owner: keyof typeof names) => owner },
      ];
      for (const { ethernets = {}, nameOf } of forms) {
        expect(Object.keys(ethernets).sort()).toEqual(owners.map(nameOf).sort());
        const ours = ethernets[nameOf("blue")] as { routes: { to: string; via: string }[] };
        expect(ours).toMatchObject({ addresses: ["192.168.10.5/24", "fd10::5/64"] });
        expect(ours).not.toHaveProperty("dhcp4");
        expect(ours.routes.map(({ via }) => via)).toEqual(byDhcp ? ["fd10::1"] : ["192.168.10.1", "fd10::1"]);
        if (byDhcp) expect(ethernets[nameOf("default")]).toMatchObject({ dhcp4: true });
        for (const owner of owners.filter((one) => one !== "blue")) {
          expect(ethernets[nameOf(owner)]).not.toHaveProperty("addresses");
          expect(ethernets[nameOf(owner)]).not.toHaveProperty("routes");
        }
      }
      if (byDhcp) {
        expect(networkd.enp1s0).toMatch(/DHCP=(ipv4|yes)/);
        expect(eni).toContain("iface enp1s0 inet dhcp");
      }
      expect(networkd.enp2s0).toContain("Address=192.168.10.5/24");
      expect(networkd.enp2s0?.match(/Gateway=.*/g)).toEqual(
        byDhcp ? ["Gateway=fd10::1"] : ["Gateway=192.168.10.1", "Gateway=fd10::1"],
      );
    });
  });

  test("jsonschema accepts network_data, as our own small validator does", async () => {
    const file = join(directory, "network_data.json");
    const schema = join(import.meta.dirname, "network-data-schema.json");
    for (const of of [instance(), BARE, guestOf(["default", "blue", "data"]).instance]) {
      writeFileSync(file, JSON.stringify(networkData(of)));
      expect(await drive("schema", [schema, file])).toEqual({ errors: [] });
    }
    writeFileSync(file, JSON.stringify({ links: [{ id: "x", type: "y" }], networks: [] }));
    expect(await drive("schema", [schema, file])).not.toEqual({ errors: [] });
  });
});
