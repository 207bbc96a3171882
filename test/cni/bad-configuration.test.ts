import { describe, expect } from "vitest";
import { errorOf, expectServing, held, network, tableTest as test } from "./fixtures.ts";

/*
 * A wrong configuration is refused with code 7 (6 when it is no JSON object at all) and a message that begins with the
 * key and the value. Nothing is silently ignored, nothing is kept, and the next good request is served: no restart.
 */

const deep = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;
/** The `ipam` block alone, without the `subnets` that `network` gives. */
const ipam = (keys: object) => ({ ...network("bad"), ipam: { type: "holdfast-ipam", ...keys } });

const UNREADABLE: [string, string, string][] = [
  ["nothing", "", "Unexpected end of JSON input"],
  ["cut off", '{"cniVersion":"1.0.0","name":"bad","ipam":{"type":', "Unexpected end of JSON input"],
  ["a comma too many", '{"name":"bad",}', "Expected double-quoted property name"],
  ["two objects", "{}{}", "Unexpected non-whitespace character"],
  ["YAML", "name: bad\ntype: bridge\n", "Unexpected token"],
  ["a byte order mark", `\ufeff${JSON.stringify(network("bad"))}`, "Unexpected token"],
  ["null", "null", "expected an object"],
  ["a list", "[]", "expected an object"],
  ["a text", '"bad"', "expected an object"],
  ["lists within lists, a hundred thousand deep", deep(100_000), "it is nested deeper than 64 levels"],
  ["larger than any configuration", `{"padding":"${"x".repeat(600_000)}"}`, "larger than 524288 bytes"],
];

/** [reason, configuration, how the message begins] */
const NAMES: [string, object, string][] = [
  ["no name", { ...network("bad"), name: undefined }, "name is missing: "],
  ["an empty name", network(""), "name is missing: "],
  ["a name that is a number", { ...network("bad"), name: 7 }, "name is 7: "],
  ["a name with a slash", network("../bad"), 'name is "../bad": '],
  ["a name with white space", network("b ad"), 'name is "b ad": '],
  ["a name that begins with a dash", network("-bad"), 'name is "-bad": '],
  ["a name of 300 letters", network("b".repeat(300)), 'name is "bbb'],
  ["a name in another script", network("сеть"), 'name is "сеть": '],
];

const BLOCKS: [string, object, string][] = [
  ["no ipam block", { ...network("bad"), ipam: undefined }, "ipam is missing: "],
  ["an ipam block that is a text", { ...network("bad"), ipam: "holdfast-ipam" }, 'ipam is "holdfast-ipam": '],
  ["an ipam block that is a list", { ...network("bad"), ipam: [] }, "ipam is []: "],
  ["another plugin's type", network("bad", { type: "host-local" }), 'ipam.type is "host-local": '],
  ["no type", network("bad", { type: undefined }), "ipam.type is missing"],
  ["an unknown key", network("bad", { colour: "blue" }), 'ipam.colour is "blue": no such key; known are type, subnets'],
  [
    "a key in another case",
    network("bad", { excludesubnets: "10.10.0.0/29" }),
    'ipam.excludesubnets is "10.10.0.0/29": write excludeSubnets',
  ],
  ["whereabouts' key", network("bad", { range: "10.10.0.0/24" }), 'ipam.range is "10.10.0.0/24": no such key'],
  [
    "a key that would alter objects in JavaScript",
    JSON.parse(
      '{"cniVersion":"1.0.0","name":"bad","ipam":{"type":"holdfast-ipam","subnets":"10.1.0.0/24","__proto__":{"gateway":"10.1.0.9"}}}',
    ),
    "ipam.__proto__ is ",
  ],
  ["no ranges, and no definition applied", ipam({}), "network bad has no ranges"],
];

