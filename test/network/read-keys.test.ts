/**
 * Every key of a configuration as the real plugins read it: what one of them takes of it is what Holdfast's reader
 * says.
 */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parsePassed } from "../../ipam/definition/definition-keys.ts";
import { CONFIGURATION_KEYS, PREVIOUS_RESULT_KEYS } from "../../ipam/definition/read-keys.ts";
import { type CniAnswer, run, TestDaemon } from "../harness/daemon.ts";
import { pathsOf, textAt, valueAt, waysToWrite } from "../ipam/key-paths.ts";
import { Containers, mustRun, PLUGINS, whyNotReal } from "./containers.ts";

interface Observation {
  readonly plugin: string;
  /** Two values of the key, as JSON. */
  readonly values: readonly [string, string];
  /** What else the plugin needs; `directory` is for host-local. */
  beside?(directory: string): object;
  /** What the plugin took: the value at `leaf`, or else of the key itself. undefined: none. */
  took(answer: CniAnswer, directory: string): unknown;
  readonly leaf?: string;
}

/** The plugin complains of the value, and so names it. Nothing is created. */
const complaint = (pattern: RegExp) => (answer: CniAnswer) => pattern.exec(answer.stdout)?.[1];
const numbered = (pattern: RegExp) => (answer: CniAnswer) => {
  const found = pattern.exec(answer.stdout)?.[1];
  return found === undefined ? undefined : Number(found);
};
const IPAM = { ipam: { type: "no-such-ipam" } };
const BRIDGE = { plugin: "bridge", beside: () => ({ bridge: "hfk0", ...IPAM }) };
const BAD_MAC = complaint(/address (\w+): invalid MAC address/);
const MAC_OF_BRIDGE = { ...BRIDGE, took: BAD_MAC };
const PTP_IPAM = { plugin: "ptp", took: complaint(/failed to find plugin \\"(\w+)\\"/) };
const hostLocal = (took: Observation["took"], subnet?: string) => ({
  plugin: "host-local",
  beside: (directory: string) => ({
    ipam: { type: "host-local", dataDir: directory, ...(subnet === undefined ? {} : { subnet }) },
  }),
  took,
});
const ASKED = hostLocal((answer) => {
  const address = /"address": "(10\.64\.0\.5[12])\/24"/.exec(answer.stdout)?.[1];
  return address === undefined ? undefined : [address];
}, "10.64.0.0/24");
const passedOn = (answer: CniAnswer) => /"address": "([^"]+)"/.exec(answer.stdout)?.[1];

