/** Who may read the page, and what it makes of names that tenants choose. */
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ROUTES } from "../../admin/routes.ts";
import { run } from "../harness/daemon.ts";
import { requireRoot, requireTool } from "../harness/needs.ts";
import { whyNoBrowser } from "./page.ts";
import { SOON } from "./reading.ts";
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
  let cookie: string;
  beforeAll(async () => {
    shown = await UiOfDaemon.start((daemon) =>
      apply(daemon, [
        nad("blue", { subnets: "192.168.10.0/24" }),
        claim("blue", SECRET, ["192.168.10.9/24"], "claim-a"),
      ]),
    );
    token = new URL(shown.ui.url).searchParams.get("t") ?? "";
    cookie = `holdfast-ui-${new URL(shown.ui.url).port}=${token}`;
  });
  afterAll(() => shown?.stop());

  const get = (path: string, headers: Record<string, string> = {}, method = "GET") =>
    ask(shown.ui.origin, path, { method, headers });
  const expectRefused = (answer: Awaited<ReturnType<typeof ask>>, what: string, status = 403) => {
    expect({ what, status: answer.status, body: answer.body }).toMatchObject({ what, status });
    expect(answer.body, what).not.toMatch(/very-secret|192\.168|blue|<html|function/);
    expect(answer.headers["set-cookie"], what).toBeUndefined();
    expect(answer.headers["content-security-policy"], what).toBe(POLICY);
  };

  test("says nothing to whoever has no token, or another one", async () => {
    expect(token).toMatch(/^[\w-]{32}$/);
    const paths = ["/", "/stream", "/page.js", "/api/v1/allocations", "/networks/blue", "/search?q=vm"];
    const port = new URL(shown.ui.url).port;
    const wrong = [token.slice(1), `${token}a`, token.replace(/.$/, (c) => (c === "a" ? "b" : "a")), "", "é"];
    const cookies = [
      ...wrong.map((one) => `holdfast-ui-${port}=${encodeURIComponent(one)}`),
      `holdfast-ui=${token}`,
      `holdfast-ui-${Number(port) + 1}=${token}`,
    ];
    for (const path of paths) {
      expectRefused(await get(path), path);
      for (const one of cookies) expectRefused(await get(path, { cookie: one }), `${path} with ${one}`);
      for (const one of wrong) {
        const url = `${path}${path.includes("?") ? "&" : "?"}t=${encodeURIComponent(one)}`;
        expectRefused(await get(url), url);
      }
      expectRefused(await get(path, { authorization: `Bearer ${token}` }), `${path} with a bearer token`);
    }
  });

  test("makes the token of the URL a cookie that no script reads and no other site sends", async () => {
    const answer = await get(`/networks/blue?at=192.168.10.0%2F28&t=${token}`);
    expect(answer.status).toBe(303);
    expect(answer.headers.location).toBe("/networks/blue?at=192.168.10.0%2F28");
    expect(answer.headers["set-cookie"]).toEqual([`${cookie}; HttpOnly; SameSite=Strict; Path=/`]);
    const page = await shown.open();
    await page.getByText("blue", { exact: true }).waitFor();
    expect(page.url()).toBe(`${shown.ui.origin}/`);
    expect(await page.evaluate("document.cookie + JSON.stringify({ ...localStorage })")).not.toContain(token);
    await page.reload();
    await page.getByText("blue", { exact: true }).waitFor();
    await page.context().close();
  });

  test("never leads to another server, whatever the path is", async () => {
    for (const path of [
      ...[
        "//evil.example/",
        "///evil.example/",
        "/\\evil.example/",
        "/%2f/evil.example",
        "//evil.example:80//x/",
      ],
      ...[
        "http://evil.example/",
        "http://evil.example//evil.example",
        "/.//evil.example",
        "/a/..//evil.example",
      ],
    ]) {
      const { status, headers } = await get(`${path}?t=${token}`);
      if (status === 400 || status === 404) continue;
      expect(status, path).toBe(303);
      const target = new URL(`${headers.location}`, shown.ui.origin);
      expect({ path, origin: target.origin }).toEqual({ path, origin: shown.ui.origin });
      expect(headers.location, path).not.toContain(token);
    }
  });

  test("survives paths that are none, from anybody", async () => {
    for (const path of ["//", "/\\", "///", "http://[", "//[", "//a:b", "/%", "*", "?", "http://"])
      for (const headers of [{}, { cookie }] as Record<string, string>[]) {
        const { status } = await get(path, headers).catch((error) => ({ status: `${error}` }));
        expect([200, 400, 403, 404], `${path} ${JSON.stringify(headers)}`).toContain(status);
      }
    for (const text of [
      "GET / HTTP/1.0\r\n\r\n",
      "GET / HTTP/1.1\r\n\r\n",
      "BREW / HTTP/1.1\r\n\r\n",
      "\0\r\n\r\n",
    ])
      expect(await raw(shown.ui.origin, text), text).toMatch(/^HTTP\/1\.1 40[035] /);
    expect(shown.ui.child.exitCode).toBeNull();
    expect((await get("/api/v1/networks", { cookie })).status).toBe(200);
  });

  test("refuses another user of this machine", async (context) => {
    requireRoot(context);
    requireTool(context, "setpriv", "--version");
    requireTool(context, "curl", "--version");
    const asNobody = (...words: string[]) =>
      run("setpriv", ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", ...words]);
    const { origin, child } = shown.ui;
    for (const path of ["/", "/stream", "/api/v1/allocations"]) {
      const { stdout } = await asNobody(
        "curl",
        "-sS",
        "-m",
        "20",
        "-w",
        "\n%{http_code}",
        `${origin}${path}`,
      );
      expect(stdout).toMatch(/^open the URL that holdfast ui printed.*\n\n403$/);
    }
    // What everybody can read of a process.
    expect(readFileSync(`/proc/${child.pid}/cmdline`, "utf8")).not.toContain(token);
    expect((await asNobody("cat", `/proc/${child.pid}/environ`)).code).not.toBe(0);
  });

  test("is this machine's only", async () => {
    const { port } = new URL(shown.ui.origin);
    const listening = readFileSync("/proc/net/tcp", "utf8") + readFileSync("/proc/net/tcp6", "utf8");
    const hex = Number(port).toString(16).toUpperCase().padStart(4, "0");
    const sockets = [...listening.matchAll(/^ *\d+: ([0-9A-F]+):([0-9A-F]{4}) [0-9A-F:]+ 0A /gm)];
    expect(sockets.filter(([, , one]) => one === hex).map(([, address]) => address)).toEqual(["0100007F"]);
  });

  test("is asked under its own name only", async () => {
    const { port } = new URL(shown.ui.origin);
    const hosts = [
      ...["evil.example", `evil.example:${port}`, "127.0.0.1", `127.0.0.1:${port}.evil.example`, "localhost"],
      ...[`127.0.0.1.nip.io:${port}`, `[::1]:${port}`, `0.0.0.0:${port}`, `127.0.0.1:${Number(port) + 1}`],
    ];
    for (const host of hosts) {
      expectRefused(await get("/api/v1/allocations", { host, cookie }), `host ${host}`);
      expectRefused(await get(`/?t=${token}`, { host }), `host ${host} with the token`);
    }
    expect((await get("/api/v1/networks", { host: `localhost:${port}`, cookie })).status).toBe(200);
  });

  test("answers no other site's scripts, also not of another port", async () => {
    const { origin } = shown.ui;
    const port = Number(new URL(origin).port);
    for (const one of [
      ...["http://evil.example", "null", `https://127.0.0.1:${port}`, `http://127.0.0.1:${port + 1}`, ""],
      ...[`${origin}.evil.example`, `http://evil.example:${port}`, "http://127.0.0.1", "file://"],
    ])
      expectRefused(await get("/api/v1/allocations", { origin: one, cookie }), `origin ${one}`);
    expect((await get("/api/v1/networks", { origin, cookie })).status).toBe(200);
  });

  test("only reads", async () => {
    const before = (await shown.daemon.get("/v1/allocations")).body;
    const body = JSON.stringify({ network: "blue", address: "192.168.10.9", force: true });
    const headers = { cookie, "content-type": "application/json" };
    const paths = ["/", "/stream", ...ROUTES.map((one) => `/api${one.path.replaceAll(/:\w+/g, "blue")}`)];
    for (const method of ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
      for (const path of paths)
        expectRefused(await ask(shown.ui.origin, path, { method, headers, body }), `${method} ${path}`, 405);
    expect((await shown.daemon.get("/v1/allocations")).body).toBe(before);
  });

  test("passes on the questions of the page and nothing else", async () => {
    for (const path of [
      ...["content", "identity", "rebuild", "version", "release", "backup", "apply", "claims/shop/claim-a"],
      ...[
        "networks/../content",
        "networks/%2e%2e/content",
        "./content",
        "networks//free",
        "networks/a/b/free",
      ],
      ...["networks/blue/free/../../../content", "networks/blue", "CONTENT", "networks/", "status/"],
    ])
      expect((await get(`/api/v1/${path}`, { cookie })).status, path).toBe(404);
    for (const path of [
      "/api/metrics",
      "/api/healthz",
      "/api/cni",
      "/api//v1/content",
      "/api/../api/v1/content",
    ])
      expect((await get(path, { cookie })).status, path).toBe(404);
    const hidden = ["..%2f..%2fcontent%3f/free", "..%2fcontent%23/free", "x%0d%0aHost:%20evil/free"];
    for (const path of hidden)
      expect((await get(`/api/v1/networks/${path}`, { cookie })).body, path).not.toContain(SECRET);
    // Files are the page's own: every other path is the document.
    const index = (await get("/", { cookie })).body;
    for (const path of [
      "/etc/passwd",
      "/../../../../etc/passwd",
      "/%2e%2e/ui.cjs",
      "/page.js/",
      "/__proto__",
    ])
      expect((await get(path, { cookie })).body, path).toBe(index);
  });

  test("sends its policy with every answer", async () => {
    const paths = ["/", "/page.js", "/page.css", "/stream", "/api/v1/networks", "/api/v1/content", "/x"];
    for (const path of [...paths, "/api/v1/allocations?limit=wrong"]) {
      const { headers } = await get(path, { cookie });
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

  describe("beside a page of another user's server", () => {
    let other: Server;
    beforeAll(async () => {
      other = createServer((_, response) =>
        response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><body></body>"),
      );
      await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    });
    afterAll(() => {
      other.closeAllConnections();
      other.close();
    });

    test("of the same machine, which has the same cookies, is neither framed, nor loaded, nor read", async () => {
      const page = await shown.open();
      const attacker = await page.context().newPage();
      await attacker.goto(`http://127.0.0.1:${(other.address() as AddressInfo).port}/`);
      const found = await attacker.evaluate(`(async (origin) => {
        const heard = (tag, url) => new Promise((resolve) => {
          const one = Object.assign(document.createElement(tag), { src: url, onload: () => resolve("loaded"), onerror: () => resolve("failed") });
          document.body.append(one);
        });
        const read = (path, init) => fetch(origin + path, init).then((answer) => answer.text()).catch(() => "failed");
        return {
          cors: await read("/api/v1/allocations", { credentials: "include" }),
          opaque: await read("/api/v1/allocations", { credentials: "include", mode: "no-cors" }),
          script: await heard("script", origin + "/page.js"),
          image: await heard("img", origin + "/api/v1/allocations"),
          stream: await new Promise((resolve) => {
            const source = new EventSource(origin + "/stream", { withCredentials: true });
            source.addEventListener("hello", () => resolve("heard"));
            source.onerror = () => resolve("failed");
          }),
          opened: (() => { const one = open(origin + "/"); return one === null ? "failed" : "opened"; })(),
        };
      })(${JSON.stringify(shown.ui.origin)})`);
      expect(found).toMatchObject({
        ...{ cors: "failed", opaque: "failed", script: "failed", image: "failed", stream: "failed" },
      });
      await attacker.evaluate(
        `document.body.append(Object.assign(document.createElement("iframe"), { src: "${shown.ui.origin}/" }))`,
      );
      await expect.poll(() => attacker.frames()[1]?.url(), SOON).toMatch(/^chrome-error:/);
      await page.context().close();
    });
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
