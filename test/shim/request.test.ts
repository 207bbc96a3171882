/** What the shim sends: the CNI environment and stdin, verbatim, as the JSON object of `wire.ts`. */
import { readFileSync, statSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { CNI_BODY_BYTES_MAX } from "../../cni-shim/wire.ts";
import { always, httpAnswer, startDaemon, wireRequest } from "./daemon.ts";
import { BINARIES, type Binary, environmentOf, runShim, type ShimCall, temporaryDirectory, VERBS } from "./harness.ts";

const STDIN_BYTES_MAX = 512 * 1024;
const OK = always(httpAnswer(200, '{"ips":[]}'));

/** Runs one ADD (or what `call` says) and returns the request as it arrived. */
async function capture(binary: Binary, call: Partial<ShimCall>) {
  const daemon = await startDaemon(OK);
  const env = { ...environmentOf("ADD"), ...call.env, HOLDFAST_SOCKET: daemon.socketPath };
  const outcome = await runShim(binary, { ...call, env });
  expect(outcome).toMatchObject({ status: 0, stderr: "" });
  expect(daemon.requests).toHaveLength(1);
  const { head, body } = daemon.requests[0] ?? { head: "", body: Buffer.alloc(0) };
  return { head, body, request: wireRequest(body) };
}

/** Bytes of stdin, and the same between the quotes of the JSON string. */
const hex = (text: string) => Buffer.from(text.replaceAll(" ", ""), "hex");
const BAD = "\ufffd";
const ESCAPING: [string, Buffer, string][] = [
  ["plain JSON", Buffer.from('{"name":"a\\n"}'), '{\\"name\\":\\"a\\\\n\\"}'],
  ["short escapes", hex("08 09 0a 0c 0d"), "\\b\\t\\n\\f\\r"],
  ["NUL and its kin", hex("00 01 07 0b 0e 1f"), "\\u0000\\u0001\\u0007\\u000b\\u000e\\u001f"],
  ["DEL and slash need nothing", hex("7f 2f"), "\x7f/"],
  ["two, three and four bytes", Buffer.from("é€😀\u2028\ufeff\u{10ffff}"), "é€😀\u2028\ufeff\u{10ffff}"],
  ["a lone continuation", hex("61 80 62"), `a${BAD}b`],
  ["a character cut at the end", hex("61 f0 9f 98"), `a${BAD}${BAD}${BAD}`],
  ["a character cut by a quote", hex("c3 22"), `${BAD}\\"`],
  ["an overlong slash", hex("c0 af"), `${BAD}${BAD}`],
  ["an overlong euro", hex("f0 82 82 ac"), BAD.repeat(4)],
  ["a surrogate", hex("ed a0 80"), BAD.repeat(3)],
  ["above U+10FFFF", hex("f4 90 80 80"), BAD.repeat(4)],
  ["bytes that UTF-8 never has", hex("fe ff f8"), BAD.repeat(3)],
  ["nothing", Buffer.alloc(0), ""],
];

describe.each(BINARIES)("request, $build", (binary) => {
  test.each(VERBS)("%s: one POST, every field a string", async (verb) => {
    const before = process.hrtime.bigint();
    const env = { ...environmentOf(verb), CNI_ARGS: "K8S_POD_NAME=a;X=é" };
    const { head, body, request } = await capture(binary, { env, stdin: '{ "cniVersion": "1.1.0" }' });
    expect(head.split("\r\n")).toEqual([
      "POST /cni HTTP/1.1",
      "Host: holdfast",
      "Content-Type: application/json",
      `Content-Length: ${body.length}`,
      "Connection: close",
    ]);
    const hasContainer = verb !== "GC" && verb !== "STATUS";
    expect(request).toEqual({
      command: verb,
      containerId: hasContainer ? "c0ffee" : "",
      netns: hasContainer ? "/proc/self/ns/net" : "",
      netnsId: hasContainer ? expect.stringMatching(/^\d+:\d+$/) : "",
      ifname: hasContainer ? "net1" : "",
      args: "K8S_POD_NAME=a;X=é",
      bootId: readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(),
      bootUs: expect.any(Number),
      config: '{ "cniVersion": "1.1.0" }',
    });
    // CLOCK_BOOTTIME is at or ahead of CLOCK_MONOTONIC, by the time the machine slept.
    expect(Number.isSafeInteger(request.bootUs)).toBe(true);
    expect(request.bootUs).toBeGreaterThanOrEqual(Number(before / 1000n));
  });

  test("netnsId is device and inode of the path; empty where there is nothing", async () => {
    const directory = temporaryDirectory();
    const { dev, ino } = statSync(directory, { bigint: true });
    const there = await capture(binary, { env: { CNI_NETNS: directory } });
    expect(there.request.netnsId).toBe(`${dev}:${ino}`);
    const gone = await capture(binary, { env: { CNI_NETNS: `${directory}/gone` } });
    expect(gone.request).toMatchObject({ netns: `${directory}/gone`, netnsId: "" });
    const none = await capture(binary, { env: { CNI_COMMAND: "DEL", CNI_NETNS: undefined } });
    expect(none.request).toMatchObject({ netns: "", netnsId: "" });
  });

  test("an interface name of 15 bytes, the most, of whatever characters are allowed", async () => {
    const { request } = await capture(binary, { env: { CNI_IFNAME: "v\u00e9th-\u{1f600}_.@01" } });
    expect(Buffer.byteLength(request.ifname)).toBe(15);
  });

  test("GC and STATUS send no attachment, even if the runtime leaves one in the environment", async () => {
    const env = { ...environmentOf("ADD"), CNI_COMMAND: "GC", CNI_IFNAME: "not/valid" };
    const { request } = await capture(binary, { env });
    expect(request).toMatchObject({ command: "GC", containerId: "", netns: "", netnsId: "", ifname: "" });
  });

  test.each(ESCAPING)("stdin as a JSON string: %s", async (_reason, stdin, golden) => {
    const { body, request } = await capture(binary, { stdin });
    expect(body.toString("latin1")).toContain(`"config":"${Buffer.from(golden).toString("latin1")}","bootUs":`);
    if (stdin.equals(Buffer.from(stdin.toString()))) expect(request.config).toBe(stdin.toString());
  });

  test("environment that is not UTF-8 still makes valid JSON", async () => {
    const { request } = await capture(binary, {
      envBytes: { CNI_ARGS: Buffer.from([0x41, 0xff, 0x1b, 0x22]), CNI_NETNS: Buffer.from([0x2f, 0xc3]) },
    });
    expect(request).toMatchObject({ args: `A${BAD}\u001b"`, netns: `/${BAD}`, netnsId: "" });
  });

  test("stdin of exactly the bound passes, of whatever bytes, and stays within the daemon's bound", async () => {
    const stdin = Buffer.alloc(STDIN_BYTES_MAX, 0x01);
    const { body, request } = await capture(binary, { stdin });
    expect(request.config.length).toBe(STDIN_BYTES_MAX);
    expect(body.length).toBeLessThanOrEqual(CNI_BODY_BYTES_MAX);
  });
});
