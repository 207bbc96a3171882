import { existsSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { run } from "../harness/daemon.ts";
import { until, untilSaid } from "../harness/wait.ts";
import { identity, otherVm, UUID } from "./fake-identity.ts";
import { MetadataServer } from "./metadata-server.ts";

const PATH = "/openstack/latest/password";
const OTHER = "99999999-9999-4999-8999-999999999999";

let server: MetadataServer;
beforeEach(async () => {
  server = await MetadataServer.start();
  server.identity.known.set("blue 10.10.0.5", identity());
  server.identity.known.set("blue 10.10.0.6", otherVm(OTHER));
});
afterEach(() => server?.stop());

describe("a guest's password", () => {
  test("is set once, read by that guest alone, and kept over a kill", async () => {
    expect((await server.ask(PATH)).text).toBe("");
    expect((await server.ask(PATH, { method: "POST", body: "cipher" })).status).toBe(200);
    await server.end("SIGKILL");
    await server.run();
    expect((await server.ask(PATH)).text).toBe("cipher");
    expect((await server.ask(PATH, { source: "10.10.0.6" })).text).toBe("");
    expect((await server.ask(PATH, { method: "POST", body: "another" })).status).toBe(409);
    expect((await server.ask(PATH)).text).toBe("cipher");
  });

  test("is one of many that are posted at once, and only its sender gets a 200", async () => {
    const bodies = Array.from({ length: 30 }, (_, n) => `cipher ${n}`);
    const answers = await Promise.all(bodies.map((body) => server.ask(PATH, { method: "POST", body })));
    const kept = bodies.filter((_, n) => answers[n]?.status === 200);
    expect(kept).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(29);
    expect((await server.ask(PATH)).text).toBe(kept[0]);
    expect(readdirSync(join(server.state, "passwords"))).toEqual([UUID]);
  });

  test.each([
    ["1,020 bytes", "POST", "x".repeat(1_020), 200],
    ["1,021 bytes", "POST", "x".repeat(1_021), 400],
    ["nothing", "POST", "", 200],
    ["another method", "PUT", "x", 400],
    ["another method", "DELETE", "", 400],
  ])("%s, %s", async (_, method, body, status) => {
    expect((await server.ask(PATH, { method, body })).status).toBe(status);
    expect(readdirSync(join(server.state, "passwords"))).toHaveLength(body.length === 1_020 ? 1 : 0);
  });

  test("is readable on the disk by the server alone", async () => {
    await server.ask(PATH, { method: "POST", body: "cipher" });
    expect(statSync(join(server.state, "passwords", UUID)).mode & 0o777).toBe(0o600);
    expect(server.log).not.toContain("cipher");
  });

  test("is not answered with 200 when it cannot be written", async () => {
    rmSync(join(server.state, "passwords"), { recursive: true });
    writeFileSync(join(server.state, "passwords"), "");
    expect((await server.ask(PATH, { method: "POST", body: "cipher" })).status).toBe(500);
    await until(() => server.log.includes("a request failed"), "the log");
    expect(server.log).not.toContain("cipher");
  });
});

describe("keys", () => {
  const TTL = "X-aws-ec2-metadata-token-ttl-seconds";
  const TOKEN = "X-aws-ec2-metadata-token";
  const token = async () => (await server.ask("/latest/api/token", { method: "PUT", lines: [[TTL, "600"]] })).text;
  const statusWith = async (value: string) => (await server.ask("/openstack", { lines: [[TOKEN, value]] })).status;
  const key = (n: number) => Buffer.alloc(32, n).toString(n % 2 === 0 ? "hex" : "base64");

  test("are made once, readable by the server alone, and kept over a restart", async () => {
    const file = join(server.state, "keys");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    await untilSaid(() => server.log, "give all nodes the same file with --key-file");
    const given = await token();
    await server.end("SIGKILL");
    await server.run();
    expect(await statusWith(given)).toBe(200);
    expect(server.log.split("give all nodes the same file")).toHaveLength(2);
  });

  test("can change while it runs, and an old one is valid as long as it is in the file", async () => {
    const file = join(server.directory, "keys");
    writeFileSync(file, `${key(1)}\n`, { mode: 0o600 });
    await server.end();
    await server.run(["--key-file", file]);
    const first = await token();
    expect(await statusWith(first)).toBe(200);
    writeFileSync(file, `# changed today\n${key(2)}\n${key(1)}\n`);
    await until(async () => (server.log.match(/has changed and is used/g) ?? []).length === 1, "the new keys");
    const second = await token();
    expect([await statusWith(first), await statusWith(second)]).toEqual([200, 200]);
    writeFileSync(file, `${key(2)}\n`);
    await until(async () => (await statusWith(first)) === 401, "the end of the old key");
    expect(await statusWith(second)).toBe(200);
    writeFileSync(file, "too short\n");
    await until(() => server.log.includes("line 1"), "the complaint");
    expect(await statusWith(second)).toBe(200);
    expect(server.log).not.toContain(key(2));
  });

  test("a token is valid for its own VM, and a forwarded request gets none", async () => {
    const given = await token();
    expect((await server.ask("/openstack", { source: "10.10.0.6", lines: [[TOKEN, given]] })).status).toBe(401);
    const lines = [
      [TTL, "600"],
      ["X-Holdfast-Client-Forwarded", "1"],
    ] as const;
    expect((await server.ask("/latest/api/token", { method: "PUT", lines })).status).toBe(403);
  });

  test("the network's definition decides whether tokens are required", async () => {
    const metadata = (tokens: "off" | "required") => ({ metadata: { address: "10.10.0.254", tokens } });
    server.identity.known.set("blue 10.10.0.5", identity({}, metadata("required")));
    expect((await server.ask("/openstack")).status).toBe(401);
    expect(await statusWith(await token())).toBe(200);
    server.identity.known.set("blue 10.10.0.5", identity({}, metadata("off")));
    expect((await server.ask("/openstack")).status).toBe(200);
    expect((await server.ask("/latest/api/token", { method: "PUT", lines: [[TTL, "600"]] })).status).toBe(403);
  });

  test("random_seed differs by request and VM", async () => {
    const seed = async (source: string) =>
      (await server.ask("/openstack/latest/meta_data.json", { source })).json().random_seed;
    const seeds = [await seed("10.10.0.5"), await seed("10.10.0.5"), await seed("10.10.0.6")];
    expect(new Set(seeds).size).toBe(3);
    expect(Buffer.from(seeds[0], "base64")).toHaveLength(512);
  });
});

test("nothing is left behind at the end", async () => {
  expect(await server.end()).toBe(0);
  expect(existsSync(server.socket)).toBe(false);
  const { stdout } = await run("pgrep", ["-f", server.directory]);
  expect(stdout).toBe("");
});
