/** What a reader does with the page: search, copy, link, go back, without a mouse, with other colours. */
import type { Page } from "playwright-core";
import { afterAll, test as base, beforeAll, describe, expect } from "vitest";
import { whyNoBrowser } from "./page.ts";
import { copied, drawn, rows, SOON, title } from "./reading.ts";
import { attach, seedAll, UiOfDaemon } from "./ui-of-daemon.ts";

const reason = whyNoBrowser();
const CONTAINER = "FEEDc0deFEEDc0deFEEDc0deFEEDc0deFEEDc0deFEEDc0deFEEDc0deFEEDc0de";
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

describe.skipIf(reason !== null)("a reader", () => {
  beforeAll(async () => {
    shown = await UiOfDaemon.start(async (daemon) => {
      await seedAll(daemon);
      await attach(daemon, CONTAINER, "large", { pod: "db-0", more: "MAC=02:00:5e:10:00:7b" });
    });
    node = (await shown.daemon.get("/v1/status")).json().node;
  });
  afterAll(() => shown?.stop());

  describe("finds by", () => {
    const found = async (page: Page, text: string) => {
      await page.getByRole("searchbox").fill(text);
      const caption = `Allocations with “${text.trim().toLowerCase()}”`;
      await page.getByText("Search", { exact: true }).waitFor();
      await page
        .getByRole("region", { name: caption, exact: true })
        .or(page.getByText(`No allocation has “${text.trim().toLowerCase()}”.`))
        .waitFor();
      if (await page.getByText(/^No allocation has/).isVisible()) return [];
      return (await rows(page, caption)).map(([network, address]) => `${network} ${address}`);
    };

    base.for([
      ["part of an address", "10.103", ["blue 192.168.10.103"]],
      ["an IPv6 address", "fd10::45", ["blue fd10::45"]],
      ["a MAC", "02:00:00:00:aa:0f", ["blue 192.168.10.112", "blue fd10::"]],
      ["a MAC, however it is written", "0200.5E10.007B", ["large 10.20."]],
      ["part of a MAC", "aa-0f", ["blue 192.168.10.112", "blue fd10::"]],
      ["VM", "shop/vm10", ["blue 192.168.10.110", "blue fd10::"]],
      ["part of a VM's name", "VM11", ["blue 192.168.10.111", "blue fd10::"]],
      ["pod", "db-0", ["large 10.20."]],
      ["pod with its namespace", "shop/db-0", ["large 10.20."]],
      ["claim", "vm7.blue", ["blue 192.168.10.107", "blue fd10::85"]],
      ["container ID", CONTAINER, ["large 10.20."]],
      ["the beginning of a container ID", CONTAINER.slice(0, 12), ["large 10.20."]],
      ["network", "kept", ["kept 172.20.0.7"]],
      ["nothing that there is", "zebra", []],
      ["nothing that there is, with a digit", "zebra7", []],
    ] as const)("%s", async ([, text, wanted]) => {
      const page = await shown.open();
      const all = await found(page, text);
      expect(all).toHaveLength(wanted.length);
      for (const [index, one] of wanted.entries()) expect(all[index]).toMatch(new RegExp(`^${one}`));
      expect(page.url()).toBe(`${shown.ui.origin}/search?q=${encodeURIComponent(text)}`);
      await page.context().close();
    });

    test("node", async ({ page }) => {
      const all = await found(page, node);
      expect(all.length).toBeGreaterThanOrEqual(16);
      await page.locator("ul.links").getByRole("link", { name: node, exact: true }).click();
      await title(page, node);
    });

    test("a whole address that nobody has, which leads to its page", async ({ page }) => {
      expect(await found(page, "192.168.10.50")).toEqual([]);
      await page.getByRole("link", { name: "192.168.10.50 on blue" }).click();
      await title(page, "192.168.10.50");
      await page.getByText("192.168.10.50 is free on network blue.").waitFor();
    });

    test("/ from everywhere, but not while typing", async ({ page }) => {
      for (const path of ["/", "/networks/blue", "/vms", "/nodes", "/findings"]) {
        await go(page, path);
        await page.locator("h1").waitFor();
        await page.keyboard.press("/");
        expect(await page.evaluate("document.activeElement.type"), path).toBe("search");
      }
      await page.keyboard.type("shop/vm3");
      await expect.poll(() => page.getByRole("searchbox").inputValue(), SOON).toBe("shop/vm3");
      await title(page, "Search");
      expect(await page.evaluate("document.activeElement.type")).toBe("search");
    });
  });

  test("copies a table as CSV, in the order that is shown", async ({ page }) => {
    await page.getByRole("link", { name: "tiny", exact: true }).waitFor();
    const networks = (await copied(page, "Copy as CSV")).trimEnd().split(/\r?\n/);
    for (const head of ["Network", "Addresses", "Full", "Free", "Owner", "Subnets", "VMs", "Check"])
      expect(networks[0]?.split(",")).toContain(head);
    expect(networks[1]).toMatch(/^tiny,/);
    for (const cell of ['"11 idle, 2 excluded, 3 free"', "78 %", "10.9.0.0/28"]) expect(networks[1]).toContain(cell);
    expect(networks).toHaveLength(7);
    await go(page, "/networks/large");
    await page.getByRole("button", { name: /^Holder/ }).click();
    await page.getByRole("button", { name: /^Holder/ }).click();
    const button = page.getByRole("button", { name: "Copy as CSV" });
    const text = await copied(page, "Copy as CSV", (await button.count()) - 1);
    const lines = text.trimEnd().split(/\r?\n/);
    expect(lines[0]).toBe("Address,State,Holder,VM,Used by,Node,Since");
    // All 201 rows, also those that are not drawn; "pod …" after "claim …".
    expect(lines).toHaveLength(202);
    expect(lines[1]).toMatch(/^10\.20\.\d+\.\d+,in-use,pod shop\/db-0 \(net1\),,pod shop\/db-0,/);
    const holders = lines.slice(1).map((line) => line.split(",")[2] ?? "");
    // As people count: 9 before 10.
    const { compare } = new Intl.Collator("en", { numeric: true });
    expect(holders).toEqual(holders.toSorted((a, b) => compare(b, a)));
  });

  test("sorts by every head, both ways", async ({ page }) => {
    await go(page, "/networks/tiny");
    const caption = "Allocations of network tiny";
    const addresses = async () => (await rows(page, caption)).map(([address]) => address);
    const wanted = Array.from({ length: 11 }, (_, n) => `10.9.0.${n + 2}`);
    const head = page.getByRole("region", { name: caption }).getByRole("button", { name: /^Address/ });
    await head.click();
    await expect.poll(addresses, SOON).toEqual(wanted);
    await head.click();
    await expect.poll(addresses, SOON).toEqual(wanted.toReversed());
    expect(await page.locator("th[aria-sort=descending]").textContent()).toMatch(/^Address/);
  });

  test("links to every place: a reload and another reader see the same, and back goes back", async ({ page }) => {
    const visited: [path: string, name: string][] = [
      ["/", "Networks"],
      ["/networks/blue", "blue"],
      ["/networks/blue/addresses/192.168.10.103", "192.168.10.103"],
      ["/vms/shop/vm3", "shop/vm3"],
    ];
    await page.getByRole("link", { name: "blue", exact: true }).click();
    await title(page, "blue");
    await page.getByRole("link", { name: "192.168.10.103", exact: true }).click();
    await title(page, "192.168.10.103");
    await page.getByRole("link", { name: "shop/vm3", exact: true }).first().click();
    await title(page, "shop/vm3");
    for (const [path, name] of visited.toReversed()) {
      expect(page.url()).toBe(shown.ui.origin + path);
      await title(page, name);
      await expect.poll(() => page.title(), SOON).toBe(`${name} – Holdfast`);
      await page.reload();
      await title(page, name);
      if (path !== "/") await page.goBack();
    }
    await page.goForward();
    await title(page, "blue");
    await go(page, "/networks/large?at=10.20.7.0%2F24");
    await title(page, "10.20.7.0/24");
    await page.reload();
    await title(page, "10.20.7.0/24");
    await go(page, "/search?q=vm3");
    await expect.poll(() => page.getByRole("searchbox").inputValue(), SOON).toBe("vm3");
    await go(page, "/no/such/page");
    await title(page, "There is no such page");
  });

  test("chooses the colours by hand, for the next time too", async ({ page }) => {
    const ground = () => page.evaluate("getComputedStyle(document.body).backgroundColor");
    const [light, dark] = ["rgb(255, 255, 255)", "rgb(20, 23, 26)"];
    await page.locator("h1").waitFor();
    expect(await ground()).toBe(light);
    const choice = page.getByRole("combobox", { name: "Colours" });
    await choice.selectOption("dark");
    await expect.poll(ground, SOON).toBe(dark);
    await page.reload();
    await expect.poll(ground, SOON).toBe(dark);
    await page.emulateMedia({ colorScheme: "dark" });
    await choice.selectOption("light");
    await expect.poll(ground, SOON).toBe(light);
    await choice.selectOption("system");
    await expect.poll(ground, SOON).toBe(dark);
    await page.emulateMedia({ colorScheme: "light" });
    await expect.poll(ground, SOON).toBe(light);
  });

  describe("without a mouse", () => {
    /** Rows of long lists are drawn as they come into sight. */
    const FOCUSABLE = `[...document.querySelectorAll("a[href], button, input, select, address-map, [tabindex='0']")].filter((one) => one.closest(".long tbody") === null)`;

    base.for(["/", "/networks/blue", "/networks/large", "/vms/shop/vm3", "/findings", "/search?q=192.168.10.1"])(
      "reaches everything of %s, and sees where he is",
      async (path) => {
        const page = await shown.open(path);
        await page.locator("tbody tr, .well").first().waitFor();
        await drawn(page);
        const count = (await page.evaluate(
          `${FOCUSABLE}.map((one, index) => { one.dataset.place = index; return index; }).length`,
        )) as number;
        expect(count).toBeGreaterThan(7);
        const seen = new Set<string>();
        for (let n = 0; n < 1_500 && seen.size < count; n++) {
          await page.keyboard.press("Tab");
          const { place, outline, name, isInView } = (await page.evaluate(`(() => {
            const one = document.activeElement;
            const { outlineStyle, outlineWidth } = getComputedStyle(one);
            const { top, bottom } = one.getBoundingClientRect();
            return {
              place: one.dataset.place, outline: outlineStyle + " " + outlineWidth, name: one.outerHTML.slice(0, 200),
              isInView: bottom > 0 && top < innerHeight,
            };
          })()`)) as { place?: string; outline: string; name: string; isInView: boolean };
          if (place === undefined) continue;
          seen.add(place);
          expect(outline, name).toMatch(/^(solid|auto|double) [1-9]/);
          expect(isInView, name).toBe(true);
        }
        const missed = await page.evaluate(
          `${FOCUSABLE}.filter((one) => !${JSON.stringify([...seen])}.includes(one.dataset.place)).map((one) => one.outerHTML.slice(0, 200))`,
        );
        expect(missed).toEqual([]);
        await page.context().close();
      },
    );

    test("goes past the bar", async ({ page }) => {
      await go(page, "/networks/blue");
      await title(page, "blue");
      await page.keyboard.press("Tab");
      expect(await page.evaluate("document.activeElement.className")).toBe("skip");
      await page.keyboard.press("Enter");
      await page.keyboard.press("Tab");
      expect(await page.evaluate(`document.activeElement.closest("main") !== null`)).toBe(true);
      expect(page.url()).toContain("/networks/blue");
    });

    test("opens, sorts, copies and chooses", async ({ page }) => {
      await page.getByRole("link", { name: "tiny", exact: true }).focus();
      await page.keyboard.press("Enter");
      await title(page, "tiny");
      // A new page is where the next Tab goes on from.
      await expect.poll(() => page.evaluate("document.activeElement.localName"), SOON).toBe("h1");
      const region = page.getByRole("region", { name: "Allocations of network tiny" });
      await region.getByRole("button", { name: /^Holder/ }).focus();
      await page.keyboard.press("Space");
      await page.locator("th[aria-sort=ascending]", { hasText: "Holder" }).waitFor();
      await page.getByRole("combobox", { name: "Colours" }).focus();
      await page.keyboard.press("ArrowDown");
      await expect.poll(() => page.evaluate("document.documentElement.dataset.theme"), SOON).toBe("light");
      await page.getByRole("button", { name: "Copy as CSV" }).last().focus();
      await page.keyboard.press("Enter");
      await page.getByRole("button", { name: "Copied" }).waitFor();
    });
  });
});
