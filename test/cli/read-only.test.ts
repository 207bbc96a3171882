/** The socket of the daemon's group: whoever is a member asks without being root, and changes nothing. */
import { chmodSync, existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect } from "vitest";
import { ROUTES } from "../../admin/routes.ts";
import { network, processTest, processTestWith, restart } from "../cni/fixtures.ts";
import { call } from "../harness/daemon.ts";
import { skippedFor } from "../harness/needs.ts";
import { asNobody } from "./other-user.ts";

/** One that exists everywhere and is nobody's own. */
const GROUP = "daemon";
const GID = Number(/^daemon:[^:]*:(\d+)/m.exec(readFileSync("/etc/group", "utf8"))?.[1]);

processTest("without a group there is none", async ({ daemon }) => {
  expect(existsSync(join(daemon.directory, "readonly.sock"))).toBe(false);
});

const reason = skippedFor(process.getuid?.() === 0 ? null : "needs root, to give a socket to a group");
describe.skipIf(reason !== null)("with a group", () => {
  const withGroup = processTestWith({ args: ["--read-group", GROUP] });

  withGroup("it is the group's, and the main socket stays the daemon's own", async ({ daemon }) => {
    const path = join(daemon.directory, "readonly.sock");
    const look = () => ({ mode: statSync(path).mode & 0o777, gid: statSync(path).gid });
    expect(look()).toEqual({ mode: 0o660, gid: GID });
    expect(statSync(daemon.socket).mode & 0o777).toBe(0o600);
    await restart(daemon, "SIGKILL", ["--read-group", GROUP]);
    expect(look()).toEqual({ mode: 0o660, gid: GID });
  });

  withGroup("every route that changes something is refused there", async ({ daemon }) => {
    const path = join(daemon.directory, "readonly.sock");
    await daemon.cni("ADD", "c1", { config: network("blue") });
    const before = (await daemon.get("/v1/allocations")).body;
    const changes = ROUTES.filter(({ method }) => method !== "GET").filter(({ node }) => node !== null);
    expect(changes.length).toBeGreaterThan(5);
    const body = JSON.stringify({ network: "blue", address: "10.10.0.1", force: true });
    for (const { method, path: route } of changes) {
      const url = route.replaceAll(/:\w+/g, "x");
      const isQuestion = route === "/v1/plan";
      const answer = await call(path, method, url, isQuestion ? '{"objects":[]}' : body);
      if (isQuestion) expect(answer.status).toBe(200);
      else
        expect({ route, status: answer.status, code: answer.json().code }).toEqual({
          route,
          status: 403,
          code: "READ_ONLY",
        });
    }
    // What a rebuild asks first checks the database in one turn.
    expect(await call(path, "GET", "/v1/rebuild")).toMatchObject({ status: 403 });
    for (const route of ["/cni", "/v1/metadata/ports"])
      expect((await call(path, "POST", route, body)).status, route).toBe(404);
    expect((await daemon.get("/v1/allocations")).body).toBe(before);
    for (const route of ["/healthz", "/readyz", "/metrics", "/v1/check", "/v1/status"])
      expect((await call(path, "GET", route)).status, route).toBe(200);
    expect((await call(path, "GET", "/v1/allocations")).body).toBe(before);
  });

  withGroup("the command line finds it where the main socket is not for its user", async ({ daemon }) => {
    await daemon.cni("ADD", "c1", { config: network("blue") });
    chmodSync(daemon.directory, 0o755);
    const member = asNobody(join(daemon.directory, "program"), [GID]);
    expect(await member("list", "-o", "name", "--socket", daemon.socket)).toEqual({
      code: 0,
      stdout: "10.10.0.1/24\n",
      stderr: "",
    });
    expect(await member("release", "10.10.0.1", "--network", "blue", "--force", "--socket", daemon.socket)).toEqual({
      code: 1,
      stdout: "",
      stderr:
        "error: POST /v1/release is not served on the read-only socket\nhint: run the command as root (sudo), who may use the daemon's main socket\n",
    });
    const other = asNobody(join(daemon.directory, "program"));
    expect(await other("list", "--socket", daemon.socket)).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("join the group holdfast"),
    });
  });
});
