import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadMetadataSettings } from "../../metadata/server/settings.ts";
import { findGid } from "../../platform/groups.ts";
import { cleanEnv, HOLDFAST, newDirectory, run } from "../harness/daemon.ts";
import { ask, listening } from "../harness/metadata/server.ts";
import { ProductProcess } from "../harness/product-process.ts";
import { until, untilSaid } from "../harness/wait.ts";
import { identity, UUID } from "./fake-identity.ts";
import { MetadataServer } from "./metadata-server.ts";

let directory: string;
beforeAll(() => {
  directory = newDirectory();
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const holdfast = (...args: readonly string[]) =>
  run(process.execPath, [
    HOLDFAST,
    "metadata",
    "--state",
    join(directory, "state"),
    "--metadata-socket",
    join(directory, "m.sock"),
    "--metrics-address",
    "off",
    ...args,
  ]);

describe("wrong settings are refused", () => {
  test.each([
    [["--nova-url", "ftp://x"], 2, 'novaUrl is "ftp://x": expected http or https'],
    [["--nova-url", "10.0.0.5:8775"], 2, "http://10.0.0.5:8775"],
    [["--nova-url", "http://h:1/base"], 2, "write http://h:1"],
    [["--nova-url", "http://u:p@h:1"], 2, "it must not contain credentials"],
    [["--backend-timeout-seconds", "0"], 2, "backendTimeoutSeconds"],
    [["--metrics-address", "nowhere"], 2, "expected host:port, "],
    [["--metrics-address", "127.0.0.1:99999"], 2, "a port up to 65535, or off"],
    [["--network", "blue"], 2, "it goes together with listen"],
    [["--listen", "127.0.0.1:0"], 2, "it goes together with network"],
    [["--log-level", "loud"], 2, "logLevel"],
    [["--secret-file", "/proc/nonexistent"], 1, "--secret-file /proc/nonexistent cannot be used: ENOENT"],
    [["--key-file", "/dev/null"], 1, "--key-file /dev/null cannot be used: the file has no key"],
    [["--nova-ca-file", "/etc/passwd"], 1, "--nova-ca-file /etc/passwd cannot be used: the file has no certificate"],
    [["--metadata-socket-group", "no-such-group"], 1, "there is no such group on this machine"],
    [["--metadata-socket", `/tmp/${"x".repeat(120)}`], 1, "longer than the 107 bytes"],
    [["--metadata-socket", "/etc/passwd"], 1, "/etc/passwd exists and is not a socket"],
    [["--state", "/dev/null/state"], 1, "give another --state"],
  ])("%j", async (args, code, part) => {
    const { stderr, code: got } = await holdfast(...(args as string[]));
    expect([got, stderr]).toEqual([code, expect.stringContaining(part as string)]);
    expect(stderr).toMatch(/^holdfast metadata: /);
  });

  test("a short key is refused with its line, and not printed", async () => {
    const file = join(directory, "short");
    writeFileSync(file, `${"ab".repeat(32)}\n${"cd".repeat(16)}\n`, { mode: 0o600 });
    const { code, stderr } = await holdfast("--key-file", file);
    expect([code, stderr]).toEqual([1, expect.stringContaining("line 2 has 16 bytes; expected at least 32")]);
    expect(stderr).not.toContain("cdcd");
  });

  test("own variables are read, other processes' are ignored, and unknown ones are refused", () => {
    const load = (env: Record<string, string>) => loadMetadataSettings({}, env);
    expect(load({ HOLDFAST_NOVA_URL: "http://h:8775/" }).novaUrl?.origin).toBe("http://h:8775");
    expect(load({ HOLDFAST_SOCKET: "/x", HOLDFAST_SPOOL: "/y", HOLDFAST_CONFIG: "/z" }).novaUrl).toBeNull();
    expect(() => load({ HOLDFAST_NOVAURL: "x" })).toThrow("environment: unknown setting HOLDFAST_NOVAURL");
    expect(load({ KUBERNETES_SERVICE_HOST: "10.0.0.1" }).kubernetes).toEqual({ kubeconfig: null });
    expect(load({}).kubernetes).toBeNull();
  });
});

describe("the socket", () => {
  test("is accessible to its group where one is set, else to its owner", async () => {
    const server = await MetadataServer.start(["--metadata-socket-group", "nogroup"]);
    const { mode, gid } = statSync(server.socket);
    expect([mode & 0o777, gid]).toEqual([0o660, findGid("nogroup")]);
    await server.stop();
  });

  test("is replaced when a killed server left it, and not when it is served", async () => {
    const server = await MetadataServer.start();
    await server.end("SIGKILL");
    await server.run();
    server.identity.known.set("blue 10.10.0.5", identity());
    expect((await server.ask("/openstack")).status).toBe(200);
    const { code, stderr } = await holdfast("--metadata-socket", server.socket);
    expect([code, stderr]).toEqual([1, expect.stringContaining("another daemon is serving")]);
    expect((await server.ask("/openstack")).status).toBe(200);
    await server.stop();
  });

  test("that cannot be listened on ends the server, whatever else it has open", async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
    const { port } = taken.address() as { port: number };
    expect((await holdfast("--metrics-address", `127.0.0.1:${port}`)).code).toBe(1);
    expect((await holdfast("--metrics-address", "127.0.0.1:0", "--metadata-socket", "/etc/passwd")).code).toBe(1);
    await new Promise((resolve) => taken.close(resolve));
  });

  test("of systemd is served, and requests that came before the start are answered", async () => {
    const server = await MetadataServer.start();
    server.identity.known.set("blue 10.10.0.5", identity());
    const socket = join(directory, "activated.sock");
    // Keeps the socket as systemd does, and runs the server on it twice.
    const keeper = spawn(
      "python3",
      [
        "-c",
        `import os, socket, subprocess, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(64); os.dup2(s.fileno(), 3)
print("listening", flush=True)
for line in sys.stdin:
    p = subprocess.Popen(["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@"'] + sys.argv[2:], pass_fds=[3])
    print(p.pid, flush=True); p.wait(); print("ended", flush=True)`,
        socket,
        process.execPath,
        HOLDFAST,
        "metadata",
        "--identity-socket",
        join(server.directory, "identity.sock"),
        "--state",
        join(directory, "activated"),
        "--metrics-address",
        "off",
        "--log-level",
        "silent",
      ],
      { env: cleanEnv(), stdio: ["pipe", "pipe", "inherit"] },
    );
    let said = "";
    const servers = () => [...said.matchAll(/^(\d+)\n/gm)].map(([, pid]) => Number(pid));
    keeper.stdout.on("data", (chunk) => {
      said += chunk;
    });
    // The file is there before connections are accepted.
    await untilSaid(() => said, "listening\n");
    const early = ask({ socketPath: socket }, "/openstack/latest/meta_data.json");
    keeper.stdin.write("run\n");
    expect((await early).json().uuid).toBe(UUID);
    await until(() => servers().length === 1, "the first");
    process.kill(servers()[0] as number, "SIGKILL");
    await untilSaid(() => said, "ended\n");
    const waiting = ask({ socketPath: socket }, "/openstack/latest/meta_data.json");
    keeper.stdin.write("run\n");
    expect((await waiting).json().uuid).toBe(UUID);
    await until(() => servers().length === 2, "the second");
    process.kill(servers()[1] as number, "SIGTERM");
    keeper.stdin.end();
    await once(keeper, "exit");
    expect(statSync(socket).isSocket()).toBe(true);
    await server.stop();
  });
});

describe("fixed to one network", () => {
  test("the guest is the other end of the connection, and a listener's headers do not count", async () => {
    const server = await MetadataServer.start();
    server.identity.known.set("cluster_udn_red 127.0.0.1", identity());
    const fixed = new ProductProcess([
      "metadata",
      "--network",
      "cluster_udn_red",
      "--listen",
      "127.0.0.1:0",
      "--identity-socket",
      join(server.directory, "identity.sock"),
      "--state",
      join(directory, "fixed"),
      "--metrics-address",
      "off",
    ]);
    const { port } = (await listening(fixed)).address;
    const where = { host: "127.0.0.1", port };
    const answer = await ask(where, "/openstack/latest/meta_data.json", {
      network: "other",
      source: "10.9.9.9",
    });
    expect(answer.json().uuid).toBe(UUID);
    const forwarded = await ask(where, "/latest/api/token", {
      method: "PUT",
      lines: [
        ["X-aws-ec2-metadata-token-ttl-seconds", "60"],
        ["X_Forwarded_For", "10.0.0.1"],
      ],
    });
    expect(forwarded.status).toBe(403);
    server.identity.known.clear();
    expect((await ask(where, "/openstack")).status).toBe(404);
    await fixed.end();
    await server.stop();
  });
});

test("a state directory that is not writable is named", async () => {
  const state = join(directory, "sealed");
  mkdirSync(state);
  chmodSync(state, 0o500);
  const { code, stderr } = await run("setpriv", [
    "--reuid=65534",
    "--clear-groups",
    process.execPath,
    HOLDFAST,
    "metadata",
    "--state",
    state,
    "--metrics-address",
    "off",
  ]);
  expect([code, stderr]).toEqual([1, expect.stringContaining("sealed")]);
});
