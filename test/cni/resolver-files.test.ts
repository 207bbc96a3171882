import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test as plainTest } from "vitest";
import { RefusalError } from "../../ipam/refusals.ts";
import { ResolverFiles } from "../../platform/resolv-conf.ts";
import { systemClock } from "../../platform/time.ts";
import { errorOf, expectServing, newDirectory, tableTestWith } from "./fixtures.ts";

/*
 * `ipam.resolvConf` makes a daemon that runs as root open a file and answer what is in it. Only files that the operator
 * allows are opened, and only as what a resolv.conf is: a small regular file.
 */

const directory = newDirectory();
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const at = (name: string) => join(directory, name);

const TEXT = "nameserver 10.10.0.53\nsearch blue.example\n";
writeFileSync(at("resolv.conf"), TEXT);
writeFileSync(at("other"), "nameserver secret\n");
symlinkSync(at("resolv.conf"), at("link-to-allowed"));
symlinkSync(at("other"), at("link-to-other"));
symlinkSync("/dev/zero", at("link-to-zero"));
mkdirSync(at("directory"));
execFileSync("mkfifo", [at("fifo")]);
writeFileSync(at("huge"), "nameserver 10.10.0.53\n");
truncateSync(at("huge"), 10 * 1024 ** 3);
writeFileSync(at("largest"), TEXT.padEnd(65_536));
writeFileSync(at("too-large"), TEXT.padEnd(65_537));

const ALLOWED = [
  ...["resolv.conf", "link-to-allowed", "link-to-other", "link-to-zero", "directory", "fifo", "huge"].map(at),
  ...["absent", "largest", "too-large"].map(at),
  "/proc/self/fd/1",
  "/dev/zero",
];

const DNS = { nameservers: ["10.10.0.53"], search: ["blue.example"] };

/** [what the file is, path, remedy] */
const REFUSED: [string, string, RegExp][] = [
  ["a file that nobody allowed", at("other"), /: allowed are .*\(resolvConfPaths in the daemon's settings\)$/],
  ["a path that only resolves to an allowed one", `${directory}/directory/../resolv.conf`, /: allowed are /],
  ["the journal of processes", "/proc/self/environ", /: allowed are /],
  ["a link to a file that nobody allowed", at("link-to-other"), /: it is a link to .*other; allowed are /],
  ["a link to an endless device", at("link-to-zero"), /: it is a link to \/dev\/zero|a regular file/],
  ["the daemon's own output", "/proc/self/fd/1", /: (it is a link to|a readable resolv.conf)/],
  ["an endless device", "/dev/zero", /: a regular file is required$/],
  ["a FIFO that nobody writes to", at("fifo"), /: a regular file is required$/],
  ["a directory", at("directory"), /: a regular file is required$/],
  ["a file of ten gigabytes", at("huge"), /: a resolv.conf of at most 65536 bytes is required$/],
  ["a file one byte too large", at("too-large"), /: a resolv.conf of at most 65536 bytes is required$/],
  ["a file that is absent", at("absent"), /: a readable resolv.conf is required \(ENOENT/],
];

const test = tableTestWith("--resolv-conf-paths", ALLOWED.join(","));

describe("a network whose ipam.resolvConf is", () => {
  test.for(REFUSED)("%s is refused, and the daemon keeps serving", async ([, path, remedy], { daemon }) => {
    const config = networkWith(path, `refused${REFUSED.findIndex((row) => row[1] === path)}`);
    const error = errorOf(await daemon.cni("ADD", "c1", { config }));
    expect(error.code).toBe(7);
    expect(error.msg).toContain(`ipam.resolvConf is ${path}: `);
    expect(error.msg).toMatch(remedy);
    await expectServing(daemon);
    const { allocations } = (await daemon.get("/v1/allocations")).json();
    expect(allocations ?? []).toEqual([]);
  });

  test.for([
    ["an allowed file", "resolv.conf"],
    ["an allowed link to an allowed file", "link-to-allowed"],
    ["an allowed file of the largest size", "largest"],
  ])("%s gives its DNS", async ([, name], { daemon }) => {
    const config = networkWith(at(name as string), `given-${name}`);
    const answer = await daemon.cni("ADD", "c1", { config });
    expect(answer.json().dns).toEqual(DNS);
    await daemon.cni("DEL", "c1", { config });
  });

  test("an allowed file gives the DNS of an identity too", async ({ daemon }) => {
    const config = networkWith(at("resolv.conf"), "told");
    await daemon.cni("ADD", "told1", { config });
    const { identity } = (await daemon.get("/v1/identity?container=told1")).json();
    expect(identity.interfaces[0].dns).toEqual(DNS);
    await daemon.cni("DEL", "told1", { config });
  });

  test("refused in an applied definition is a finding of holdfast check", async ({ daemon }) => {
    const path = at("other");
    const object = {
      apiVersion: "k8s.cni.cncf.io/v1",
      kind: "NetworkAttachmentDefinition",
      metadata: { name: "found", namespace: "default" },
      spec: { config: JSON.stringify(networkWith(path, "found")) },
    };
    await daemon.post("/v1/apply", { objects: [object] });
    const { code, stdout } = await daemon.cli("check");
    expect(code).toBe(1);
    expect(stdout).toContain(`network: network found serves no ADD: ipam.resolvConf is ${path}: `);
    await daemon.post("/v1/delete", { objects: [object] });
    expect(await daemon.cli("check")).toMatchObject({ code: 0 });
  });
});

function networkWith(resolvConf: string, name: string): object {
  return {
    cniVersion: "1.0.0",
    name,
    type: "bridge",
    ipam: { type: "holdfast-ipam", subnet: "10.10.0.0/24", resolvConf },
  };
}

plainTest("no file is opened where tenants can write the configuration", async () => {
  const files = new ResolverFiles({ paths: ALLOWED, refused: true, clock: systemClock });
  const error = await files.read(at("resolv.conf")).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(RefusalError);
  expect((error as RefusalError).refusal).toMatchObject({
    code: "CONFIG_INVALID",
    message: expect.stringMatching(/ipam\.resolvConf is .*set resolvConfInNads: on in the daemon's settings$/),
  });
});
