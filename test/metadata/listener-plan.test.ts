// @ts-nocheck
import { describe, expect, test } from "vitest";
import type { WantedListener } from "../../metadata/listeners/wire.ts";
import { parseShowProc } from "../../metadata/net/haproxy/command-socket.ts";
import { parseShowStat } from "../../metadata/net/haproxy/haproxy-stat.ts";
import { haproxyText } from "../../metadata/net/haproxy/haproxy-text.ts";
import { firewallChange, firewallSets, firewallText } from "../../metadata/net/kernel/firewall-text.ts";
import { choosePorts } from "../../metadata/net/kernel/guest-ports.ts";
import { innerCommands, vlanCommands } from "../../metadata/net/kernel/listener-link.ts";
import { listenerNames, namesOf } from "../../metadata/net/kernel/names.ts";
import { neighbourCommands, neighboursOf } from "../../metadata/net/kernel/neighbours.ts";
import { type ListenerPlan, planListeners } from "../../metadata/net/kernel/plan.ts";
import { loadNetSettings } from "../../metadata/net/settings.ts";
import { IDENTITY_PREFIXES, isForbiddenHeader } from "../../metadata/proxy/client-headers.ts";

const NAMES = namesOf("/run/holdfast/metadata-net");

function wanted(network: string, more: Partial<WantedListener> = {}): WantedListener {
  return {
    network,
    bridge: "br-blue",
    vlan: null,
    preserveDefaultVlan: true,
    mtu: null,
    address: "10.0.0.254/24",
    subnets: ["10.0.0.0/24"],
    attachments: [],
    ...more,
  };
}

function plan(more: Partial<WantedListener> = {}): ListenerPlan {
  const { plans, problems } = planListeners(NAMES, [wanted("blue", more)]);
  expect([...problems]).toEqual([]);
  return plans[0] as ListenerPlan;
}

describe("names", () => {
  test("follow from the run folder and the network, and fit the kernel's limits", () => {
    expect(NAMES).toEqual({
      tag: "2a29",
      table: "holdfast_metadata_2a29",
      namespacePrefix: "holdfast-md-2a29-",
      linkPrefix: "hfm2a29",
    });
    const blue = listenerNames(NAMES, "blue");
    expect(blue).toEqual({
      namespace: "holdfast-md-2a29-16477688c0e0",
      link: "hfm2a29Fkd2iMDg",
      hostMac: "fe:ff:6f:65:67:ea",
      mac: "16:47:76:88:c0:e0",
    });
    expect(blue.link).toHaveLength(15);
  });

  test("differ for networks whose hashes agree as far as a link's name shows them", () => {
    // 48 bits of SHA-256: found in a minute by trying 24 million names.
    const alike = ["n795505", "n2441896"];
    const [one, other] = alike.map((name) => listenerNames(NAMES, name));
    expect(other).toMatchObject({ link: one?.link, namespace: one?.namespace, mac: one?.mac });
    const { plans, problems } = planListeners(
      NAMES,
      alike.map((name) => wanted(name)),
    );
    expect([...problems]).toEqual([]);
    expect(plans.map(({ network }) => network)).toEqual(alike);
    for (const key of ["link", "namespace", "mac"] as const)
      expect(new Set(plans.map((plan) => plan[key])).size, key).toBe(2);
    expect(plans[0]).toMatchObject(one as object);
    for (const { link } of plans) expect(link).toHaveLength(15);
  });

  test("differ in another run folder, with the same MAC for guests", () => {
    const other = listenerNames(namesOf("/tmp/other"), "blue");
    const blue = listenerNames(NAMES, "blue");
    expect(other.mac).toBe(blue.mac);
    for (const key of ["namespace", "link", "hostMac"] as const) expect(other[key]).not.toBe(blue[key]);
  });

  test("have MACs that are locally administered and unicast", () => {
    for (let number = 0; number < 200; number += 1) {
      const { mac, hostMac } = listenerNames(NAMES, `network-${number}`);
      expect(Number.parseInt(mac.slice(0, 2), 16) & 3).toBe(2);
      expect(hostMac.slice(0, 5)).toBe("fe:ff");
    }
  });
});

