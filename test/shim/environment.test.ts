/** The CNI environment, checked as the frame of the Go plugins (`skel`) does it. */
import { describe, expect, test } from "vitest";
import { CNI_VERSIONS } from "../../cni-shim/wire.ts";
import { requireTool } from "../harness/needs.ts";
import { BINARIES, cniError, type Environment, environmentOf, runShim } from "./harness.ts";

const ADD = environmentOf("ADD");
const without = (env: Environment, ...names: string[]): Environment => ({
  ...env,
  ...Object.fromEntries(names.map((name) => [name, undefined])),
});
const missing = (names: string) => `required env variables [${names}] missing`;

const ATTACHMENT = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"];
const MISSING: [string, Environment, string][] = [
  ["no command", {}, "CNI_COMMAND"],
  ["no command, all else there", without(ADD, "CNI_COMMAND"), "CNI_COMMAND"],
  ["an empty command", { ...ADD, CNI_COMMAND: "" }, "CNI_COMMAND"],
  ["ADD, nothing else", { CNI_COMMAND: "ADD" }, ATTACHMENT.join(",")],
  ["ADD, three gone", without(ADD, "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"), "CNI_NETNS,CNI_IFNAME,CNI_PATH"],
  ["ADD, one empty", { ...ADD, CNI_NETNS: "" }, "CNI_NETNS"],
  ["ADD, missing before invalid", { ...without(ADD, "CNI_PATH"), CNI_IFNAME: "a/b" }, "CNI_PATH"],
  ["CHECK, nothing else", { CNI_COMMAND: "CHECK" }, ATTACHMENT.join(",")],
  ["DEL, nothing else: netns is optional", { CNI_COMMAND: "DEL" }, "CNI_CONTAINERID,CNI_IFNAME,CNI_PATH"],
  ["GC, nothing else", { CNI_COMMAND: "GC" }, "CNI_PATH"],
  ["STATUS, nothing else", { CNI_COMMAND: "STATUS" }, "CNI_PATH"],
];

const BAD_ID = "invalid characters in containerID";
const BAD_CHARACTER = "interface name contains / or : or whitespace characters";
const TOO_LONG = "interface name is too long";
const INVALID: [string, Environment, string, string][] = [
  ["container ID that begins with -", { CNI_CONTAINERID: "-a" }, BAD_ID, "-a"],
  ["container ID that begins with .", { CNI_CONTAINERID: ".a" }, BAD_ID, ".a"],
  ["container ID with a slash", { CNI_CONTAINERID: "a/../b" }, BAD_ID, "a/../b"],
  ["container ID with a line end", { CNI_CONTAINERID: "a\n" }, BAD_ID, "a\n"],
  ["container ID beyond ASCII", { CNI_CONTAINERID: "aé" }, BAD_ID, "aé"],
  ["container ID before interface name", { CNI_CONTAINERID: "a b", CNI_IFNAME: "a/b" }, BAD_ID, "a b"],
  ["16 bytes of name", { CNI_IFNAME: "a".repeat(16) }, TOO_LONG, "interface name should be less than 16 characters"],
  ["one dot", { CNI_IFNAME: "." }, "interface name is . or ..", ""],
  ["two dots", { CNI_IFNAME: ".." }, "interface name is . or ..", ""],
  ["a slash", { CNI_IFNAME: "a/b" }, BAD_CHARACTER, ""],
  ["a colon", { CNI_IFNAME: "eth0:1" }, BAD_CHARACTER, ""],
  ["a space", { CNI_IFNAME: "eth 0" }, BAD_CHARACTER, ""],
  ["a tab", { CNI_IFNAME: "eth\t0" }, BAD_CHARACTER, ""],
  ["a line end", { CNI_IFNAME: "eth0\n" }, BAD_CHARACTER, ""],
  ["a no-break space", { CNI_IFNAME: "eth\u00a00" }, BAD_CHARACTER, ""],
  ["an ideographic space", { CNI_IFNAME: "eth\u30000" }, BAD_CHARACTER, ""],
];

describe.each(BINARIES)("environment, $build", (binary) => {
  test.each(MISSING)("missing: %s", async (_reason, env, names) => {
    const error = cniError(await runShim(binary, { env, stdin: "open" }));
    expect(error).toEqual({ cniVersion: "1.0.0", code: 4, msg: missing(names), details: "" });
  });

  test.each(INVALID)("invalid: %s", async (_reason, env, msg, details) => {
    const errors = ["ADD", "CHECK", "DEL"].map(async (verb) => {
      const outcome = await runShim(binary, { env: { ...ADD, ...env, CNI_COMMAND: verb }, stdin: "open" });
      expect(cniError(outcome)).toEqual({ cniVersion: "1.0.0", code: 4, msg, details });
    });
    await Promise.all(errors);
  });

  test("an unknown command is named, whatever bytes it has", async () => {
    const unknown = cniError(await runShim(binary, { env: { ...ADD, CNI_COMMAND: "NOPE" } }));
    expect(unknown).toMatchObject({ code: 4, msg: "unknown CNI_COMMAND: NOPE", details: "" });

    const bytes = Buffer.from('\x01"\\\n\xff\xc3x', "latin1");
    const odd = cniError(await runShim(binary, { env: ADD, envBytes: { CNI_COMMAND: bytes } }));
    expect(odd.msg).toBe('unknown CNI_COMMAND: \x01"\\\n\ufffd\ufffdx');

    const long = cniError(await runShim(binary, { env: { ...ADD, CNI_COMMAND: "é".repeat(50_000) } }));
    expect(long.msg).toMatch(/^unknown CNI_COMMAND: é+\ufffd?$/);
  });

  test("a container ID that is no UTF-8 is quoted as valid JSON", async () => {
    const error = cniError(
      await runShim(binary, { env: ADD, envBytes: { CNI_CONTAINERID: Buffer.from([0x61, 0x80, 0x1f]) } }),
    );
    expect(error).toMatchObject({ code: 4, msg: BAD_ID, details: "a\ufffd\u001f" });
  });

  test("VERSION is answered without reading stdin, and needs nothing else", async () => {
    const { status, stdout, stderr } = await runShim(binary, {
      env: { CNI_COMMAND: "VERSION" },
      stdin: "open",
    });
    expect({ status, stdout, stderr }).toEqual({
      status: 0,
      stdout: '{"cniVersion":"1.1.0","supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}\n',
      stderr: "",
    });
    expect(JSON.parse(stdout).supportedVersions).toEqual(CNI_VERSIONS);
  });

  test("on a terminal the binary explains what it is", async (context) => {
    requireTool(context, "script", "-qec", "true", "/dev/null");
    const through = 'exec script -qec "$0" /dev/null';
    const { status, stdout } = await runShim(binary, { env: {}, through, stdin: "" });
    expect(status).toBe(0);
    expect(stdout).toMatch(/^CNI IPAM plugin holdfast-ipam: /);
    expect(stdout).toContain(`CNI protocol versions supported: ${CNI_VERSIONS.join(", ")}`);
  });
});
