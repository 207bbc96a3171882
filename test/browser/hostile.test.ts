/**
 * What the page makes of names and texts that tenants choose, and of a name of the internet that means this machine.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MemoryCluster } from "../harness/world/memory-cluster.ts";
import { held, putAllocations, putNetwork, rests, usedBy } from "./cluster-objects.ts";
import { TestBrowser, UiProcess, whyNoBrowser } from "./page.ts";
import { apply, attach, claim, nad, UiOfDaemon } from "./ui-of-daemon.ts";

const reason = whyNoBrowser();

/** Each would say so if it ran. */
const HOSTILE = [
  "<img src=x onerror=alert(1)>",
  `"><script>alert(2)</script>`,
  "<svg onload=alert(3)>",
  "javascript:alert(4)",
  "{{constructor.constructor('alert(5)')()}}",
  "__proto__",
  "constructor",
  "a\u202eb\u0000c\u2028d",
  "%3Cscript%3E &lt;b&gt; &#60;b&#62;",
  "'; DROP TABLE allocations; --",
  "x".repeat(5_000),
];

/** Fails when a script of a tenant runs in the page. */
const ALARM = `
  globalThis.alarms = [];
  globalThis.alert = (text) => globalThis.alarms.push(String(text));
  document.addEventListener("securitypolicyviolation", (event) => globalThis.alarms.push(event.violatedDirective + " " + event.blockedURI));
`;

describe.skipIf(reason !== null)("names of tenants", () => {
  let shown: UiOfDaemon;
  beforeAll(async () => {
    shown = await UiOfDaemon.start(async (daemon) => {
      const claims = HOSTILE.map((vm, n) => claim("blue", vm, [`192.168.10.${n + 10}/24`], `claim-${n}`));
      await apply(daemon, [nad("blue", { subnets: "192.168.10.0/24" }), ...claims]);
      // CNI_ARGS have no "=" and no ";" in a value.
      await attach(daemon, "hostile0", "blue", { pod: "<script>alert(6)</script>", claim: "claim-0" });
      await attach(daemon, "hostile1", "blue", { pod: "<a href>click</a>" });
    });
  });
  afterAll(() => shown?.stop());

  test("are texts on every page", async () => {
    const page = await shown.open();
    const dialogs: string[] = [];
    page.on("dialog", (dialog) => {
      dialogs.push(dialog.message());
      void dialog.dismiss();
    });
    await page.addInitScript(ALARM);
    for (const path of ["/", "/networks/blue", "/vms", "/nodes", "/findings", "/search?q=192.168"]) {
      await page.goto(shown.ui.origin + path);
      await page.locator("h1").waitFor();
      if (path === "/vms" || path === "/networks/blue")
        for (const name of HOSTILE.filter((one) => !one.includes("\0")))
          await page
            .locator("td a", { hasText: `shop/${name}` })
            .first()
            .waitFor();
      await expectHarmless(page);
    }
    for (const [n, name] of HOSTILE.entries()) {
      await page.goto(`${shown.ui.origin}/networks/blue/addresses/192.168.10.${n + 10}`);
      await page.locator(".sentence").waitFor();
      const sentence = await page.locator(".sentence").textContent();
      if (!name.includes("\0")) expect(sentence).toContain(`of VM shop/${name}. `);
      await expectHarmless(page);
    }
    await page.goto(`${shown.ui.origin}/vms`);
    for (const name of HOSTILE.slice(0, 5)) {
      await page.getByRole("link", { name: `shop/${name}`, exact: true }).click();
      await page.getByRole("heading", { level: 1, name: `shop/${name}`, exact: true }).waitFor();
      await page
        .getByText(/192\.168\.10\.\d/)
        .first()
        .waitFor();
      await expectHarmless(page);
      await page.goBack();
    }
    expect(dialogs).toEqual([]);
    await page.context().close();
    expect(shown.browser.problems).toEqual([]);
  });

  test("in the URL are texts as well", async () => {
    const page = await shown.open();
    await page.addInitScript(ALARM);
    for (const name of HOSTILE.map(encodeURIComponent))
      for (const path of [
        `/networks/${name}`,
        `/networks/blue?at=${name}`,
        `/networks/blue/addresses/${name}`,
        `/vms/${name}/${name}`,
        `/nodes/${name}`,
        `/search?q=${name}`,
        `/${name}/${name}`,
      ]) {
        await page.goto(shown.ui.origin + path);
        await page.locator("h1").waitFor();
        await expectHarmless(page);
      }
    for (const path of ["/%", "/networks/%ff", "/vms/%/%", "/search?q=%", "//", "/search?q=(*", "/networks/blue?at="]) {
      await page.goto(shown.ui.origin + path);
      await page.locator("h1").waitFor();
    }
    await page.context().close();
    expect(shown.browser.problems).toEqual([]);
  });
});

