import { chmodSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HOLDFAST, newDirectory, run, TestDaemon } from "../harness/daemon.ts";
import { requireRoot } from "../harness/needs.ts";
import { asNobody } from "./other-user.ts";

// Exit code 3, with the path, the reason, and what to do.
const directory = newDirectory();
const servers: Server[] = [];

afterAll(() => {
  for (const server of servers) server.close();
  rmSync(directory, { recursive: true, force: true });
});

function cli(socket: string, ...args: string[]) {
  return run(process.execPath, [HOLDFAST, ...args], { HOLDFAST_SOCKET: socket });
}

async function listen(name: string, server: Server): Promise<string> {
  const path = join(directory, name);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return path;
}

const START =
  "start it (systemctl start holdfast, or holdfast daemon), or name its socket with --socket or HOLDFAST_SOCKET";

test("a socket that does not exist is reported with how to start the daemon", async () => {
  const socket = join(directory, "nothing.sock");
  expect(await cli(socket, "networks")).toEqual({
    code: 3,
    stdout: "",
    stderr: `error: the daemon is not reachable at ${socket}: socket not found: the daemon is not running, or listens on another path\nhint: ${START}\n`,
  });
});

test("a socket file without a listener is reported", async () => {
  const socket = join(directory, "dead.sock");
  writeFileSync(socket, "");
  const { code, stderr } = await cli(socket, "list");
  expect({ code, stderr }).toEqual({
    code: 3,
    stderr: `error: the daemon is not reachable at ${socket}: nobody listens there; the daemon has ended\nhint: ${START}\n`,
  });
});

test("a socket path through a file, and one that is too long, are reported", async () => {
  writeFileSync(join(directory, "file"), "");
  expect((await cli(join(directory, "file/s.sock"), "list")).stderr).toContain(
    "a part of this path is not a directory",
  );
  const long = await cli(`/${"x".repeat(120)}`, "list");
  expect(long.code).toBe(3);
  expect(long.stderr).toContain(
    "the path is longer than the 107 bytes of a unix socket\nhint: give a shorter --socket",
  );
});

test("a socket without permission is reported", async (context) => {
  requireRoot(context);
  const socket = await listen("root.sock", createServer());
  chmodSync(socket, 0o600);
  const { code, stderr } = await asNobody(directory)("networks", "--socket", socket);
  expect({ code, stderr }).toEqual({
    code: 3,
    stderr: `error: the daemon is not reachable at ${socket}: permission denied; the socket is its owner's alone\nhint: run this as root (sudo); to look without being root, join the group holdfast (usermod -aG holdfast NAME), then log in again\n`,
  });
});

test("a socket of another program is reported", async () => {
  const web = await listen(
    "web.sock",
    createHttpServer((_request, answer) => answer.end("<html>")),
  );
  expect(await cli(web, "networks")).toMatchObject({
    code: 3,
    stderr: expect.stringContaining("what answers there is not holdfast"),
  });
  const ssh = await listen(
    "ssh.sock",
    createServer((socket) => socket.end("SSH-2.0-x\r\n")),
  );
  expect(await cli(ssh, "networks")).toMatchObject({
    code: 3,
    stderr: expect.stringContaining("what answers there is not holdfast"),
  });
});

test("a connection that is closed before the whole answer is reported", async () => {
  const mute = await listen(
    "mute.sock",
    createServer((socket) => socket.on("data", () => socket.destroy())),
  );
  expect(await cli(mute, "networks")).toMatchObject({
    code: 3,
    stderr: expect.stringContaining("it hung up without an answer"),
  });
  const half = createServer((socket) => {
    socket.on("data", () =>
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"items":[', () => socket.destroy()),
    );
  });
  const answer = await cli(await listen("half.sock", half), "networks");
  expect(answer).toMatchObject({
    code: 3,
    stdout: "",
    stderr: expect.stringContaining("it hung up without an answer"),
  });
});

describe("a daemon that does not answer", () => {
  let daemon: TestDaemon;
  beforeAll(async () => {
    daemon = await TestDaemon.start();
    daemon.process.kill("SIGSTOP");
  });
  afterAll(async () => {
    daemon.process.kill("SIGCONT");
    await daemon.stop();
  });

  test("is an error after --timeout, which may precede or follow the command", async () => {
    for (const args of [
      ["--timeout", "1", "networks"],
      ["networks", "--timeout", "1"],
    ]) {
      expect(await daemon.cli(...args)).toEqual({
        code: 3,
        stdout: "",
        stderr: `error: the daemon is not reachable at ${daemon.socket}: no answer within 1 s\nhint: see the daemon's log (journalctl -u holdfast); --timeout waits longer\n`,
      });
    }
  });

  test("does not prevent version from showing the client's version", async () => {
    expect(await daemon.cli("version", "--timeout", "1")).toMatchObject({
      code: 0,
      stdout: "client   1.0.0-rc.1\n",
    });
  });
});

test("version works without a daemon", async () => {
  const socket = join(directory, "nothing.sock");
  expect(await cli(socket, "version")).toMatchObject({
    code: 0,
    stdout: "client   1.0.0-rc.1\n",
    stderr: expect.stringContaining(`the daemon is not reachable at ${socket}`),
  });
  const { code, stdout } = await cli(socket, "version", "-o", "json");
  expect({ code, answer: JSON.parse(stdout) }).toEqual({
    code: 0,
    answer: { client: "1.0.0-rc.1", daemon: null },
  });
});

test("--socket takes precedence over HOLDFAST_SOCKET, and without both the default socket is used", async () => {
  const daemon = await TestDaemon.start();
  const elsewhere = join(directory, "nothing.sock");
  expect(await cli(elsewhere, "--socket", daemon.socket, "networks", "-o", "json")).toMatchObject({
    code: 0,
  });
  expect(await cli(elsewhere, "networks", "-o", "json", "--socket", daemon.socket)).toMatchObject({
    code: 0,
  });
  await daemon.stop();
  expect((await cli("", "networks")).stderr).toContain("/run/holdfast/holdfast.sock");
});

test("apply reports the objects that were applied before the daemon went away, and exits 3", async () => {
  const daemon = await TestDaemon.start();
  const claim =
    '{"apiVersion":"k8s.cni.cncf.io/v1alpha1","kind":"IPAMClaim","metadata":{"name":"c%"},"spec":{"network":"blue"}}';
  const file = join(directory, "claims.yaml");
  writeFileSync(file, Array.from({ length: 250 }, (_, n) => `---\n${claim.replace("%", String(n))}\n`).join(""));
  let requests = 0;
  const proxy = createHttpServer((request, answer) => {
    requests += 1;
    if (requests > 1) {
      request.socket.destroy();
      return;
    }
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", async () => answer.end((await daemon.post("/v1/apply", Buffer.concat(chunks).toString())).body));
  });
  const { code, stdout, stderr } = await cli(await listen("proxy.sock", proxy), "apply", "-f", file);
  await daemon.stop();
  expect(code).toBe(3);
  expect(stdout.trimEnd().split("\n").length).toBe(200);
  expect(stderr).toContain("it hung up without an answer");
});
