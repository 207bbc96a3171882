import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect } from "vitest";
import { skippedFor } from "../harness/needs.ts";
import { type CniAnswer, newDirectory, run, type ServedDaemon, tableTestWith } from "./fixtures.ts";

/*
 * A network moves from host-local to us by changing `ipam.type`. The same configuration goes to Debian's host-local and
 * to us, verb by verb; both must answer the same.
 */

const HOST_LOCAL = "/usr/lib/cni/host-local";
const RESOLV_DIRECTORY = newDirectory();
const RESOLV_CONF = join(RESOLV_DIRECTORY, "resolv.conf");
writeFileSync(
  RESOLV_CONF,
  "domain blue.example\nnameserver 10.1.2.53\nnameserver fd10::53\nsearch blue.example example\noptions ndots:2 rotate\n",
);
afterAll(() => rmSync(RESOLV_DIRECTORY, { recursive: true }));
const test = tableTestWith("--resolv-conf-paths", RESOLV_CONF);
/** What Debian's host-local 1.1 speaks. */
const VERSIONS = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0"];

/** The `ipam` block without type. */
const CONFIGURATIONS: [string, object][] = [
  ["one subnet", { subnet: "10.1.2.0/24" }],
  ["an IPv6 subnet", { subnet: "2001:db8:1::/64" }],
  ["a gateway of its own", { subnet: "10.1.2.0/24", gateway: "10.1.2.254" }],
  ["the first address as gateway, said outright", { subnet: "10.1.2.0/24", gateway: "10.1.2.1" }],
  ["a range within the subnet", { subnet: "10.1.2.0/24", rangeStart: "10.1.2.9", rangeEnd: "10.1.2.20" }],
  ["a range that begins with the gateway", { subnet: "10.1.2.0/24", rangeStart: "10.1.2.1" }],
  ["the smallest subnet that host-local takes", { subnet: "10.1.2.4/30" }],
  ["dual stack", { ranges: [[{ subnet: "10.1.2.0/24" }], [{ subnet: "2001:db8:1::/64" }]] }],
  ["dual stack, IPv6 first", { ranges: [[{ subnet: "2001:db8:1::/64" }], [{ subnet: "10.1.2.0/24" }]] }],
  ["a set of two subnets", { ranges: [[{ subnet: "10.1.2.0/30" }, { subnet: "10.1.9.0/24" }]] }],
  ["subnet beside ranges", { subnet: "10.1.2.0/24", ranges: [[{ subnet: "2001:db8:1::/64" }]] }],
  [
    "gateways in ranges",
    {
      ranges: [
        [{ subnet: "10.1.2.0/24", gateway: "10.1.2.9" }],
        [{ subnet: "2001:db8:1::/64", gateway: "2001:db8:1::9" }],
      ],
    },
  ],
  ["routes", { subnet: "10.1.2.0/24", routes: [{ dst: "0.0.0.0/0" }, { dst: "192.168.0.0/16", gw: "10.1.2.9" }] }],
  [
    "routes of both families",
    {
      ranges: [[{ subnet: "10.1.2.0/24" }], [{ subnet: "2001:db8:1::/64" }]],
      routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
    },
  ],
  ["a resolvConf", { subnet: "10.1.2.0/24", resolvConf: RESOLV_CONF }],
];

/** Two sets that share a subnet give two addresses of one family: only versions with room for them. */
const TWO_OF_A_FAMILY: [string, object][] = [
  ["two sets of one family", { ranges: [[{ subnet: "10.1.2.0/24" }], [{ subnet: "10.1.9.0/24" }]] }],
  [
    "two sets that share a subnet, each with its gateway, the higher one first",
    {
      ranges: [
        [{ subnet: "10.1.2.0/24", rangeStart: "10.1.2.129", rangeEnd: "10.1.2.250", gateway: "10.1.2.254" }],
        [{ subnet: "10.1.2.0/24", rangeStart: "10.1.2.9", rangeEnd: "10.1.2.100", gateway: "10.1.2.1" }],
      ],
    },
  ],
];

/** One configuration, given to both. */
class Both {
  readonly #daemon: ServedDaemon;
  readonly #config: object;
  readonly #ipam: object;
  readonly #dataDir: string;

  constructor(daemon: ServedDaemon, config: object, ipam: object) {
    this.#daemon = daemon;
    this.#config = config;
    // It stays until the daemon stops, whose check at the end would miss it.
    this.#dataDir = mkdtempSync(join(daemon.directory, "host-local-"));
    this.#ipam = ipam;
  }

