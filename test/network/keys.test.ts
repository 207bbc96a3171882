/** Keys outside of `ipam` as the real plugins read them: what bridge takes for itself, and what host-local gives. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { run, SHIM, TestDaemon } from "../harness/daemon.ts";
import { waysToWrite } from "../ipam/key-paths.ts";
import { Containers, mustRun, PLUGINS, whyNotReal } from "./containers.ts";

/** Members of the configuration, as text: a key may come twice. */
const GATEWAYS = ["isGateway", "isDefaultGateway"].flatMap((key) =>
  waysToWrite(key, "true", "false").map((members) => members.map(([name, value]) => `"${name}":${value}`).join()),
);
const ASKED = [
  '"Args":{"cni":{"ips":["10.64.0.51"]}}',
  '"args":{"CNI":{"ips":["10.64.0.51"]}}',
  '"args":{"cni":{"IPs":["10.64.0.51"]}}',
  '"args":{"cni":{"ip\u017f":["10.64.0.51"]}}',
  '"args":{"cni":{"ips":["10.64.0.51"]}},"ARGS":{"cni":{}}',
  '"args":{"cni":{"ips":["10.64.0.51"],"ips":["10.64.0.52"]}}',
  '"args":{"cni":{"ips":["10.64.0.51"],"IPS":null}}',
  '"args":null',
  '"runtimeConfig":{"IPs":["10.64.0.51"]}',
  '"RuntimeConfig":{"ips":["10.64.0.51"]}',
  '"runtimeConfig":{"ips":["10.64.0.51"]},"RUNTIMECONFIG":{"ips":["10.64.0.52"]}',
  '"runtimeConfig":{"ips":["10.64.0.51"]},"runtimeConfig":null',
];

describe.skipIf(whyNotReal() !== null)("keys as the real plugins read them", () => {
  let daemon: TestDaemon;
  let containers: Containers;
  beforeAll(async () => {
    daemon = await TestDaemon.start();
    containers = new Containers(daemon);
  });
  afterAll(async () => {
    await containers.remove();
    await daemon.stop();
  });

  test.each(GATEWAYS.map((members, at) => [members, at] as const))(
    "bridge with %s: its address is nobody else's",
    async (members, at) => {
      const bridge = containers.link("hfk");
      const namespace = await containers.create(`gw${at}`);
      const ipam = `{"type":"holdfast-ipam","subnets":"10.63.${at}.0/24"}`;
      const text = `{"cniVersion":"1.0.0","name":"gw${at}","type":"bridge","bridge":"${bridge}",${members},"ipam":${ipam}}`;
      const answer = await containers.cni("ADD", `gw${at}`, namespace, { type: "bridge" }, "", "eth0", text);
      expect(answer.code, answer.stdout).toBe(0);
      const { stdout } = await mustRun("ip", ["-o", "-4", "addr", "show", "dev", bridge]);
      const isGateway = stdout.includes("inet ");
      expect(answer.json().ips[0].address).toBe(`10.63.${at}.${isGateway ? 2 : 1}/24`);
    },
  );

  test.each(ASKED.map((members, at) => [members, at] as const))(
    "an address asked for by %s is host-local's",
    async (members, at) => {
      const directory = mkdtempSync(join(tmpdir(), "holdfast-keys-"));
      try {
        const text = (ipam: object) =>
          `{"cniVersion":"0.4.0","name":"asked${at}","type":"bridge",${members},"ipam":${JSON.stringify(ipam)}}`;
        const env = {
          CNI_COMMAND: "ADD",
          CNI_CONTAINERID: `asked${at}`,
          CNI_IFNAME: "eth0",
          CNI_NETNS: "/proc/self/ns/net",
          CNI_PATH: String(PLUGINS),
        };
        const theirs = spawnSync(join(String(PLUGINS), "host-local"), {
          input: text({ type: "host-local", subnet: "10.64.0.0/24", dataDir: directory }),
          env,
          encoding: "utf8",
        });
        const ours = await run(
          SHIM,
          [],
          { ...env, HOLDFAST_SOCKET: daemon.socket, HOLDFAST_SPOOL: daemon.spool },
          text({ type: "holdfast-ipam", subnet: "10.64.0.0/24", dataDir: directory }),
        );
        expect(JSON.parse(ours.stdout).ips?.[0].address, ours.stdout).toBe(JSON.parse(theirs.stdout).ips[0].address);
      } finally {
        rmSync(directory, { recursive: true });
      }
    },
  );
});
