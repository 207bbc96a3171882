import { describe, expect, test } from "vitest";
import { guestOf } from "../../guests/guest.ts";
import { IDENTITY_PREFIXES, strippedHeaders } from "../../guests/haproxy/client-headers.ts";
import { parseShowProc, parseShowStat } from "../../guests/haproxy/command-socket.ts";
import { haproxyText } from "../../guests/haproxy/haproxy-text.ts";
import { mapEntries, parseShowMap } from "../../guests/haproxy/port-map.ts";
import { doorLink, namesOf } from "../../guests/kernel/names.ts";
import type { PortAddress } from "../../guests/kernel/port-address.ts";
import { blockRules, doorCommands } from "../../guests/listener/namespace-text.ts";
import type { WantedPort } from "../../guests/ports/wire.ts";
import { loadNetSettings } from "../../guests/settings.ts";

const PLAN = {
  namespace: "holdfast-md-2a29",
  ipv6: true,
  runDir: "/run/x",
  metadataSocket: "/run/holdfast/metadata.sock",
  relaySocket: "/run/holdfast-metadata/relay.sock",
  runAs: { user: "haproxy", group: "haproxy" },
  rateLimit: 300,
};

describe("names", () => {
  const names = namesOf("/run/holdfast/metadata-net");

  test("follow from the run directory", () => {
    expect(names).toEqual({
      tag: "2a29",
      table: "holdfast_metadata_2a29",
      namespace: "holdfast-md-2a29",
      linkPrefix: "hfm2a29",
    });
    expect(namesOf("/run/other").tag).not.toBe(names.tag);
  });

  test("of doors fit the kernel's limits", () => {
    expect(doorLink(names, "main")).toBe("hfm2a29main");
    const other = doorLink(names, "ovs:a-bridge-of-a-long-name");
    expect(other).toMatch(/^hfm2a29[\w-]{7}$/);
    expect(doorLink(names, "ovs:another")).not.toBe(other);
  });
});