const OBSERVED: Readonly<Record<string, Observation>> = {
  cniVersion: {
    plugin: "portmap",
    values: ['"0.4.0"', '"0.3.1"'],
    beside: () => ({ prevResult: { cniVersion: "0.4.0" } }),
    // Of a configuration without one the plugin says 0.1.0.
    took: (answer) => /"cniVersion": "(0\.[34]\.\d)"/.exec(answer.stdout)?.[1],
  },
  name: {
    ...hostLocal((_, directory) => readdirSync(directory)[0], "10.64.0.0/24"),
    values: ['"first"', '"second"'],
  },
  ipam: { ...PTP_IPAM, values: ['{"type":"first"}', '{"type":"second"}'], leaf: "ipam.type" },
  "ipam.type": { ...PTP_IPAM, values: ['"first"', '"second"'] },
  // Both are interfaces already, of another kind.
  bridge: {
    plugin: "bridge",
    values: ['"first"', '"second"'],
    took: complaint(/\\"(\w+)\\" already exists but is not a bridge/),
  },
  master: {
    plugin: "ipvlan",
    values: ['"none1"', '"none2"'],
    took: complaint(/failed to lookup master \\"(\w+)\\"/),
  },
  vlan: { ...BRIDGE, values: ["5000", "5001"], took: numbered(/invalid VLAN ID (\d+)/) },
  vlanId: {
    plugin: "vlan",
    values: ["5000", "5001"],
    beside: () => ({ master: "lo" }),
    took: numbered(/invalid VLAN ID (\d+)/),
  },
  mac: { plugin: "macvlan", values: ['"one"', '"two"'], beside: () => ({ master: "lo" }), took: BAD_MAC },
  mtu: {
    plugin: "macvlan",
    values: ["70000", "70001"],
    beside: () => ({ master: "lo" }),
    took: numbered(/invalid MTU (\d+)/),
  },
  args: {
    ...MAC_OF_BRIDGE,
    values: ['{"cni":{"mac":"one"}}', '{"cni":{"mac":"two"}}'],
    leaf: "args.cni.mac",
  },
  "args.cni": { ...MAC_OF_BRIDGE, values: ['{"mac":"one"}', '{"mac":"two"}'], leaf: "args.cni.mac" },
  "args.cni.mac": { ...MAC_OF_BRIDGE, values: ['"one"', '"two"'] },
  "args.cni.ips": { ...ASKED, values: ['["10.64.0.51"]', '["10.64.0.52"]'] },
  runtimeConfig: { ...MAC_OF_BRIDGE, values: ['{"mac":"one"}', '{"mac":"two"}'], leaf: "runtimeConfig.mac" },
  "runtimeConfig.mac": { ...MAC_OF_BRIDGE, values: ['"one"', '"two"'] },
  "runtimeConfig.ips": { ...ASKED, values: ['["10.64.0.51"]', '["10.64.0.52"]'] },
  "runtimeConfig.ipRanges": {
    ...hostLocal((answer) => {
      const net = /"address": "(10\.6[56])\./.exec(answer.stdout)?.[1];
      return net === undefined ? undefined : [[{ subnet: `${net}.0.0/24` }]];
    }),
    values: ['[[{"subnet":"10.65.0.0/24"}]]', '[[{"subnet":"10.66.0.0/24"}]]'],
  },
  prevResult: {
    plugin: "portmap",
    values: ['{"ips":[{"address":"10.9.0.1/24"}]}', '{"ips":[{"address":"10.9.0.2/24"}]}'],
    took: passedOn,
    leaf: "prevResult.ips.0.address",
  },
  "prevResult.ips": {
    plugin: "portmap",
    values: ['[{"address":"10.9.0.1/24"}]', '[{"address":"10.9.0.2/24"}]'],
    took: passedOn,
    leaf: "prevResult.ips.0.address",
  },
  "prevResult.ips.0.address": {
    plugin: "portmap",
    values: ['"10.9.0.1/24"', '"10.9.0.2/24"'],
    took: passedOn,
  },
};

/**
 * What none of the plugins that Debian has (1.1.1) reads, and why; the keys of pods' annotations are read by none of
 * them.
 */
const UNOBSERVED: Readonly<Record<string, readonly string[]>> = {
  "runtimes choose the plugin by it (libcni)": ["type"],
  "bridge creates an interface with it: keys.test.ts": ["isGateway", "isDefaultGateway"],
  "Holdfast's own, or OVN-Kubernetes'": [
    ...["subnets", "excludeSubnets", "reservedSubnets", "reservations", "gateway", "allowPersistentIPs"],
    ...["cooldownSeconds", "retainSeconds", "statusWhenFull", "routes", "args.cni.ipam-claim-reference"],
  ],
  "GC came with version 1.4 of the plugins": ["cni.dev/valid-attachments", "cni.dev/attachments"].flatMap((key) => [
    key,
    `${key}.0.containerID`,
    `${key}.0.ifname`,
  ]),
};

const PATHS = [
  ...pathsOf(CONFIGURATION_KEYS).map(({ path }) => path),
  ...pathsOf(PREVIOUS_RESULT_KEYS).map(({ path }) => ["prevResult", ...path]),
].map((path) => path.join("."));