describe("plans", () => {
  test("have addresses in canonical form", () => {
    const { address, reserved, otherSubnets, attachments } = plan({
      subnets: ["10.0.0.0/24", "10.1.0.0/16"],
      attachments: [
        { containerId: "c", interface: "net1", netns: "/n", addresses: ["10.0.0.5", "fd00::5"], mac: null },
      ],
    });
    expect({ address, reserved, otherSubnets }).toEqual({
      address: "10.0.0.254/24",
      reserved: "10.0.0.254",
      otherSubnets: ["10.1.0.0/16"],
    });
    expect(attachments[0]?.addresses).toEqual(["10.0.0.5"]);
  });

  test.each([
    ["a name that is more than a word", wanted("a b"), "its name"],
    ["a name that would end the line", wanted("a\nb"), "its name"],
    ["a bridge that is a path", wanted("a", { bridge: "../x" }), "no name of a bridge"],
    ["a bridge with a blank", wanted("a", { bridge: "br x" }), "no name of a bridge"],
    ["a bridge that looks like an option", wanted("a", { bridge: "-batch" }), "no name of a bridge"],
    ["a bridge whose end ip takes for a comment", wanted("a", { bridge: "br#1" }), "no name of a bridge"],
    ["VLAN 0", wanted("a", { vlan: 0 }), "VLAN 0"],
    ["an MTU of nothing", wanted("a", { mtu: 1 }), "MTU 1"],
    ["IPv6", wanted("a", { address: "fd00::1/64" }), "not IPv4"],
    ["no address", wanted("a", { address: "x" }), "x"],
    ["an IPv6 subnet", wanted("a", { subnets: ["fd00::/64"] }), "not IPv4"],
    [
      "an attachment with nonsense",
      wanted("a", {
        attachments: [{ containerId: "c", interface: "i", netns: "/n", addresses: ["1.2"], mac: null }],
      }),
      "1.2",
    ],
  ])("report %s, and serve every other network", (_, bad, says) => {
    const { plans, problems } = planListeners(NAMES, [bad, wanted("good")]);
    expect(plans.map(({ network }) => network)).toEqual(["good"]);
    expect(problems.get(bad.network)).toContain(says);
  });
});

describe("the firewall", () => {
  test("has no table without networks", () => {
    expect(firewallText("t", firewallSets([]))).toBe("table bridge t {}\ndelete table bridge t\n");
  });

  test("has each pair of port and address once", () => {
    const sets = firewallSets([
      {
        link: "hfm1",
        reserved: "10.0.0.254",
        guests: [
          { port: "veth1", addresses: ["10.0.0.5", "10.1.0.5"] },
          { port: "veth1", addresses: ["10.0.0.5"] },
          { port: "veth2", addresses: [] },
        ],
      },
      { link: "hfm2", reserved: "10.0.0.254", guests: [{ port: "veth3", addresses: ["10.0.0.5"] }] },
    ]);
    expect(sets).toMatchInlineSnapshot(`
      {
        "guests": [
          ""hfm1" . "veth1" . 10.0.0.5",
          ""hfm1" . "veth1" . 10.1.0.5",
          ""hfm2" . "veth3" . 10.0.0.5",
        ],
        "kept": [
          ""veth1" . 10.0.0.254",
          ""veth1" . 169.254.169.254",
          ""veth2" . 10.0.0.254",
          ""veth2" . 169.254.169.254",
          ""veth3" . 10.0.0.254",
          ""veth3" . 169.254.169.254",
        ],
        "listeners": [
          ""hfm1"",
          ""hfm2"",
        ],
        "members": [
          ""hfm1" . "veth1"",
          ""hfm1" . "veth2"",
          ""hfm2" . "veth3"",
        ],
        "own": [
          ""hfm1" . 10.0.0.254",
          ""hfm1" . 169.254.169.254",
          ""hfm2" . 10.0.0.254",
          ""hfm2" . 169.254.169.254",
        ],
        "ports": [
          ""veth1"",
          ""veth2"",
          ""veth3"",
        ],
      }
    `);
    for (const element of Object.values(sets).flat()) expect(firewallText("t", sets)).toContain(element);
  });

  test("is changed only where it differs", () => {
    const at = (...ports: string[]) =>
      firewallSets([
        {
          link: "l",
          reserved: "10.0.0.254",
          guests: ports.map((port) => ({ port, addresses: ["10.0.0.5"] })),
        },
      ]);
    expect(firewallChange("t", at("a"), at("a"))).toBe("");
    expect(firewallChange("t", at("a"), at("b"))).toMatchInlineSnapshot(`
      "delete element bridge t ports { "a" }
      add element bridge t ports { "b" }
      delete element bridge t members { "l" . "a" }
      add element bridge t members { "l" . "b" }
      delete element bridge t guests { "l" . "a" . 10.0.0.5 }
      add element bridge t guests { "l" . "b" . 10.0.0.5 }
      delete element bridge t kept { "a" . 10.0.0.254, "a" . 169.254.169.254 }
      add element bridge t kept { "b" . 10.0.0.254, "b" . 169.254.169.254 }
      "
    `);
  });
});