describe("haproxy", () => {
  const text = haproxyText(PLAN);

  test("has one frontend, of both families, which knows guests by the map alone", () => {
    const frontend = text.slice(text.indexOf("frontend guests"));
    expect(frontend.replaceAll(/'\^\(.*\)'/g, "PATTERN")).toMatchInlineSnapshot(`
      "frontend guests
        bind 0.0.0.0:80 namespace holdfast-md-2a29 tcp-ut 5s proto h1
        bind [::]:80 v6only namespace holdfast-md-2a29 tcp-ut 5s proto h1
        stick-table type string len 8 size 4096 expire 60s store conn_cur,gpc0,gpc0_rate(10s),gpc1,gpc1_rate(10s)
        tcp-request connection set-var(sess.port) dst,hex
        tcp-request connection set-var(sess.port) src,bytes(4,4),hex if { dst fe80::a9fe:a9fe }
        tcp-request connection set-var(sess.asked) dst_port
        tcp-request connection track-sc0 var(sess.port) table guests
        tcp-request connection reject if { sc0_conn_cur(guests) gt 64 }
        # Before one is kept: a guest that acknowledges nothing keeps each for a while after haproxy has closed it.
        tcp-request connection reject if { sc0_gpc1_rate(guests) ge 600 }
        tcp-request connection sc-inc-gpc1(0)
        # Refused requests do not count: who goes on asking is answered again when the time is over.
        http-request deny deny_status 429 if { sc0_gpc0_rate ge 300 }
        http-request sc-inc-gpc0(0)
        # At each request: a guest that went keeps nothing by a connection that it has.
        http-request set-var(txn.guest) var(sess.port),map_str(/run/x/ports.map)
        http-request return status 503 content-type "text/plain; charset=utf-8" string "The metadata server is temporarily unavailable. Please try again later.\\n" hdr Retry-After 1 unless { var(txn.guest) -m found }
        http-request deny deny_status 413 if { req.hdr_val(content-length) gt 65536 }
        http-request deny deny_status 413 if { req.hdr(transfer-encoding) -m found } { req.body_len gt 8192 }
        # Not for a page in a guest's browser whose own name server leads it here (DNS rebinding).
        http-request deny deny_status 403 if { req.fhdr(host) -m found } !{ req.fhdr(host) -m reg -i '^([0-9.]+|\\[[^]]*\\]|[a-z0-9_-]+\\.?|[a-z0-9_.-]+\\.internal\\.?)?(:[0-9]*)?$' }
        # Who names another host in the request line (absolute form) is answered as who does not.
        http-request set-uri %[pathq] if { url_beg -i http:// }
        http-request deny deny_status 400 unless { path_beg / }
        http-request set-var(txn.forwarded) bool(true) if { req.hdr_names -m reg '(^|,)x[^a-z0-9]forwarded[^a-z0-9]for(,|$)' }
        http-request del-header PATTERN -m reg
        http-request set-header x-holdfast-network %[var(txn.guest),field(1,|)]
        http-request set-header x-holdfast-subject %[var(txn.guest),field(2,|)]
        http-request set-header x-holdfast-source %[var(txn.guest),field(3,|)]
        http-request set-header x-holdfast-claimed %[src]
        http-request set-header x-holdfast-client-forwarded 1 if { var(txn.forwarded) -m bool }
        default_backend metadata

      # Other ports of the Services of networks, byte for byte: the relay is told the network's port and nothing of the guest.
      backend relay
        mode tcp
        server relay unix@/run/holdfast-metadata/relay.sock send-proxy-v2 proxy-v2-options unique-id maxconn 1024

      frontend relayed
        mode tcp
        bind 127.0.0.1:1 transparent namespace holdfast-md-2a29 tcp-ut 5s
        timeout tunnel 30000ms
        unique-id-format %[var(sess.service)]
        tcp-request connection set-var(sess.port) dst,hex
        tcp-request connection set-var(sess.port) src,bytes(4,4),hex if { dst fe80::a9fe:a9fe }
        tcp-request connection set-var(sess.asked) dst_port
        tcp-request connection track-sc0 var(sess.port) table guests
        tcp-request connection reject if { sc0_conn_cur(guests) gt 64 }
        # Before one is kept: a guest that acknowledges nothing keeps each for a while after haproxy has closed it.
        tcp-request connection reject if { sc0_gpc1_rate(guests) ge 600 }
        tcp-request connection sc-inc-gpc1(0)
        tcp-request connection set-var(sess.service) var(sess.port),map_str(/run/x/ports.map),field(1,|),concat(|,sess.asked),map_str(/run/x/services.map)
        tcp-request connection reject unless { var(sess.service) -m found }
        default_backend relay
      "
    `);
  });

  test("listens by IPv4 alone where the kernel has nothing else", () => {
    expect(haproxyText({ ...PLAN, ipv6: false })).not.toContain("bind [::]");
  });

  test("removes every spelling of the identity headers, and no other header", () => {
    const [, pattern] = /del-header '(.*)' -m reg/.exec(text) as unknown as [string, string];
    const taken = new RegExp(pattern);
    for (const prefix of IDENTITY_PREFIXES) {
      for (const sign of ["-", "_", ".", "~", "*"]) {
        const name = `${prefix.replaceAll("-", sign)}x`;
        expect(taken.test(name), name).toBe(true);
        expect(strippedHeaders([[name, "evil"]]), name).toEqual([]);
      }
    }
    for (const name of ["accept", "user-agent", "x-aws-ec2-metadata-token", "metadata-flavor", "x-request-id", "range"])
      expect(taken.test(name), name).toBe(false);
  });

  test("counts nothing without a limit", () => {
    const free = haproxyText({ ...PLAN, runAs: null, rateLimit: 0 });
    expect(free).not.toMatch(/sc-inc-gpc0|deny_status 429|user haproxy/);
  });

  test("has a key for each port, and a value of three words", () => {
    const ports = [
      {
        address: 0xf0000005 as PortAddress,
        network: "blue",
        subject: "container/a/eth0",
        source: "10.0.0.5",
      },
      { address: 0xf7ff00ff as PortAddress, network: "red", subject: "container/b/a%25b", source: "fd00::5" },
    ];
    const entries = mapEntries(ports);
    expect([...entries]).toEqual([
      ["F0000005", "blue|container/a/eth0|10.0.0.5"],
      ["F7FF00FF", "red|container/b/a%25b|fd00::5"],
    ]);
    const shown = [...entries].map(([key, value], at) => `0x55d0c0ffee${at} ${key} ${value}\n`).join("");
    expect(parseShowMap(`${shown}\n`)).toEqual(entries);
    expect(() => parseShowMap("Unknown map identifier. Please use #<id> or <file>.\n")).toThrow("the map");
  });

  test("shows its processes through the master socket", () => {
    const shown = (workers: string, failed = 0) =>
      `#<PID>          <type>          <reloads>       <uptime>        <version>\n20885           master          3 [failed: ${failed}]   0d00h00m01s     2.6.12\n# workers\n${workers}# programs\n\n`;
    expect(parseShowProc(shown("20888           worker          0               0d00h00m01s     2.6.12\n"))).toEqual({
      failedReloads: 0,
      workerPid: 20888,
    });
    expect(parseShowProc(shown("", 2))).toEqual({ failedReloads: 2, workerPid: null });
    const old = "# old workers\n7               worker          1               0d00h00m01s     2.6.12\n";
    expect(parseShowProc(shown(old))).toEqual({ failedReloads: 0, workerPid: null });
    expect(parseShowProc("")).toEqual({ failedReloads: 0, workerPid: null });
  });

  test("has counters of guests, whatever the order of the columns", () => {
    const shown = "# svname,pxname,dcon,hrsp_2xx,hrsp_4xx,\nFRONTEND,waiting-room,9,9,9,\nFRONTEND,guests,3,10,2,\n\n";
    expect(parseShowStat(shown)).toEqual({
      byStatus: { "2xx": 10, "3xx": 0, "4xx": 2, "5xx": 0 },
      refusedConnections: 3,
    });
    expect(parseShowStat("# pxname,svname\nwaiting-room,FRONTEND\n")).toBeNull();
  });
});

