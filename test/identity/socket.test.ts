/** The second socket: who may connect to it, and that nothing can be done there but ask. */
import { existsSync, readFileSync, statSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { describe, expect } from "vitest";
import { network, newDirectory, processTest, processTestWith, restart, TestDaemon, test } from "../cni/fixtures.ts";
import { skippedFor } from "../harness/needs.ts";
import { untilSaid } from "../harness/wait.ts";
import { askIdentity, askSocket, identitySocket } from "./ask.ts";

const mode = (path: string) => statSync(path).mode & 0o777;
/** One that exists everywhere and is nobody's own. */
const GROUP = "daemon";
const GID = Number(
  readFileSync("/etc/group", "utf8")
    .split("\n")
    .find((line) => line.startsWith(`${GROUP}:`))
    ?.split(":")[2],
);

processTest(
  "the identity socket is by default the daemon's user's alone, beside the other socket, and is deleted at its end",
  async ({ daemon }) => {
    const path = identitySocket(daemon);
    expect(mode(path)).toBe(0o600);
    await daemon.end();
    expect(existsSync(path)).toBe(false);
    await restart(daemon, "SIGKILL");
    expect(mode(path)).toBe(0o600);
  },
);

const reason = skippedFor(process.getuid?.() === 0 ? null : "needs root, to give a socket to a group");
describe.skipIf(reason !== null)("the identity socket with a group", () => {
  processTestWith({ args: ["--identity-group", GROUP] })("may be used by a group given by name", async ({ daemon }) => {
    const { gid } = statSync(identitySocket(daemon));
    expect({ mode: mode(identitySocket(daemon)), gid }).toEqual({ mode: 0o660, gid: GID });
    expect(mode(daemon.socket)).toBe(0o600);
  });

  processTestWith({ env: { HOLDFAST_IDENTITY_GROUP: String(GID) } })(
    "may be used by a group given by number",
    async ({ daemon }) => {
      expect(statSync(identitySocket(daemon)).gid).toBe(GID);
      // A socket that was left behind by a kill is replaced, with the same rights.
      await restart(daemon, "SIGKILL", ["--identity-group", GROUP]);
      expect({ mode: mode(identitySocket(daemon)), gid: statSync(identitySocket(daemon)).gid }).toEqual({
        mode: 0o660,
        gid: GID,
      });
    },
  );

  /** As the shipped unit runs it: root without the right to give files away. */
  const without = ["setpriv", "--bounding-set=-chown", "--inh-caps=-chown"];

  processTestWith({ args: ["--identity-group", GROUP], wrapper: [...without, `--groups=${GID}`] })(
    "is given to the group by a daemon without CAP_CHOWN that is in it",
    async ({ daemon }) => {
      const { gid } = statSync(identitySocket(daemon));
      expect({ mode: mode(identitySocket(daemon)), gid }).toEqual({ mode: 0o660, gid: GID });
    },
  );

  test("that cannot be given to it ends the start, with what is missing", async () => {
    const directory = newDirectory();
    const args = ["--identity-group", GROUP];
    const daemon = await TestDaemon.start({
      directory,
      args,
      wrapper: [...without, "--clear-groups"],
      wait: false,
    });
    await new Promise((resolve) => daemon.process.once("close", resolve));
    expect(daemon.process.exitCode).toBe(1);
    await untilSaid(() => daemon.log, "SupplementaryGroups=");
    await daemon.stop();
  });
});

processTestWith({ args: ["--identity-socket", "off"] })("off: there is none", async ({ daemon }) => {
  expect(existsSync(identitySocket(daemon))).toBe(false);
  expect((await daemon.get("/v1/identity?container=c1")).status).toBe(404);
});

processTest("the identity socket may be elsewhere", async ({ daemon }) => {
  const path = join(daemon.directory, "who.sock");
  await restart(daemon, "SIGTERM", ["--identity-socket", path]);
  expect((await askSocket(path, "GET", "/healthz")).body).toBe("ok\n");
  expect(existsSync(identitySocket(daemon))).toBe(false);
});

test("a start with an unusable setting fails, and says what to do", async () => {
  const directory = newDirectory();
  const long = `/tmp/${"x".repeat(120)}.sock`;
  const cases: [string[], number, string][] = [
    [["--identity-group", "no-such-group"], 2, "groupadd --system no-such-group"],
    [["--identity-socket", long], 1, "give a shorter --identity-socket"],
    [["--identity-socket", "/dev/null"], 1, "/dev/null exists and is not a socket"],
  ];
  for (const [args, code, says] of cases) {
    const daemon = await TestDaemon.start({ directory, args, wait: false });
    await new Promise((resolve) => daemon.process.once("close", resolve));
    expect({ code: daemon.process.exitCode, log: daemon.log }).toEqual({
      code,
      log: expect.stringContaining(says),
    });
    expect(existsSync(daemon.socket)).toBe(false);
  }
  const last = await TestDaemon.start({ directory });
  await last.stop();
});

processTest("nothing can be changed or listed on the identity socket", async ({ daemon }) => {
  const path = identitySocket(daemon);
  await daemon.cni("ADD", "c1", { config: network("blue") });
  const body = JSON.stringify({ network: "blue", address: "10.10.0.1", force: true });
  const tries = [
    ["POST", "/cni"],
    ["POST", "/v1/release"],
    ["POST", "/v1/identity?container=c1"],
    ["POST", "/v1/content?container=c1"],
    ["DELETE", "/v1/claims/default/vm1"],
    ["POST", "/v1/apply"],
    ["POST", "/v1/rebuild"],
    ["POST", "/v1/backup"],
    ["POST", "/v1/metadata/ports"],
    ["PUT", "/healthz"],
    ["GET", "/v1/allocations"],
    ["GET", "/v1/networks"],
    ["GET", "/v1/claims"],
    ["GET", "/v1/history"],
    ["GET", "/metrics"],
    ["GET", "/v1/identity/"],
    ["GET", "//v1/identity?container=c1"],
    ["GET", "/"],
  ];
  for (const [method, route] of tries as [string, string][]) {
    const answer = await askSocket(path, method, route, method === "POST" ? body : "");
    expect({ route, ...answer.json() }).toMatchObject({ route, code: "NOT_FOUND" });
    expect(answer.status).toBe(404);
  }
  expect((await askIdentity(daemon, "address=10.10.0.1&here=true")).status).toBe(200);
  expect((await askSocket(path, "GET", "/readyz")).body).toBe("ready\n");
});

processTest(
  "clients that are silent or speak no HTTP delay neither answers nor the daemon's end",
  async ({ daemon }) => {
    const path = identitySocket(daemon);
    const idle = Array.from({ length: 300 }, () => connect(path).on("error", () => {}));
    for (const [index, socket] of idle.entries()) {
      if (index % 3 === 0) socket.write("GET /v1/identity?container=c1 HTTP/1.1\r\nx: ");
      if (index % 3 === 1) socket.write("\0\x01garbage\r\n\r\n");
    }
    const huge = connect(path).on("error", () => {});
    huge.write(`GET /healthz HTTP/1.1\r\nx: ${"y".repeat(100_000)}\r\n\r\n`);
    expect((await askSocket(path, "GET", "/healthz")).status).toBe(200);
    const startMs = performance.now();
    expect(await daemon.end()).toBe(0);
    expect(performance.now() - startMs).toBeLessThan(20_000);
    for (const socket of [...idle, huge]) socket.destroy();
    await restart(daemon, "SIGTERM");
  },
);