describe("haproxy", () => {
  const text = haproxyText({
    listeners: [{ network: "blue.net_1", namespace: "holdfast-md-2a29-000000000000" }],
    runDir: "/run/x",
    metadataSocket: "/run/holdfast/metadata.sock",
    runAs: { user: "haproxy", group: "haproxy" },
    rateLimit: 60,
  });

  test("has a frontend in the namespace of each network, which sends the network's name and the source", () => {
    const frontend = text.slice(text.indexOf("frontend network:"));
    expect(frontend.replaceAll(/'\^\(.*\)'/g, "PATTERN")).toMatchInlineSnapshot(`
      "frontend network:blue.net_1
        bind 169.254.169.254:80 namespace holdfast-md-2a29-000000000000 proto h1
        maxconn 1000
        stick-table type ip size 4096 expire 60s store conn_cur,gpc0,gpc0_rate(10s)
        tcp-request connection track-sc0 src
        tcp-request connection reject if { sc0_conn_cur gt 64 }
        # Refused requests do not count: who goes on asking is answered again when the time is over.
        http-request deny deny_status 429 if { sc0_gpc0_rate ge 60 }
        http-request sc-inc-gpc0(0)
        http-request deny deny_status 413 if { req.hdr_val(content-length) gt 65536 }
        http-request deny deny_status 413 if { req.hdr(transfer-encoding) -m found } { req.body_len gt 8192 }
        # Not for a page in a guest's browser whose own name server leads it here (DNS rebinding).
        http-request deny deny_status 403 if { req.fhdr(host) -m found } !{ req.fhdr(host) -m reg -i '^([0-9.]+|\\[[^]]*\\]|[a-z0-9_-]+\\.?|[a-z0-9_.-]+\\.internal\\.?)?(:[0-9]*)?$' }
        # Who names another host in the request line (absolute form) is answered as who does not.
        http-request set-uri %[pathq] if { url_beg -i http:// }
        http-request deny deny_status 400 unless { path_beg / }
        http-request set-var(txn.forwarded) bool(true) if { req.hdr_names -m reg '(^|,)x[^a-z0-9]forwarded[^a-z0-9]for(,|$)' }
        http-request del-header PATTERN -m reg
        http-request set-header x-holdfast-network blue.net_1
        http-request set-header x-holdfast-source %[src]
        http-request set-header x-holdfast-client-forwarded 1 if { var(txn.forwarded) -m bool }
        default_backend metadata
      "
    `);
  });

  test("removes every spelling of every header that tells who asks, and no other header", () => {
    const [, pattern] = /del-header '(.*)' -m reg/.exec(text) as unknown as [string, string];
    const taken = new RegExp(pattern);
    for (const prefix of IDENTITY_PREFIXES) {
      for (const sign of ["-", "_", ".", "~", "*"]) {
        const name = `${prefix.replaceAll("-", sign)}x`;
        expect(taken.test(name), name).toBe(true);
        expect(isForbiddenHeader(name), name).toBe(true);
      }
    }
    for (const name of [
      "accept",
      "user-agent",
      "x-aws-ec2-metadata-token",
      "metadata-flavor",
      "x-request-id",
      "range",
    ])
      expect(taken.test(name), name).toBe(false);
  });

  test("counts nothing without a limit", () => {
    const free = haproxyText({
      listeners: [{ network: "a", namespace: "b" }],
      runDir: "/run/x",
      metadataSocket: "/m",
      runAs: null,
      rateLimit: 0,
    });
    expect(free).not.toMatch(/sc-inc-gpc0|deny_status 429|user haproxy/);
  });

  test("shows its processes through the master socket", () => {
    const shown = (workers: string, failed = 0) =>
      `#<PID>          <type>          <reloads>       <uptime>        <version>\n20885           master          3 [failed: ${failed}]   0d00h00m01s     2.6.12\n# workers\n${workers}# programs\n\n`;
    expect(
      parseShowProc(shown("20888           worker          0               0d00h00m01s     2.6.12\n")),
    ).toEqual({
      failedReloads: 0,
      workerPid: 20888,
    });
    expect(parseShowProc(shown("", 2))).toEqual({ failedReloads: 2, workerPid: null });
    const old = "# old workers\n7               worker          1               0d00h00m01s     2.6.12\n";
    expect(parseShowProc(shown(old))).toEqual({ failedReloads: 0, workerPid: null });
    expect(parseShowProc("")).toEqual({ failedReloads: 0, workerPid: null });
  });

  test("has counters for each network, whatever the order of the columns", () => {
    const text =
      "# svname,pxname,dcon,hrsp_2xx,hrsp_4xx,\nFRONTEND,network:a.b,3,10,2,\nFRONTEND,waiting-room,9,9,9,\n\n";
    expect(parseShowStat(text)).toEqual([
      { network: "a.b", byStatus: { "2xx": 10, "3xx": 0, "4xx": 2, "5xx": 0 }, refusedConnections: 3 },
    ]);
  });
});