describe("the namespace", () => {
  const main = { inner: "eth0", blocks: [0xf000], isMain: true, floods: false };
  const other = { inner: "doorf001", blocks: [0xf001, 0xf007], isMain: false, floods: true };

  test("answers by the door whose block the port's address is of", () => {
    expect(doorCommands([main, other], true)).toMatchInlineSnapshot(`
      [
        "link set lo up",
        "route replace local 240.0.0.0/5 dev lo",
        "link set eth0 mtu 1280 address 02:6d:64:00:00:03 up",
        "neigh replace 248.0.0.1 lladdr 02:6d:64:00:00:02 dev eth0 nud permanent",
        "route replace default via 248.0.0.1 dev eth0 onlink",
        "address replace fe80::a9fe:a9fe/64 dev eth0 nodad",
        "neigh replace fe80::2 lladdr 02:6d:64:00:00:02 dev eth0 nud permanent",
        "route replace fd00:6d64::/32 via fe80::2 dev eth0",
        "link set doorf001 mtu 1280 address 02:6d:64:00:00:03 up",
        "neigh replace 248.0.0.1 lladdr 01:80:c2:00:00:0d dev doorf001 nud permanent",
        "route replace default via 248.0.0.1 dev doorf001 onlink table 61441",
        "route replace default via 248.0.0.1 dev doorf001 onlink table 61447",
        "address replace fe80::a9fe:a9fe/64 dev doorf001 nodad",
        "neigh replace fe80::2 lladdr 01:80:c2:00:00:0d dev doorf001 nud permanent",
        "route replace fd00:6d64:f001::/48 via fe80::2 dev doorf001",
        "route replace fd00:6d64:f007::/48 via fe80::2 dev doorf001",
      ]
    `);
    expect(blockRules([main, other])).toEqual([
      "rule add from 240.1.0.0/16 lookup 61441 priority 100",
      "rule add from 240.7.0.0/16 lookup 61447 priority 100",
    ]);
  });

  test("has nothing of IPv6 where the kernel has none", () => {
    expect(doorCommands([main, other], false).join()).not.toContain(":a9fe");
  });
});

describe("a guest", () => {
  const wanted = (more: Partial<WantedPort>): WantedPort => ({
    network: "blue",
    containerId: "abc",
    interface: "eth0",
    netns: "/n",
    addresses: ["10.0.0.5"],
    mac: null,
    ...more,
  });

  test("is known by its recorded address, of IPv4 if it has one, in canonical form", () => {
    expect(guestOf(wanted({ addresses: ["fd00:0::5", "10.0.0.5"] }))).toMatchObject({ source: "10.0.0.5" });
    expect(guestOf(wanted({ addresses: ["FD00:0::5"] }))).toMatchObject({ source: "fd00::5" });
  });

  test("has the requested MAC in any spelling", () => {
    for (const mac of ["02-AA-BB-00-00-01", "02aa.bb00.0001", "02:aa:bb:00:00:01"])
      expect(guestOf(wanted({ mac }))).toMatchObject({ mac: "02:aa:bb:00:00:01" });
  });

  test("has nothing in its subject that a map or a header would cut", () => {
    expect(guestOf(wanted({ interface: "a |,b" }))).toMatchObject({ subject: "container/abc/a%20%7C%2Cb" });
  });
});

test("the request limit has room for a boot, and is on by default", () => {
  expect(loadNetSettings({}, {}).rateLimit).toBe(300);
  expect(() => loadNetSettings({ rateLimit: "30" }, {})).toThrow("28 requests in a second");
});
