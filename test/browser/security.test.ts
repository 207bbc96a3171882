/** Who may read the page, and what it makes of names that tenants choose. */
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ROUTES } from "../../admin/routes.ts";
import { run } from "../harness/daemon.ts";
import { requireRoot, requireTool } from "../harness/needs.ts";
import { whyNoBrowser } from "./page.ts";
import { apply, ask, claim, nad, UiOfDaemon } from "./ui-of-daemon.ts";

const reason = whyNoBrowser();

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/** Something of the ledger that nobody may read without the token. */
const SECRET = "very-secret-vm";
const NOBODY = "65534";

describe.skipIf(reason !== null)("the page", () => {
  let shown: UiOfDaemon;
  let token: string;
  let known: Record<string, string>;
  beforeAll(async () => {
    shown = await UiOfDaemon.start((daemon) =>
      apply(daemon, [
        nad("blue", { subnets: "192.168.10.0/24" }),
        claim("blue", SECRET, ["192.168.10.9/24"], "claim-a"),
      ]),
    );
    token = shown.ui.token;
    known = { authorization: `Bearer ${token}` };
  });
  afterAll(() => shown?.stop());

  const get = (path: string, headers: Record<string, string> = {}, method = "GET") =>
    ask(shown.ui.address, path, { method, headers });
  const expectRefused = (answer: Awaited<ReturnType<typeof ask>>, what: string, status = 403) => {
    expect({ what, status: answer.status, body: answer.body }).toMatchObject({ what, status });
    expect(answer.body, what).not.toMatch(/very-secret|192\.168|blue|<html|function/);
    expect(JSON.stringify(answer), what).not.toContain(token);
    expect(answer.headers["set-cookie"], what).toBeUndefined();
    expect(answer.headers["content-security-policy"], what).toBe(POLICY);
  };

  test("says nothing to whoever has no token, or another one", async () => {
    expect(token).toMatch(/^[\w-]{32}$/);
    const paths = ["/stream", "/api/v1/allocations", "/api/v1/networks", "/api/v1/content", "/api/"];
    const { port } = new URL(shown.ui.url);
    const wrong = [token.slice(1), `${token}a`, token.replace(/.$/, (c) => (c === "a" ? "b" : "a")), "", "é"];
    for (const path of paths) {
      const refusedWith = async (headers: Record<string, string>, asked = path) =>
        expectRefused(await get(asked, headers), `${asked} with ${JSON.stringify(headers)}`, 401);
      await refusedWith({});
      for (const one of wrong) await refusedWith({ authorization: `Bearer ${Buffer.from(one).toString("latin1")}` });
      for (const one of [`Basic ${token}`, token, `Bearer ${token} ${token}`, `Bearer "${token}"`])
        await refusedWith({ authorization: one });
      // What browsers add by themselves is none.
      for (const name of ["t", "holdfast-token", `holdfast-ui-${port}`])
        await refusedWith({ cookie: `${name}=${token}` });
      await refusedWith({}, `${path}?t=${token}`);
      await refusedWith({ referer: `${shown.ui.origin}/?t=${token}` });
    }
    // The page itself is the same for everybody, and knows nothing.
    for (const path of ["/", "/page.js", "/page.css", "/networks/blue", `/?t=${token}`]) {
      const { status, headers, body } = await get(path);
      expect({ path, status }).toEqual({ path, status: 200 });
      expect(body + JSON.stringify(headers), path).not.toContain(SECRET);
      expect(body + JSON.stringify(headers), path).not.toContain(token);
    }
  });

  test("keeps the token of the URL for its tab and its origin alone, and no cookie", async () => {
    const page = await shown.browser.open(shown.ui.url.replace("/#", "/networks/blue?at=192.168.10.0%2F28#"));
    await page.getByRole("heading", { level: 1 }).waitFor();
    expect(page.url()).toBe(`${shown.ui.origin}/networks/blue?at=192.168.10.0%2F28`);
    const kept = "[document.cookie, { ...localStorage }, name, document.referrer, document.documentElement.outerHTML]";
    expect(JSON.stringify(await page.evaluate(kept))).not.toContain(token);
    expect(await page.context().cookies()).toEqual([]);
    expect(await page.evaluate("Object.values(sessionStorage)")).toEqual([token]);
    await page.reload();
    await page.getByRole("heading", { level: 1 }).waitFor();
    await page.context().close();
  });

  test("survives paths that are none, from anybody", async () => {
    for (const path of ["//", "/\\", "///", "http://[", "//[", "//a:b", "/%", "*", "?", "http://"])
      for (const headers of [{}, known] as Record<string, string>[]) {
        const { status } = await get(path, headers).catch((error) => ({ status: `${error}` }));
        expect([200, 400, 401, 403, 404], `${path} ${JSON.stringify(headers)}`).toContain(status);
      }
    for (const text of ["GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "BREW / HTTP/1.1\r\n\r\n", "\0\r\n\r\n"])
      expect(await raw(shown.ui.address, text), text).toMatch(/^HTTP\/1\.1 40[035] /);
    expect(shown.ui.child.exitCode).toBeNull();
    expect((await get("/api/v1/networks", known)).status).toBe(200);
  });

  test("refuses another user of this machine", async (context) => {
    requireRoot(context);
    requireTool(context, "setpriv", "--version");
    requireTool(context, "curl", "--version");
    const asNobody = (...words: string[]) =>
      run("setpriv", ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", ...words]);
    for (const path of ["/stream", "/api/v1/allocations"]) {
      const words = ["-sS", "-m", "20", "-w", "\n%{http_code}", `${shown.ui.address}${path}`];
      expect((await asNobody("curl", ...words)).stdout).toMatch(/^open the URL that holdfast ui printed.*\n\n401$/);
    }
    // What everybody can read of a process.
    const { pid } = shown.ui.child;
    expect(readFileSync(`/proc/${pid}/cmdline`, "utf8")).not.toContain(token);
    expect((await asNobody("cat", `/proc/${pid}/environ`)).code).not.toBe(0);
    expect(readFileSync(`/proc/${pid}/environ`, "utf8")).not.toContain(token);
  });

  test("is this machine's only", async () => {
    const { port } = new URL(shown.ui.origin);
    const listening = readFileSync("/proc/net/tcp", "utf8") + readFileSync("/proc/net/tcp6", "utf8");
    const hex = Number(port).toString(16).toUpperCase().padStart(4, "0");
    const sockets = [...listening.matchAll(/^ *\d+: ([0-9A-F]+):([0-9A-F]{4}) [0-9A-F:]+ 0A /gm)];
    const addresses = sockets.filter(([, , one]) => one === hex).map(([, address]) => address);
    expect(addresses).toEqual(expect.arrayContaining(["0100007F"]));
    // And ::1, where the machine has it.
    expect(addresses.filter((one) => one !== "0100007F" && one !== "00000000000000000000000001000000")).toEqual([]);
  });

  test("is asked under its own name only", async () => {
    const { port } = new URL(shown.ui.origin);
    const hosts = [
      ...["evil.example", `evil.example:${port}`, "127.0.0.1", `127.0.0.1:${port}.evil.example`, "localhost"],
      ...[`127.0.0.1.nip.io:${port}`, `[::1]:${port}`, `0.0.0.0:${port}`, `127.0.0.1:${Number(port) + 1}`],
    ];
    for (const host of hosts) {
      expectRefused(await get("/api/v1/allocations", { host, ...known }), `host ${host}`);
      expectRefused(await get("/", { host }), `host ${host}`);
    }
    expect((await get("/api/v1/networks", { host: `localhost:${port}`, ...known })).status).toBe(200);
  });

  test("answers no other site's scripts, also not of another port", async () => {
    const origin = shown.ui.address;
    const port = Number(new URL(origin).port);
    for (const one of [
      ...["http://evil.example", "null", `https://127.0.0.1:${port}`, `http://127.0.0.1:${port + 1}`, ""],
      ...[`${origin}.evil.example`, `http://evil.example:${port}`, "http://127.0.0.1", "file://"],
      ...[shown.ui.origin, `http://localhost:${port}`],
    ])
      expectRefused(await get("/api/v1/allocations", { origin: one, ...known }), `origin ${one}`);
    expect((await get("/api/v1/networks", { origin, ...known })).status).toBe(200);
  });

  test("only reads", async () => {
    const before = (await shown.daemon.get("/v1/allocations")).body;
    const body = JSON.stringify({ network: "blue", address: "192.168.10.9", force: true });
    const headers = { ...known, "content-type": "application/json" };
    const paths = ["/", "/stream", ...ROUTES.map((one) => `/api${one.path.replaceAll(/:\w+/g, "blue")}`)];
    for (const method of ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
      for (const path of paths)
        expectRefused(await ask(shown.ui.address, path, { method, headers, body }), `${method} ${path}`, 405);
    expect((await shown.daemon.get("/v1/allocations")).body).toBe(before);
  });

  test("passes on the questions of the page and nothing else", async () => {
    for (const path of [
      ...["content", "identity", "rebuild", "version", "release", "backup", "apply", "claims/shop/claim-a"],
      ...["networks/../content", "networks/%2e%2e/content", "./content", "networks//free", "networks/a/b/free"],
      ...["networks/blue/free/../../../content", "networks/blue", "CONTENT", "networks/", "status/"],
    ])
      expect((await get(`/api/v1/${path}`, known)).status, path).toBe(404);
    for (const path of ["/api/metrics", "/api/healthz", "/api/cni", "/api//v1/content", "/api/../api/v1/content"])
      expect((await get(path, known)).status, path).toBe(404);
    const hidden = ["..%2f..%2fcontent%3f/free", "..%2fcontent%23/free", "x%0d%0aHost:%20evil/free"];
    for (const path of hidden) expect((await get(`/api/v1/networks/${path}`, known)).body, path).not.toContain(SECRET);
    // Files are the page's own: every other path is the document.
    const index = (await get("/", known)).body;
    for (const path of ["/etc/passwd", "/../../../../etc/passwd", "/%2e%2e/ui.cjs", "/page.js/", "/__proto__"])
      expect((await get(path, known)).body, path).toBe(index);
  });

  test("sends its policy with every answer", async () => {
    const paths = ["/", "/page.js", "/page.css", "/stream", "/api/v1/networks", "/api/v1/content", "/x"];
    for (const path of [...paths, "/api/v1/allocations?limit=wrong"]) {
      const { headers } = await get(path, known);
      expect({ path, ...headers }).toMatchObject({
        "content-security-policy": POLICY,
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-store",
      });
      expect(headers["access-control-allow-origin"]).toBeUndefined();
    }
  });
});

/** The first line of what is answered to a text. */
function raw(origin: string, text: string): Promise<string> {
  const { hostname, port } = new URL(origin);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => socket.write(text));
    socket.setTimeout(20_000, () => socket.destroy(new Error(`no answer to ${text}`)));
    socket.once("data", (chunk) => {
      resolve(chunk.toString().split("\r\n")[0] ?? "");
      socket.destroy();
    });
    socket.once("error", reject);
    socket.once("end", () => resolve("nothing"));
  });
}