describe("the link", () => {
  test("has its VLANs set as the bridge plugin sets them", () => {
    const link = "hfm1";
    expect(vlanCommands({ link, vlan: null, preserveDefaultVlan: false }, 1)).toEqual([]);
    const own = "vlan add dev hfm1 vid 100 pvid untagged";
    expect(vlanCommands({ link, vlan: 100, preserveDefaultVlan: true }, 1)).toEqual([own]);
    expect(vlanCommands({ link, vlan: 100, preserveDefaultVlan: false }, 1)).toEqual([
      "vlan del dev hfm1 vid 1",
      own,
    ]);
    expect(vlanCommands({ link, vlan: 100, preserveDefaultVlan: false }, 0)).toEqual([own]);
    expect(vlanCommands({ link, vlan: 100, preserveDefaultVlan: false }, 100)).toEqual([own]);
  });

  test("has two addresses in the namespace, and a route to every subnet", () => {
    expect(innerCommands(plan({ subnets: ["10.0.0.0/24", "10.1.0.0/16"] }), 1400)).toEqual([
      "link set lo up",
      "address flush dev eth0 scope global",
      "route flush dev eth0",
      "link set eth0 mtu 1400 address 16:47:76:88:c0:e0",
      "address replace 10.0.0.254/24 dev eth0",
      "address replace 169.254.169.254/32 dev eth0",
      "link set eth0 up",
      "route replace 10.1.0.0/16 dev eth0 scope link src 10.0.0.254",
    ]);
  });
});

describe("ports of VMs", () => {
  const veth = { linkinfo: { info_kind: "veth" } };
  const ports = [
    { name: "veth7", ifindex: 7, peerIndex: 2 },
    { name: "veth8", ifindex: 8, peerIndex: 3 },
  ];
  const attachment = { interface: "net1" };
  const taken = new Set<string>();

  test("are the other end of the interface, with its MAC", () => {
    const links = [
      { ifname: "net1", ifindex: 2, link_index: 7, address: "02:00:00:00:00:01", ...veth },
      { ifname: "net2", ifindex: 3, link_index: 8, address: "02:00:00:00:00:02", ...veth },
    ];
    expect(choosePorts({ links, attachment, ports, taken })).toEqual([
      { port: "veth7", ifindex: 7, mac: "02:00:00:00:00:01" },
    ]);
  });

  test("are found only where both ends name each other, because indexes repeat between namespaces", () => {
    const links = [{ ifname: "net1", ifindex: 4, link_index: 7, ...veth }];
    expect(choosePorts({ links, attachment, ports, taken })).toEqual([]);
  });

  test("of a renamed interface are all unclaimed pairs that end at the bridge, without a MAC", () => {
    const links = [
      { ifname: "net1-nic", ifindex: 2, link_index: 7, address: "02:00:00:00:00:01", ...veth },
      { ifname: "net2-nic", ifindex: 3, link_index: 8, ...veth },
      { ifname: "k6t-net1", ifindex: 5, linkinfo: { info_kind: "bridge" } },
      { ifname: "net1", ifindex: 6, linkinfo: { info_kind: "dummy" } },
    ];
    expect(choosePorts({ links, attachment, ports, taken: new Set(["veth8"]) })).toEqual([
      { port: "veth7", ifindex: 7, mac: null },
    ]);
  });

  test("include a tap at the bridge, which is the port itself", () => {
    const tap = [{ name: "tap1", ifindex: 9, peerIndex: 9 }];
    const links = [
      { ifname: "tap1", ifindex: 9, address: "02:00:00:00:00:09", linkinfo: { info_kind: "tun" } },
    ];
    expect(choosePorts({ links, attachment: { interface: "tap1" }, ports: tap, taken })).toEqual([
      { port: "tap1", ifindex: 9, mac: "02:00:00:00:00:09" },
    ]);
  });
});