const THE_REST: [string, object, string][] = [
  ["routes: a text", network("bad", { routes: "0.0.0.0/0" }), 'ipam.routes is "0.0.0.0/0": '],
  ["routes: no dst", network("bad", { routes: [{ gw: "10.10.0.1" }] }), "ipam.routes[0].dst is missing: "],
  [
    "routes: dst default",
    network("bad", { routes: [{ dst: "default" }] }),
    'ipam.routes[0].dst is "default": write 0.0.0.0/0, or ::/0 for IPv6',
  ],
  [
    "routes: gw of the other family",
    network("bad", { routes: [{ dst: "::/0", gw: "10.10.0.1" }] }),
    'ipam.routes[0].gw is "10.10.0.1": the route to ::/0 needs an IPv6 gateway',
  ],
  [
    "routes: an unknown key",
    network("bad", { routes: [{ dst: "0.0.0.0/0", metric: 5 }] }),
    "ipam.routes[0].metric is 5: no such key",
  ],
  [
    "routes: an mtu below zero",
    network("bad", { routes: [{ dst: "0.0.0.0/0", mtu: -1 }] }),
    "ipam.routes[0].mtu is -1: ",
  ],
  ["dns: a text", network("bad", { dns: "10.1.0.53" }), 'ipam.dns is "10.1.0.53": '],
  [
    "dns: a nameserver that is none",
    network("bad", { dns: { nameservers: ["ns1"] } }),
    'ipam.dns.nameservers[0] is "ns1": ',
  ],
  ["dns: an unknown key", network("bad", { dns: { servers: [] } }), "ipam.dns.servers is []: no such key"],
  ["resolvConf: a relative path", network("bad", { resolvConf: "resolv.conf" }), 'ipam.resolvConf is "resolv.conf": '],
  [
    "resolvConf: a file that is not there",
    network("bad", { resolvConf: "/nonexistent/resolv.conf" }),
    "ipam.resolvConf is /nonexistent/resolv.conf: ",
  ],
  ["resolvConf: a directory", network("bad", { resolvConf: "/proc" }), "ipam.resolvConf is /proc: "],
  ["cooldownSeconds: a text", network("bad", { cooldownSeconds: "60" }), 'ipam.cooldownSeconds is "60": '],
  ["cooldownSeconds: below zero", network("bad", { cooldownSeconds: -1 }), "ipam.cooldownSeconds is -1"],
  ["cooldownSeconds: half a second", network("bad", { cooldownSeconds: 0.5 }), "ipam.cooldownSeconds is 0.5"],
  ["cooldownSeconds: without end", network("bad", { cooldownSeconds: 1e12 }), "ipam.cooldownSeconds is 1000000000000"],
  [
    "allowPersistentIPs inside ipam",
    network("bad", { allowPersistentIPs: true }, {}),
    "ipam.allowPersistentIPs is true: write allowPersistentIPs at the plugin's top level",
  ],
  ["allowPersistentIPs: a text", network("bad", {}, { allowPersistentIPs: "true" }), 'allowPersistentIPs is "true": '],
  ["statusWhenFull: another word", network("bad", { statusWhenFull: "warn" }), 'ipam.statusWhenFull is "warn": '],
  [
    "runtimeConfig.ips: a text",
    network("bad", {}, { runtimeConfig: { ips: "10.10.0.5" } }),
    'runtimeConfig.ips is "10.10.0.5": ',
  ],
  ["runtimeConfig: a list", network("bad", {}, { runtimeConfig: [] }), "runtimeConfig is []: "],
  ["runtimeConfig.ips: a number", network("bad", {}, { runtimeConfig: { ips: [7] } }), "runtimeConfig.ips is 7: "],
  ["args.cni.ips: an object", network("bad", {}, { args: { cni: { ips: {} } } }), "args.cni.ips is {}: "],
];

/** Where a value nested so deeply stands that a program which walks it by recursion falls over. */
const DEEP: [string, (value: string) => string][] = [
  ["subnets", (value) => `{"name":"bad","ipam":{"type":"holdfast-ipam","subnets":[${value}]}}`],
  ["an unknown key", (value) => `{"name":"bad","ipam":{"type":"holdfast-ipam","colour":${value}}}`],
  ["the ipam block", (value) => `{"name":"bad","ipam":${value}}`],
  ["the name", (value) => `{"name":${value}}`],
  ["the version", (value) => `{"cniVersion":${value},"name":"bad"}`],
  ["args", (value) => `{"name":"bad","args":${value},"ipam":{"type":"holdfast-ipam","subnets":"10.1.0.0/24"}}`],
  ["objects", (value) => `{"name":"bad","x":${value.replaceAll("[", '{"a":[').replaceAll("]", "]}")}}`],
];

describe("a configuration that is no JSON object is refused with code 6", () => {
  test.for(UNREADABLE)("%s", async ([, config, message], { daemon }) => {
    expect(errorOf(await daemon.cni("ADD", "c1", { config }))).toMatchObject({
      code: 6,
      msg: expect.stringContaining(message),
    });
    await expectServing(daemon);
  });
});

describe("a configuration nested a hundred thousand levels deep is refused with code 6", () => {
  test.for(DEEP)("%s", async ([reason, config], { daemon }) => {
    const answer = await daemon.cni("ADD", "c1", {
      config: config(deep(reason === "objects" ? 50_000 : 100_000)),
    });
    expect(errorOf(answer)).toMatchObject({
      code: 6,
      msg: expect.stringContaining("nested deeper than 64 levels"),
    });
    await expectServing(daemon);
  });
});

describe.for([
  ["name", NAMES],
  ["the ipam block", BLOCKS],
  ["the rest", THE_REST],
] as const)("%s is refused with code 7", ([, rows]) => {
  test.for(rows)("%s", async ([, config, message], { daemon }) => {
    const error = errorOf(await daemon.cni("ADD", "c1", { config }));
    expect(error).toMatchObject({ code: 7, msg: expect.stringMatching(/./) });
    expect(error.msg.slice(0, message.length)).toBe(message);
    expect(await held(daemon, "bad")).toEqual([]);
    await expectServing(daemon);
  });
});

describe("the other verbs refuse a bad configuration too", () => {
  const faulty = network("bad", { gateway: "10.10.0.0" }, { cniVersion: "1.1.0" });
  test.for(["CHECK", "STATUS"])("%s", async (verb, { daemon }) => {
    expect(errorOf(await daemon.cni(verb, "c1", { config: faulty }))).toMatchObject({
      cniVersion: "1.1.0",
      code: 7,
      msg: expect.stringContaining('ipam.gateway is "10.10.0.0"'),
    });
    expect(errorOf(await daemon.cni(verb, "c1", { config: "{" }))).toMatchObject({ code: 6 });
    await expectServing(daemon);
  });

  test("GC does not judge the ranges", async ({ daemon }) => {
    expect(errorOf(await daemon.cni("GC", "", { config: "{" }))).toMatchObject({ code: 6 });
    const config = { ...faulty, "cni.dev/valid-attachments": [] };
    expect(await daemon.cni("GC", "", { config })).toMatchObject({ code: 0 });
  });
});
