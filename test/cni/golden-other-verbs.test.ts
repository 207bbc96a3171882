import { describe, expect } from "vitest";
import { CNI_VERSIONS } from "../../cni-shim/wire.ts";
import { errorOf, expectDone, network, runShim, tableTest as test } from "./fixtures.ts";

/*
 * DEL, CHECK, GC, STATUS and VERSION in every version of the specification: silence and exit code 0, or one CNI error
 * object and exit code 1. Versions before a verb existed are refused with code 1.
 */

const since = (first: string) => CNI_VERSIONS.slice(CNI_VERSIONS.indexOf(first as "0.1.0"));
const notSupported = (cniVersion: string, verb: string, first: string) =>
  `{"cniVersion":"${cniVersion}","code":1,"msg":"cniVersion ${cniVersion} is not supported for ${verb}",` +
  `"details":"supported versions: ${since(first).join(", ")}"}`;

describe("DEL ends what ADD began, and prints nothing", () => {
  test.for(CNI_VERSIONS)("cniVersion %s", async (cniVersion, { daemon }) => {
    const config = network(`del-${cniVersion}`, {}, { cniVersion });
    await daemon.cni("ADD", "del", { config });
    expectDone(await daemon.cni("DEL", "del", { config }));
  });
});

describe("CHECK exists since 0.4.0", () => {
  test.for(CNI_VERSIONS)("cniVersion %s", async (cniVersion, { daemon }) => {
    const config = network(`check-${cniVersion}`, {}, { cniVersion });
    const prevResult = (await daemon.cni("ADD", "check", { config })).json();
    const answer = await daemon.cni("CHECK", "check", { config: { ...config, prevResult } });
    if (since("0.4.0").includes(cniVersion)) expectDone(answer);
    else
      expect(answer).toMatchObject({
        code: 1,
        stdout: notSupported(cniVersion, "CHECK", "0.4.0"),
        stderr: "",
      });
  });
});

describe.for(["GC", "STATUS"])("%s exists since 1.1.0", (verb) => {
  test.for(CNI_VERSIONS)("cniVersion %s", async (cniVersion, { daemon }) => {
    const config = network(`${verb}-${cniVersion}`, {}, { cniVersion, "cni.dev/valid-attachments": [] });
    const answer = await daemon.cni(verb, "", { config, ifname: "", netns: "" });
    if (cniVersion === "1.1.0") expectDone(answer);
    else expect(answer).toMatchObject({ code: 1, stdout: notSupported(cniVersion, verb, "1.1.0"), stderr: "" });
  });
});

describe("VERSION", () => {
  const VERSIONS =
    '{"cniVersion":"1.1.0","supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}\n';

  test("is answered with or without a daemon, whatever is on stdin", async ({ daemon }) => {
    expect(await daemon.cni("VERSION", "", {})).toMatchObject({ code: 0, stdout: VERSIONS });
    const away = { socket: "/nonexistent/s.sock", spool: daemon.directory };
    expect(await runShim("VERSION", "", { ...away, config: "not JSON" })).toMatchObject({
      code: 0,
      stdout: VERSIONS,
    });
  });
});

describe("without a daemon", () => {
  const away = { socket: "/nonexistent/s.sock", spool: "/nonexistent/spool" };

  // "try again later"; for STATUS the specification has a code of its own.
  test.for([
    ["ADD", 11],
    ["CHECK", 11],
    ["GC", 11],
    ["STATUS", 50],
  ] as const)("%s is answered with %d", async ([verb, code]) => {
    const error = errorOf(await runShim(verb, "c1", away));
    expect(error).toMatchObject({ code, msg: expect.stringContaining("/nonexistent/s.sock") });
  });
});

describe("CHECK finds", () => {
  const config = (name: string, prevResult?: object) => ({
    ...network(name),
    ...(prevResult && { prevResult }),
  });

  test("a container that was never attached", async ({ daemon }) => {
    const error = errorOf(await daemon.cni("CHECK", "ghost", { config: config("unknown") }));
    expect(error).toMatchObject({
      code: 126,
      msg: expect.stringMatching(/ghost.*nothing is attached to network unknown/),
    });
  });

  test("a container whose DEL has come", async ({ daemon }) => {
    await daemon.cni("ADD", "ended", { config: config("ended") });
    await daemon.cni("DEL", "ended", { config: config("ended") });
    expect(errorOf(await daemon.cni("CHECK", "ended", { config: config("ended") }))).toMatchObject({
      code: 126,
    });
  });

  test("another interface of an attached container", async ({ daemon }) => {
    await daemon.cni("ADD", "c1", { config: config("interface") });
    const answer = await daemon.cni("CHECK", "c1", { config: config("interface"), ifname: "eth1" });
    expect(errorOf(answer)).toMatchObject({ code: 126, msg: expect.stringContaining("interface eth1") });
  });

  test("a prevResult with another address, and one with another mask", async ({ daemon }) => {
    await daemon.cni("ADD", "c1", { config: config("differs") });
    for (const address of ["10.10.0.2/24", "10.10.0.1/16", "nonsense"]) {
      const prevResult = { cniVersion: "1.0.0", ips: [{ address }] };
      const error = errorOf(await daemon.cni("CHECK", "c1", { config: config("differs", prevResult) }));
      expect(error).toMatchObject({
        code: 126,
        msg: expect.stringContaining(`10.10.0.1/24 is allocated, but prevResult has ${address}`),
      });
    }
  });

  test("a container whose address an operator released by force", async ({ daemon }) => {
    await daemon.cni("ADD", "c1", { config: config("forced") });
    await daemon.post("/v1/release", { network: "forced", address: "10.10.0.1", force: true });
    expect(errorOf(await daemon.cni("CHECK", "c1", { config: config("forced") }))).toMatchObject({
      code: 126,
    });
  });

  test("nothing wrong in a prevResult with further addresses, or with none", async ({ daemon }) => {
    await daemon.cni("ADD", "c1", { config: config("fine") });
    const prevResult = {
      cniVersion: "1.0.0",
      ips: [{ address: "192.0.2.7/32" }, { address: "10.10.0.1/24" }],
    };
    expectDone(await daemon.cni("CHECK", "c1", { config: config("fine", prevResult) }));
    expectDone(await daemon.cni("CHECK", "c1", { config: config("fine") }));
  });
});

describe("STATUS of a full network", () => {
  const FULL = { subnets: "192.0.2.0/32" };

  test("succeeds by default, because a failure may make the whole node not ready", async ({ daemon }) => {
    await daemon.cni("ADD", "c1", { config: network("full-ok", FULL) });
    expectDone(await daemon.cni("STATUS", "", { config: network("full-ok", FULL, { cniVersion: "1.1.0" }) }));
  });

  test('fails with 50 where the network says "statusWhenFull": "fail"', async ({ daemon }) => {
    const config = network("full-fail", { ...FULL, statusWhenFull: "fail" }, { cniVersion: "1.1.0" });
    expectDone(await daemon.cni("STATUS", "", { config }));
    await daemon.cni("ADD", "c1", { config });
    const error = errorOf(await daemon.cni("STATUS", "", { config }));
    expect(error).toMatchObject({ code: 50, msg: expect.stringContaining("full-fail") });
  });
});
