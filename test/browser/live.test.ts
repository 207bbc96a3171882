/** The page while things change: addresses, daemons, `holdfast ui` itself. */
import type { Page } from "playwright-core";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { TestDaemon } from "../harness/daemon.ts";
import { TestBrowser, UiProcess, whyNoBrowser } from "./page.ts";
import { bars, rows, SOON, title } from "./reading.ts";
import { Tunnel } from "./tunnel.ts";
import { apply, attach, claim, detach, nad, UiOfDaemon } from "./ui-of-daemon.ts";

const reason = whyNoBrowser();
describe.skipIf(reason !== null)("the page", () => {
  let shown: UiOfDaemon;
  /** Daemons that took the first one's place. */
  let later: TestDaemon[];
  beforeEach(async () => {
    later = [];
    shown = await UiOfDaemon.start(async (daemon) => {
      await apply(daemon, [
        nad("blue", { subnets: "192.168.10.0/24", cooldownSeconds: 600 }),
        nad("red", { subnets: "192.168.20.0/24" }),
        claim("blue", "vm1", ["192.168.10.40/24"]),
      ]);
      await attach(daemon, "first", "blue", { pod: "first" });
    });
  });
  afterEach(async () => {
    await Promise.all(later.map((daemon) => daemon.end()));
    await shown.stop();
    expect(shown.browser.problems).toEqual([]);
  });

  const notice = (page: Page) => page.locator(".notice");
  const filter = (page: Page) => page.evaluate(`getComputedStyle(document.querySelector("main")).filter`);
  const counts = async (page: Page, network: string) => (await bars(page))[network]?.[0];
  /** A mark that a page which is loaded again no longer has. */
  const mark = (page: Page) => page.evaluate("globalThis.isSamePage = true");
  const expectSamePage = async (page: Page) => expect(await page.evaluate("globalThis.isSamePage")).toBe(true);
  const restarted = async () => {
    const daemon = await TestDaemon.start({ directory: shown.daemon.directory });
    later.push(daemon);
    return daemon;
  };

  test("shows what an ADD and a DEL change, on every page, without being loaded again", async () => {
    const [networks, network, address, vm, node] = await Promise.all([
      shown.open("/"),
      shown.open("/networks/blue"),
      shown.open("/networks/blue/addresses/192.168.10.40"),
      shown.open("/vms/shop/vm1"),
      shown.open("/nodes"),
    ]);
    const all = [networks, network, address, vm, node];
    await expect.poll(() => counts(networks, "blue"), SOON).toMatch(/^1 in use, 1 idle, .* free$/);
    await network.getByText("192.168.10.40", { exact: true }).waitFor();
    await address.getByText("Nothing uses it now.").waitFor();
    await vm.getByText("stopped").waitFor();
    for (const page of all) await mark(page);
    await attach(shown.daemon, "second", "blue", { pod: "virt-launcher-vm1", claim: "vm1.blue" });
    const [other] = await attach(shown.daemon, "third", "blue", { pod: "third" });
    await expect.poll(() => counts(networks, "blue"), SOON).toMatch(/^3 in use, 2\d\d free$|^3 in use, .* free$/);
    await address.getByText("It is used by pod shop/virt-launcher-vm1").waitFor(SOON);
    await vm.getByText("running").waitFor(SOON);
    await network.getByRole("link", { name: `${other}`, exact: true }).waitFor(SOON);
    await expect.poll(async () => (await rows(node, "Nodes with addresses in use"))[0]?.[2], SOON).toBe("3");
    await detach(shown.daemon, "third", "blue", { pod: "third" });
    await detach(shown.daemon, "second", "blue", { pod: "virt-launcher-vm1", claim: "vm1.blue" });
    await expect.poll(() => counts(networks, "blue"), SOON).toMatch(/^1 in use, 1 idle, 1 cooling down, /);
    await address.getByText("Nothing uses it now.").waitFor(SOON);
    await vm.getByText("stopped").waitFor(SOON);
    // Its past grew too.
    await expect
      .poll(async () => (await rows(address, "Who had 192.168.10.40")).flat().join(), SOON)
      .toContain("pod shop/virt-launcher-vm1");
    const found = async () => (await rows(network, "Allocations of network blue")).find(([one]) => one === other);
    await expect.poll(async () => (await found())?.[1], SOON).toMatch(/cooling down$/);
    for (const page of all) await expectSamePage(page);
  });

  test("shows networks that come, change and go", async () => {
    const page = await shown.open("/");
    await page.getByRole("link", { name: "red", exact: true }).waitFor();
    await mark(page);
    await apply(shown.daemon, [nad("green", { subnets: "10.44.0.0/24" })]);
    await page.getByRole("link", { name: "green", exact: true }).waitFor(SOON);
    await apply(shown.daemon, [nad("green", { subnets: "10.44.0.0/23" })]);
    await page.getByText("10.44.0.0/23").waitFor(SOON);
    const gone = await shown.daemon.post("/v1/delete", {
      objects: [nad("green", { subnets: "10.44.0.0/23" })],
    });
    expect(gone.status, gone.body).toBe(200);
    await page.getByRole("link", { name: "green", exact: true }).waitFor({ ...SOON, state: "detached" });
    await expectSamePage(page);
  });

  test("of a killed daemon shows what is known, greyed, with its age, and comes back by itself", async () => {
    const page = await shown.open("/networks/blue");
    const networks = await shown.open("/");
    await page.getByText("192.168.10.40", { exact: true }).waitFor();
    await networks.getByRole("link", { name: "blue", exact: true }).waitFor();
    for (const one of [page, networks]) await mark(one);
    expect(await notice(page).count()).toBe(0);
    await shown.daemon.end("SIGKILL");
    for (const one of [page, networks]) {
      await notice(one).waitFor(SOON);
      expect(await filter(one)).toMatch(/grayscale|saturate/);
      await notice(one)
        .getByText(/for \d+ s\b/)
        .waitFor();
    }
    // What is known stays, also for whoever goes on reading.
    expect(await counts(networks, "blue")).toMatch(/^1 in use, 1 idle, /);
    await page.getByText("192.168.10.40", { exact: true }).first().click();
    await title(page, "192.168.10.40");
    await page.getByText("is held by claim shop/vm1.blue").waitFor();
    const age = async () => Number(/for (\d+) s\b/.exec((await notice(page).textContent()) ?? "")?.[1]);
    await expect.poll(age, SOON).toBeGreaterThanOrEqual(3);
    // A reader who comes now sees the same.
    const fresh = await shown.open("/networks/blue");
    await fresh.getByText("192.168.10.40", { exact: true }).waitFor();
    await notice(fresh).waitFor();
    expect(await filter(fresh)).toMatch(/grayscale|saturate/);
    const freshAge = /for (\d+) s\b/.exec((await notice(fresh).textContent()) ?? "")?.[1];
    expect(Number(freshAge)).toBeGreaterThanOrEqual(3);
    const daemon = await restarted();
    for (const one of [page, networks, fresh]) {
      await notice(one).waitFor({ ...SOON, state: "detached" });
      expect(await filter(one)).toBe("none");
    }
    const [given] = await attach(daemon, "fourth", "blue", { pod: "fourth" });
    await fresh.getByRole("link", { name: `${given}`, exact: true }).waitFor(SOON);
    await expect.poll(() => counts(networks, "blue"), SOON).toMatch(/^2 in use, 1 idle, /);
    for (const one of [page, networks]) await expectSamePage(one);
    expect(shown.ui.child.exitCode).toBeNull();
  });

  test("of a frozen daemon says so as well", async () => {
    const page = await shown.open("/");
    await page.getByRole("link", { name: "blue", exact: true }).waitFor();
    shown.daemon.process.kill("SIGSTOP");
    await notice(page).waitFor(SOON);
    expect(await counts(page, "blue")).toMatch(/^1 in use, 1 idle, /);
    shown.daemon.process.kill("SIGCONT");
    await notice(page).waitFor({ ...SOON, state: "detached" });
  });

  test("says when holdfast ui itself has ended, and what to do", async () => {
    const page = await shown.open("/networks/blue");
    await page.getByText("192.168.10.40", { exact: true }).waitFor();
    shown.ui.child.kill("SIGKILL");
    await notice(page).getByText("holdfast ui has ended").waitFor(SOON);
    expect(await filter(page)).toMatch(/grayscale|saturate/);
    expect((await rows(page, "Allocations of network blue")).length).toBe(2);
    await page.getByRole("link", { name: "192.168.10.40", exact: true }).click();
    await page.getByText("is held by claim shop/vm1.blue").waitFor();
    // Another one on the same port knows neither its name nor its token: the old page says what helps, and that helps.
    const { port } = new URL(shown.ui.origin);
    const next = await UiProcess.start("--socket", shown.daemon.socket, "--port", port);
    try {
      await notice(page).getByText("this tab was not opened by the URL that holdfast ui printed").waitFor(SOON);
      expect(await notice(page).textContent()).toMatch(/Open the URL that it prints/);
      // It is not asked again and again with a token of somebody else.
      expect(await page.evaluate("Object.values(sessionStorage)")).toEqual([]);
      await page.goto(next.url);
      await page.getByRole("link", { name: "blue", exact: true }).waitFor();
      expect(await notice(page).count()).toBe(0);
    } finally {
      await next.stop();
    }
  });

  test("is there in every tab of the reader, and in no other browser", async () => {
    const page = await shown.open("/networks/blue");
    await page.getByText("192.168.10.40", { exact: true }).waitFor();
    await page.reload();
    await page.getByText("192.168.10.40", { exact: true }).waitFor();
    const context = page.context();
    // By the printed URL, by a path that is typed, by a link that is opened in a tab of its own.
    const printed = await context.newPage();
    await printed.goto(shown.ui.url);
    await printed.getByRole("link", { name: "blue", exact: true }).waitFor();
    const typed = await context.newPage();
    await typed.goto(`${shown.ui.origin}/networks/blue`);
    await typed.getByText("192.168.10.40", { exact: true }).waitFor();
    const [opened] = await Promise.all([
      context.waitForEvent("page"),
      page.getByRole("link", { name: "192.168.10.40", exact: true }).click({ modifiers: ["Control"] }),
    ]);
    await opened.getByText("is held by claim shop/vm1.blue").waitFor();
    for (const one of [printed, typed, opened]) {
      expect(one.url()).not.toContain(shown.ui.token);
      await one.reload();
      await one.locator("nav a").first().waitFor();
      await expect.poll(() => notice(one).count(), SOON).toBe(0);
    }
    // The URL again, in a tab that has the page.
    await printed.goto(shown.ui.url);
    await printed.getByRole("link", { name: "blue", exact: true }).waitFor();
    await expect.poll(() => printed.url(), SOON).toBe(`${shown.ui.origin}/`);
    await context.close();
    const stranger = await shown.browser.open(`${shown.ui.origin}/networks/blue`);
    await notice(stranger).getByText("Open the URL that it prints").waitFor(SOON);
    expect(await stranger.textContent("body")).not.toContain("192.168.10.40");
    // It goes on once the reader has done that.
    await stranger.goto(shown.ui.url);
    await stranger.getByRole("link", { name: "blue", exact: true }).waitFor();
    expect(await notice(stranger).count()).toBe(0);
  });

  test("connects again by itself when the connection was lost", async () => {
    const { port, hostname } = new URL(shown.ui.url);
    const tunnel = await Tunnel.start(Number(port));
    const browser = await TestBrowser.start(`--host-resolver-rules=MAP ${hostname} 127.0.0.1:${tunnel.port}`);
    try {
      const page = await browser.open(shown.ui.url);
      await expect.poll(() => counts(page, "blue"), SOON).toMatch(/^1 in use, 1 idle, /);
      await mark(page);
      for (let time = 0; time < 2; time++) {
        tunnel.cut();
        await notice(page).getByText("cannot be reached").waitFor(SOON);
        const container = `while-away-${time}`;
        await attach(shown.daemon, container, "red", { pod: container });
        tunnel.open();
        await notice(page).waitFor({ ...SOON, state: "detached" });
        await expect.poll(() => counts(page, "red"), SOON).toMatch(new RegExp(`^${time + 1} in use, `));
      }
      await expectSamePage(page);
      expect(browser.problems).toEqual([]);
    } finally {
      await browser.stop();
      await tunnel.stop();
    }
  });

  test("flashes what changes once, and never for whoever wants no motion", async () => {
    const still = await shown.open("/networks/blue");
    const moving = await shown.open("/networks/blue", { motion: "no-preference" });
    for (const page of [still, moving]) {
      await page.getByText("192.168.10.40", { exact: true }).waitFor();
      // What comes and goes is counted as it comes.
      await page.evaluate(`
        globalThis.flashes = { cells: 0, rows: 0 };
        const map = document.querySelector("address-map").shadowRoot;
        new MutationObserver((all) => {
          for (const { addedNodes } of all)
            for (const one of addedNodes) if (one.className === "flash") globalThis.flashes.cells += 1;
        }).observe(map, { childList: true, subtree: true });
        document.addEventListener("animationstart", (event) => {
          if (event.animationName === "news") globalThis.flashes.rows += 1;
        });
      `);
    }
    const flashes = (page: Page) => page.evaluate("globalThis.flashes") as Promise<{ cells: number; rows: number }>;
    const [given] = await attach(shown.daemon, "fifth", "blue", { pod: "fifth" });
    for (const page of [still, moving]) await page.getByRole("link", { name: `${given}`, exact: true }).waitFor(SOON);
    await expect.poll(() => flashes(moving), SOON).toMatchObject({ cells: 1 });
    await expect.poll(async () => (await flashes(moving)).rows, SOON).toBeGreaterThan(0);
    // Once: what is drawn again later does not.
    await expect
      .poll(
        () => moving.evaluate(`document.querySelector("address-map").shadowRoot.querySelectorAll(".flash").length`),
        SOON,
      )
      .toBe(0);
    const before = await flashes(moving);
    await attach(shown.daemon, "sixth", "red", { pod: "sixth" });
    await moving.evaluate("new Promise((resolve) => setTimeout(resolve, 6_000))");
    expect(await flashes(moving)).toEqual(before);
    expect(await flashes(still)).toEqual({ cells: 0, rows: 0 });
  });
});