describe("neighbours", () => {
  const memory = {
    portsOf: (_: string, { containerId }: { containerId: string }) =>
      containerId === "lost" ? [] : [{ port: "p", ifindex: 1, mac: "02:00:00:00:00:0f" }],
  };
  const at = (containerId: string, addresses: string[], mac: string | null) => ({
    containerId,
    interface: "net1",
    netns: "/n",
    addresses,
    mac,
  });
  const neighbours = (...attachments: ReturnType<typeof at>[]) =>
    Object.fromEntries(neighboursOf(plan({ attachments }), memory));

  test("have the requested MAC, in any spelling, before the one that was seen", () => {
    expect(neighbours(at("a", ["10.0.0.5"], "02-AA-BB-00-00-01"))).toEqual({
      "10.0.0.5": "02:aa:bb:00:00:01",
    });
    expect(neighbours(at("a", ["10.0.0.5"], "02aa.bb00.0001"))).toEqual({ "10.0.0.5": "02:aa:bb:00:00:01" });
    expect(neighbours(at("a", ["10.0.0.5"], null))).toEqual({ "10.0.0.5": "02:00:00:00:00:0f" });
  });

  test("have no entry for a missing guest, nor where two contradict each other", () => {
    expect(neighbours(at("lost", ["10.0.0.5"], "02:00:00:00:00:01"))).toEqual({});
    expect(neighbours(at("a", ["10.0.0.5"], null), at("b", ["10.0.0.5"], "02:00:00:00:00:01"))).toEqual({});
    expect(neighbours(at("a", ["10.0.0.5"], null), at("b", ["10.0.0.5"], null))).toEqual({
      "10.0.0.5": "02:00:00:00:00:0f",
    });
  });

  test("are changed in the kernel only where they differ", () => {
    const present = new Map([
      ["10.0.0.5", "02:00:00:00:00:01"],
      ["10.0.0.6", "02:00:00:00:00:02"],
      ["10.0.0.7", "02:00:00:00:00:03"],
    ]);
    const wantedNow = new Map([
      ["10.0.0.5", "02:00:00:00:00:01"],
      ["10.0.0.6", "02:00:00:00:00:99"],
    ]);
    expect(neighbourCommands(present, wantedNow)).toEqual([
      "neigh del 10.0.0.7 dev eth0",
      "neigh replace 10.0.0.6 lladdr 02:00:00:00:00:99 dev eth0 nud permanent",
    ]);
  });
});

describe("settings", () => {
  test("have defaults, flags win over variables, and variables of other processes are not read", () => {
    const settings = loadNetSettings(
      { rateLimit: "60" },
      {
        HOLDFAST_RATE_LIMIT: "0",
        HOLDFAST_RUN_DIR: "/run/x",
        HOLDFAST_STATE: "/s",
        HOLDFAST_NOVA_URL: "http://x",
      },
    );
    expect(settings).toEqual({
      socket: "/run/holdfast/holdfast.sock",
      metadataSocket: "/run/holdfast/metadata.sock",
      runDir: "/run/x",
      haproxy: "haproxy",
      haproxyUser: "haproxy",
      haproxyGroup: "haproxy",
      rateLimit: 60,
      metricsAddress: { host: "127.0.0.1", port: 9809 },
      logLevel: "info",
    });
    expect(loadNetSettings({ metricsAddress: "off" }, {}).metricsAddress).toBeNull();
    expect(() => loadNetSettings({}, { HOLDFAST_RATELIMIT: "60" })).toThrow("HOLDFAST_RATELIMIT");
  });

  test.each([
    [{ rateLimit: "59" }, 'command line: rateLimit is "59"'],
    [{ rateLimit: "59" }, "28 requests in a second"],
    [{ rateLimit: "-1" }, "rateLimit"],
    [{ runDir: "relative" }, "runDir"],
    [{ runDir: `/${"x".repeat(90)}` }, "at most 80 bytes"],
    [{ metadataSocket: "/a b" }, "metadataSocket"],
    [{ haproxyUser: "a b" }, "haproxyUser"],
    [{ metricsAddress: "127.0.0.1:70000" }, "a port up to 65535"],
    [{ metricsAddress: "here" }, "expected host:port, "],
    [{ nonsense: "1" }, "unknown setting nonsense"],
  ])("%j is refused: %s", (flags, says) => {
    expect(() => loadNetSettings(flags, {})).toThrow(says);
  });
});