test("every key is observed, or it is said why not", () => {
  expect([...Object.keys(OBSERVED), ...Object.values(UNOBSERVED).flat()].sort()).toEqual(PATHS.sort());
});

describe.skipIf(whyNotReal() !== null)("keys as the real plugins read them", () => {
  let daemon: TestDaemon;
  let containers: Containers;
  let namespace: string;
  let directory: string;
  beforeAll(async () => {
    daemon = await TestDaemon.start();
    containers = new Containers(daemon);
    namespace = await containers.create("keys");
    directory = mkdtempSync(join(tmpdir(), "holdfast-read-keys-"));
    await mustRun("ip", [...["-n", namespace, "link", "add", "first", "type", "veth", "peer", "name", "second"]]);
    const config = {
      cniVersion: "1.0.0",
      name: "checked",
      ipam: { type: "holdfast-ipam", subnet: "10.67.0.0/24" },
    };
    expect((await daemon.cni("ADD", "checked", { config })).code).toBe(0);
  });
  afterAll(async () => {
    rmSync(directory, { recursive: true });
    await containers.remove();
    await daemon.stop();
  });

  /** What the plugin took, and what Holdfast reads, of the key written so. */
  async function compare(path: string, members: readonly (readonly [string, string])[]) {
    const { plugin, beside, took, leaf = path } = OBSERVED[path] as Observation;
    const used = mkdtempSync(join(directory, "host-local-"));
    const keys = path.split(".");
    const own = { cniVersion: "1.0.0", name: "keys", type: plugin, ...beside?.(used) };
    const rest = Object.entries(own).filter(([key]) => key !== keys[0]);
    const inside = textAt(keys, members).slice(1, -1);
    const text = `{${rest.map(([key, value]) => `"${key}":${JSON.stringify(value)}`).join()},${inside}}`;
    const env = {
      CNI_COMMAND: "ADD",
      CNI_CONTAINERID: "keys",
      CNI_IFNAME: "eth0",
      CNI_NETNS: "/proc/self/ns/net",
      CNI_PATH: String(PLUGINS),
    };
    // All that a plugin creates is in the namespace, and goes with it.
    const answer = await run(
      "ip",
      ["netns", "exec", namespace, join(String(PLUGINS), plugin)],
      { PATH: String(process.env.PATH), ...env },
      text,
    );
    const theirs = took({ ...answer, json: () => JSON.parse(answer.stdout) }, used);
    const ours = leaf.startsWith("prevResult.")
      ? await checked(inside)
      : (valueAt(parsePassed(text), leaf.split(".")) ?? undefined);
    return { ours, theirs, said: `${text}\n${answer.stdout}` };
  }

  /** The address that CHECK finds in prevResult, which is another one than the container has. */
  async function checked(prevResult: string): Promise<unknown> {
    const text = `{"cniVersion":"1.0.0","name":"checked","ipam":{"type":"holdfast-ipam","subnet":"10.67.0.0/24"},${prevResult}}`;
    const answer = await daemon.cni("CHECK", "checked", { config: text });
    return /prevResult has (10\.9\.0\.\d\/24)/.exec(answer.stdout)?.[1];
  }

  test.each(Object.keys(OBSERVED))("%s", async (path) => {
    const name = path.split(".").at(-1) as string;
    const [one, other] = (OBSERVED[path] as Observation).values;
    const seen = [];
    for (const value of [one, other]) {
      const { ours, theirs, said } = await compare(path, [[name, value]]);
      expect(theirs, said).toBeDefined();
      expect(ours, said).toEqual(theirs);
      seen.push(theirs);
    }
    expect(seen[0]).not.toEqual(seen[1]);
    for (const members of waysToWrite(name, one, other)) {
      const { ours, theirs, said } = await compare(path, members);
      // Where the plugin refuses null as an address there is no container.
      if (path !== "prevResult.ips.0.address" || !said.includes("could not parse prevResult"))
        expect.soft(ours, said).toEqual(theirs);
    }
  });
});