  /** Runs a verb with both, expects the same exit code, and the same result where it is a success. */
  async run(verb: string, containerId: string, more: { args?: string; plugin?: object } = {}): Promise<CniAnswer> {
    const configFor = (type: string) => ({
      ...this.#config,
      ...more.plugin,
      ipam: { type, dataDir: this.#dataDir, ...this.#ipam },
    });
    const args = more.args === undefined ? {} : { args: more.args };
    const ours = await this.#daemon.cni(verb, containerId, { config: configFor("holdfast-ipam"), ...args });
    const environment = {
      CNI_COMMAND: verb,
      CNI_CONTAINERID: containerId,
      CNI_NETNS: "/run/netns/none",
      CNI_IFNAME: "eth0",
      CNI_PATH: "/opt/cni/bin",
      ...(more.args === undefined ? {} : { CNI_ARGS: more.args }),
    };
    const theirs = await run(HOST_LOCAL, [], environment, JSON.stringify(configFor("host-local")));
    const told = `host-local: ${theirs.stdout}\nholdfast: ${ours.stdout}`;
    expect(ours.code, told).toBe(theirs.code);
    if (ours.code === 0) expect(parsed(ours.stdout), told).toEqual(parsed(theirs.stdout));
    return ours;
  }
}

function parsed(stdout: string): unknown {
  return stdout === "" ? "" : JSON.parse(stdout);
}

/** A short life of three containers. */
async function live(both: Both, cniVersion: string): Promise<void> {
  const first = await both.run("ADD", "c1");
  await both.run("ADD", "c2");
  await both.run("DEL", "c1");
  await both.run("DEL", "c1");
  if (["0.4.0", "1.0.0"].includes(cniVersion)) {
    const prevResult = first.json();
    await both.run("CHECK", "c1", { plugin: { prevResult } });
    const again = await both.run("ADD", "c3");
    if (again.code === 0) await both.run("CHECK", "c3", { plugin: { prevResult: again.json() } });
  } else {
    await both.run("ADD", "c3");
  }
  await both.run("DEL", "c2");
  await both.run("DEL", "never-there");
}

const isInstalled = existsSync(HOST_LOCAL);
const why = skippedFor(isInstalled ? null : `needs ${HOST_LOCAL} (Debian: containernetworking-plugins)`);

describe.skipIf(why !== null)("the same as host-local", () => {
  for (const [reason, ipam] of CONFIGURATIONS) {
    test.for(VERSIONS)(`${reason}, cniVersion %s`, async (cniVersion, { daemon }) => {
      const name = `${reason.replaceAll(/\W+/g, "-")}-${cniVersion}`;
      await live(new Both(daemon, { cniVersion, name, type: "bridge" }, ipam), cniVersion);
    });
  }

  for (const [reason, ipam] of TWO_OF_A_FAMILY) {
    test.for(VERSIONS.slice(2))(`${reason}, cniVersion %s`, async (cniVersion, { daemon }) => {
      const name = `${reason.replaceAll(/\W+/g, "-")}-${cniVersion}`;
      await live(new Both(daemon, { cniVersion, name, type: "bridge" }, ipam), cniVersion);
    });
  }

  // How a runtime asks for an address, and whether it gets it.
  const ASKED: [string, { args?: string; plugin?: object }][] = [
    ["a free one in CNI_ARGS", { args: "IP=10.1.2.77" }],
    ["a free one in args.cni", { plugin: { args: { cni: { ips: ["10.1.2.77"] } } } }],
    ["a free one in runtimeConfig", { plugin: { runtimeConfig: { ips: ["10.1.2.77/24"] } } }],
    ["a taken one", { args: "IP=10.1.2.2" }],
    ["the gateway", { args: "IP=10.1.2.1" }],
    ["the broadcast address", { args: "IP=10.1.2.255" }],
    ["the network address", { args: "IP=10.1.2.0" }],
    ["one outside the subnet", { args: "IP=10.9.9.9" }],
    ["one of the other family", { args: "IP=2001:db8::1" }],
    ["two of one range", { plugin: { args: { cni: { ips: ["10.1.2.77", "10.1.2.78"] } } } }],
    ["nonsense", { args: "IP=10.1.2.x" }],
    ["an unknown key in CNI_ARGS", { args: "COLOUR=blue" }],
    ["an unknown key in CNI_ARGS, to be ignored", { args: "IgnoreUnknown=1;COLOUR=blue" }],
  ];
  test.for(ASKED)("a requested address: %s", async ([reason, more], { daemon }) => {
    const name = `asked-${reason.replaceAll(/\W+/g, "-")}`;
    const both = new Both(daemon, { cniVersion: "1.0.0", name, type: "bridge" }, { subnet: "10.1.2.0/24" });
    await both.run("ADD", "holder");
    await both.run("ADD", "asker", more);
  });

  test("ranges of the runtime (capability ipRanges)", async ({ daemon }) => {
    const plugin = {
      runtimeConfig: { ipRanges: [[{ subnet: "10.7.0.0/24" }], [{ subnet: "2001:db8:7::/64" }]] },
    };
    for (const ipam of [{}, { ranges: [[{ subnet: "10.8.0.0/24" }]] }]) {
      const name = `runtime-ranges-${Object.keys(ipam).length}`;
      const both = new Both(daemon, { cniVersion: "1.0.0", name, type: "bridge", ...plugin }, ipam);
      await live(both, "1.0.0");
    }
  });

  test("a range that is used up and wraps around", async ({ daemon }) => {
    const ipam = { subnet: "10.1.2.0/29" };
    const both = new Both(daemon, { cniVersion: "1.0.0", name: "round", type: "bridge" }, ipam);
    for (const id of ["a", "b", "c", "d", "e", "f"]) await both.run("ADD", id);
    await both.run("DEL", "c");
    await both.run("ADD", "g");
  });
});
