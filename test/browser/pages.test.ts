/** Every page, in Chromium, against a daemon whose networks are of all kinds. */
import type { Page } from "playwright-core";
import { afterAll, test as base, beforeAll, describe, expect } from "vitest";
import { until } from "../harness/wait.ts";
import { whyNoBrowser } from "./page.ts";
import { bars, facts, records, rows, SOON, title } from "./reading.ts";
import { NAMESPACE, seedAll, UiOfDaemon } from "./ui-of-daemon.ts";

const reason = whyNoBrowser();
let shown: UiOfDaemon;
let node: string;

const test = base
  // biome-ignore lint/correctness/noEmptyPattern: Vitest reads from the pattern what a fixture needs
  .extend("page", async ({}, { onCleanup }): Promise<Page> => {
    const page = await shown.open();
    onCleanup(async () => {
      await page.context().close();
      expect(shown.browser.problems.splice(0)).toEqual([]);
    });
    return page;
  });

const go = (page: Page, path: string) => page.goto(shown.ui.origin + path);

describe.skipIf(reason !== null)("the page", () => {
  beforeAll(async () => {
    shown = await UiOfDaemon.start(seedAll);
    node = (await shown.daemon.get("/v1/status")).json().node;
  });
  afterAll(() => shown?.stop());

  test("networks: a row each, the fullest first, with what it holds, its owner and what was found", async ({
    page,
  }) => {
    const caption = "Networks, the fullest first";
    await page.getByText("ok").nth(5).waitFor();
    // What check says may be there before all rows are.
    const order = ["tiny", "blue", "quiet", "kept", "large", "six"];
    const names = async () => (await records(page, caption)).map(({ Network: name }) => name);
    await expect.poll(names, SOON).toEqual(order);
    await expect.poll(async () => (await bars(page)).six?.[0], SOON).toMatch(/^9 idle, 1 excluded, /);
    // Each network is counted as soon as it has arrived.
    await expect
      .poll(async () => (await records(page, caption))[1], SOON)
      .toMatchObject({
        Full: "5 %",
        Free: expect.stringMatching(/^208\b/),
        Owner: expect.stringMatching(/^shop/),
        Subnets: expect.stringMatching(/^192\.168\.10\.0\/24\s*fd10::\/64$/),
        VMs: "12",
        Check: "ok",
      });
    const counts = await bars(page);
    expect(counts).toMatchObject({
      tiny: ["11 idle, 2 excluded, 3 free"],
      quiet: ["3 in use, 3 cooling down, 2 excluded, 1,016 free"],
      kept: ["1 reserved, 2 excluded, 253 free"],
      large: ["200 idle, 2 excluded, 65,334 free"],
    });
    expect(counts.blue?.[0]).toBe("6 in use, 7 idle, 1 gateway, 34 excluded, 208 free");
    expect(counts.blue?.[1]).toMatch(/^6 in use, 7 idle, 1 gateway, 1 excluded, about 1\.8 × 10¹⁹ free$/);
  });

  test("a network: its definition, its addresses, its free ranges and its allocations", async ({ page }) => {
    await go(page, "/networks/blue");
    await title(page, "blue");
    expect(await facts(page)).toMatchObject({
      Definition: expect.stringContaining("shop/blue"),
      Gateways: "192.168.10.1, fd10::1",
      Routes: "10.0.0.0/8",
      "VMs keep addresses": "yes",
      "Cool-down": expect.stringMatching(/^(60 s|1 min)/),
    });
    const free = await rows(page, "Free ranges of 192.168.10.0/24");
    expect(free[0]?.[0]).toMatch(/^192\.168\.10\.\d+ to 192\.168\.10\.63$/);
    expect(free.map(([text]) => text)).toEqual(
      expect.arrayContaining(["192.168.10.96 to 192.168.10.99", "192.168.10.113 to 192.168.10.254"]),
    );
    const intervals = await rows(page, "What is held of fd10::/64");
    expect(intervals.some(([, , held, size]) => held === "free" && /^about 1\.8 × 10¹⁹$/.test(size ?? ""))).toBe(true);
    const held = await records(page, "Allocations of network blue");
    expect(held).toHaveLength(26);
    expect(held.find(({ Address: address }) => address === "192.168.10.103")).toMatchObject({
      State: "in use",
      Holder: `claim ${NAMESPACE}/vm3.blue`,
      VM: `${NAMESPACE}/vm3`,
      "Used by": `pod ${NAMESPACE}/virt-launcher-vm3`,
      Node: node,
      Since: expect.stringMatching(/ ago$/),
    });
  });

  test("a network's map opens an address by a click and by the keyboard", async ({ page }) => {
    await go(page, "/networks/blue");
    const map = page.getByRole("application", { name: /^Addresses of 192\.168\.10\.0\/24/ });
    await map.waitFor();
    const box = await map.locator("canvas").boundingBox();
    if (box === null) throw new Error("the map has no size");
    // The row of .96 is the seventh of 16.
    const y = box.y + (6.5 * box.height) / 16;
    const label = map.getByText(`192.168.10.103: in use, claim ${NAMESPACE}/vm3.blue`);
    let x = box.x;
    for (; !(await label.isVisible()) && x < box.x + box.width; x += 8) await page.mouse.move(x, y);
    expect(await label.isVisible()).toBe(true);
    await page.mouse.click(x - 8, y);
    await title(page, "192.168.10.103");
    await page.goBack();
    // The page that is gone back to may be drawn once more.
    const chosen = map.getByText(/^192\.168\.10\.\d+: /);
    await until(async () => {
      await map.focus();
      return await chosen.isVisible();
    }, "the map to have the focus");
    await page.keyboard.press("Control+Home");
    for (const [key, text] of [
      ["Home", "192.168.10.0: excluded"],
      ["ArrowRight", "192.168.10.1: gateway"],
      ["ArrowDown", "192.168.10.17: free"],
      ["End", "192.168.10.31: free"],
    ] as const) {
      await page.keyboard.press(key);
      await map.getByText(text, { exact: true }).waitFor();
    }
    for (let row = 1; row < 4; row++) await page.keyboard.press("ArrowDown");
    await map.getByText("192.168.10.79: excluded").waitFor();
    await page.keyboard.press("Enter");
    await title(page, "192.168.10.79");
    await page.getByText("192.168.10.79 is excluded on network blue").waitFor();
    expect(page.url()).toBe(`${shown.ui.origin}/networks/blue/addresses/192.168.10.79`);
  });

  test("a large network: a tile for each /24, into which the reader goes", async ({ page }) => {
    await go(page, "/networks/large");
    const map = page.getByRole("application", { name: /^10\.20\.0\.0\/16, a tile for each \/24/ });
    await map.focus();
    await map.getByText("10.20.0.0/24: 1 of 256 held").waitFor();
    await page.keyboard.press("ArrowRight");
    await map.getByText(/^10\.20\.1\.0\/24: [01] of 256 held$/).waitFor();
    for (let n = 0; n < 6; n++) await page.keyboard.press("ArrowRight");
    await map.getByText("10.20.7.0/24: 1 of 256 held").waitFor();
    await page.keyboard.press("Enter");
    await title(page, "10.20.7.0/24");
    expect(page.url()).toContain("?at=10.20.7.0%2F24");
    expect((await rows(page, "Allocations of network large")).map(([address]) => address)).toEqual(["10.20.7.11"]);
    await page.getByRole("application", { name: /^Addresses of 10\.20\.7\.0\/24/ }).waitFor();
  });

  test("a network of IPv6 only: what is held, and the free space between, with names", async ({ page }) => {
    await go(page, "/networks/six");
    await title(page, "six");
    const found = await rows(page, "What is held of fd66::/64");
    expect(found.slice(0, 3).map(([from]) => from)).toEqual(["fd66::", "fd66::1", "fd66::12"]);
    expect(found.at(-1)).toEqual(["fd66::402", "fd66::ffff:ffff:ffff:ffff", "free", "about 1.8 × 10¹⁹"]);
    expect(await page.locator("address-map").count()).toBe(0);
  });

  test("an address says what holdfast who says, with its past", async ({ page }) => {
    for (const [network, address, holder] of [
      [
        "blue",
        "192.168.10.103",
        "is held by claim shop/vm3.blue of VM shop/vm3. It is used by pod shop/virt-launcher-vm3",
      ],
      ["blue", "fd10::45", "is held by claim shop/vm3.blue of VM shop/vm3. It is used by pod shop/virt-launcher-vm3"],
      ["blue", "192.168.10.110", "is held by claim shop/vm10.blue of VM shop/vm10. Nothing uses it now."],
      ["quiet", "172.16.0.1", "was held by pod shop/plain-0 (net1). It cools down"],
      ["kept", "172.20.0.7", "was held by claim shop/gone.kept, which is deleted. It is reserved until "],
    ] as const) {
      await go(page, `/networks/${network}/addresses/${encodeURIComponent(address)}`);
      await title(page, address);
      const sentence = (await page.locator(".sentence").textContent()) ?? "";
      expect(sentence).toMatch(new RegExp(`^${address}/\\d+ on network ${network} `));
      expect(sentence).toContain(holder);
      // What cools down has no holder any more.
      if (network === "quiet") continue;
      const { stdout } = await shown.daemon.cli("who", address, "--network", network);
      const [, kind, name] = /(claim|pod) (shop\/[\w.-]+)/.exec(sentence) ?? [];
      expect(stdout).toContain(`${kind} ${name}`);
    }
    await go(page, "/networks/quiet/addresses/172.16.0.1");
    const past = await rows(page, "Who had 172.16.0.1");
    expect(past).toHaveLength(1);
    expect(past[0]).toEqual(
      expect.arrayContaining(["172.16.0.1", "pod shop/plain-0 (net1)", "pod shop/plain-0", node]),
    );
    expect(past[0]?.at(-1)).toMatch(/DEL/);
    const line = page.locator("time-line[aria-label='Who had 172.16.0.1']");
    await line.waitFor();
    expect((await line.boundingBox())?.width).toBeGreaterThan(100);
    for (const [address, text] of [
      ["192.168.10.99", "192.168.10.99 is free on network blue."],
      ["192.168.10.1", "192.168.10.1 is a gateway of network blue"],
      ["10.0.0.1", "10.0.0.1 is in no subnet of network blue."],
      ["pelican", "pelican is no address."],
    ] as const) {
      await go(page, `/networks/blue/addresses/${address}`);
      await page.getByText(text).waitFor();
    }
  });

  test("a VM: its addresses, its state and where it ran", async ({ page }) => {
    await go(page, "/vms");
    // There are more than are drawn: from the end.
    for (let n = 0; n < 2; n++) await page.getByRole("button", { name: /^VM/ }).click();
    const vms = await records(page, "Virtual machines with addresses");
    const named = (name: string) => vms.find(({ VM: one }) => one === name);
    expect(named("shop/vm3")).toMatchObject({
      ...{ State: "running", Addresses: "192.168.10.103, fd10::45", Node: node },
    });
    expect(named("shop/vm10")).toMatchObject({ State: "stopped" });
    await page.getByRole("searchbox").fill("vm3");
    await page.getByRole("link", { name: "shop/vm3", exact: true }).first().click();
    await title(page, "shop/vm3");
    expect(await facts(page)).toMatchObject({ State: "running" });
    expect((await records(page, "Addresses of shop/vm3")).map(({ Address: one }) => one)).toEqual([
      ...["192.168.10.103", "fd10::45"],
    ]);
    const past = await rows(page, "Where shop/vm3 ran");
    expect(past.flat()).toContain("pod shop/virt-launcher-vm3");
    await page.locator("time-line").waitFor();
  });

  test("a node: readiness, outstanding releases, the age of its journal, and what runs there", async ({ page }) => {
    await go(page, "/nodes");
    expect(await rows(page, "Nodes with addresses in use")).toEqual([[node, "9", "15"]]);
    await page.getByRole("link", { name: node, exact: true }).first().click();
    await title(page, node);
    await page.getByText("Outstanding releases").waitFor();
    expect(await facts(page)).toMatchObject({
      "Gives addresses": "yes",
      "Outstanding releases": "0",
      Daemon: expect.stringMatching(/^\d+\.\d+\.\d+/),
    });
    expect(await rows(page, `Addresses in use on ${node}`)).toHaveLength(15);
  });

  test("findings: nothing, or what check says with its remedy", async ({ page }) => {
    await go(page, "/findings");
    await page.getByText(/^Nothing is wrong\. 249 allocations on 6 networks were checked\.$/).waitFor();
  });
});