describe.skipIf(reason !== null)("a cluster where somebody writes what he likes", () => {
  let cluster: MemoryCluster;
  let ui: UiProcess;
  let browser: TestBrowser;
  beforeAll(async () => {
    cluster = await MemoryCluster.start({ time: "machine" });
    putNetwork(cluster, "blue", { subnets: "10.0.0.0/24" });
    putAllocations(cluster, [
      held("blue", "10.0.0.1/24", "vm-a", [usedBy("=HYPERLINK(1)", "<b>x</b>", "pod-a")]),
      held("blue", "10.0.0.2/24", "<img src=x onerror=alert(1)>", [usedBy("+1+1", 'c"2,', "@pod")]),
      held("-1+1", "10.0.1.1/24", "vm-b", [usedBy("\tnode", "c3", "pod\r\n=1+1")]),
      rests("__proto__", "10.0.2.1/24"),
      rests("constructor", "fd00::1/64"),
    ]);
    ui = await UiProcess.start("--kubeconfig", cluster.kubeconfig("admin"));
    browser = await TestBrowser.start();
  });
  afterAll(async () => {
    await browser?.stop();
    await ui?.stop();
    await cluster?.stop();
  });

  test("has a page, and lists without formulas", async () => {
    const page = await browser.open(ui.url);
    await page.addInitScript(ALARM);
    for (const path of ["/nodes", "/search?q=10.0", "/vms", "/search?q=e", "/networks/__proto__", "/networks/-1+1"]) {
      await page.goto(ui.origin + path);
      await page.locator("h1").waitFor();
      await expectHarmless(page);
    }
    for (const [path, wanted] of [
      ["/nodes", ["'=HYPERLINK(1)", "'+1+1", "'\tnode"]],
      ["/search?q=10.0", ["'-1+1", "blue"]],
    ] as const) {
      await page.goto(ui.origin + path);
      await page.locator("tbody tr").first().waitFor();
      await page.getByRole("button", { name: "Copy as CSV" }).click();
      await page.getByRole("button", { name: "Copied" }).waitFor();
      const text = (await page.evaluate("navigator.clipboard.readText()")) as string;
      for (const one of wanted) expect(text).toContain(one);
      // No cell begins with what a spreadsheet calculates.
      const cells = [...text.matchAll(/"((?:[^"]|"")*)"|[^,\r\n]+/g)].map(([all, quoted]) => quoted ?? all);
      expect(cells.filter((one) => /^[=+\-@\t\r]/.test(one))).toEqual([]);
    }
    await page.context().close();
    expect(browser.problems).toEqual([]);
  });
});

test.skipIf(reason !== null)(
  "a name of the internet that means this machine (DNS rebinding) reads nothing",
  async () => {
    const shown = await UiOfDaemon.start((daemon) => apply(daemon, [nad("blue", { subnets: "192.168.10.0/24" })]));
    const browser = await TestBrowser.start("--host-resolver-rules=MAP evil.example 127.0.0.1");
    try {
      const { port, hash } = new URL(shown.ui.url);
      const page = await browser.open(`http://evil.example:${port}/${hash}`);
      const text = "this server is 127.0.0.1";
      expect(await page.textContent("body")).toContain(text);
      expect(await page.evaluate(`fetch("/api/v1/networks").then((answer) => answer.text())`)).toContain(text);
      const asked = `fetch("/api/v1/networks", { headers: { authorization: "Bearer ${shown.ui.token}" } })`;
      expect(await page.evaluate(`${asked}.then((answer) => answer.text())`)).toContain(text);
    } finally {
      await browser.stop();
      await shown.stop();
    }
  },
);

async function expectHarmless(page: Awaited<ReturnType<TestBrowser["open"]>>): Promise<void> {
  // An image that fails, or a handler, runs after the text is there.
  await page.evaluate("new Promise((resolve) => setTimeout(resolve, 20))");
  expect(await page.evaluate("globalThis.alarms"), page.url()).toEqual([]);
  expect(await page.locator("main :is(img, script, iframe, b, svg[onload])").count(), page.url()).toBe(0);
  const links = (await page.evaluate('[...document.querySelectorAll("a")].map((one) => one.protocol)')) as string[];
  expect(new Set(links), page.url()).toEqual(new Set(["http:"]));
}
