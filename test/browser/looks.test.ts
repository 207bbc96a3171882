/** How the page looks, and whether everybody can use it. `UPDATE_LOOKS=1` writes the pictures anew: look at them. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import axe from "axe-core";
import pixelmatch from "pixelmatch";
import type { Page } from "playwright-core";
import { PNG } from "pngjs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ROOT } from "../harness/daemon.ts";
import { whyNoBrowser } from "./page.ts";
import { drawn, SOON } from "./reading.ts";
import { seedAll, UiOfDaemon } from "./ui-of-daemon.ts";

const reason = whyNoBrowser();
const LOOKS = join(import.meta.dirname, "looks");
/** What was seen instead, and what is different: of no repository. */
const SEEN = join(ROOT, "build/looks");
/** Without the alpha channel. */
const SMALL = { colorType: 2, deflateLevel: 9 };
/** Of all pixels: a newer Chromium draws letters a little differently. */
const DIFFERENT_MAX = 0.01;
/** Wherever the tests run. */
const NODE = "node-a";

const PAGES = {
  networks: "/",
  network: "/networks/blue",
  tiles: "/networks/large",
  address: "/networks/blue/addresses/192.168.10.103",
  vm: "/vms/shop/vm3",
  search: "/search?q=vm1",
} as const;

const OTHERS = [
  ...["/networks/large?at=10.20.7.0%2F24", "/networks/six", "/networks/tiny", "/networks/quiet", "/networks/kept"],
  ...["/networks/blue/addresses/192.168.10.50", "/networks/quiet/addresses/172.16.0.1", "/networks/none"],
  ...["/vms", "/vms/shop/none", "/nodes", `/nodes/${NODE}`, "/nodes/none", "/findings", "/search", "/search?q=zebra"],
  "/no/such/page",
];

interface Violation {
  readonly id: string;
  readonly help: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const { violations: found } = (await page.evaluate("axe.run(document)")) as { violations: Violation[] };
  return found.map(({ id, help, nodes }) =>
    [`${id}: ${help}`, ...nodes.slice(0, 3).map((one) => `${one.html} ${one.failureSummary}`)].join("\n"),
  );
}

/** A picture in which no time of the clock is. */
async function picture(page: Page): Promise<PNG> {
  await page.evaluate(`
    for (const one of document.querySelectorAll("time")) one.textContent = "12 min ago";
    for (const one of document.querySelectorAll("td"))
      if (/^\\d+ (s|min)$/.test(one.textContent)) one.textContent = "12 min";
  `);
  const mask = [page.locator("time-line")];
  return PNG.sync.read(await page.screenshot({ animations: "disabled", caret: "hide", mask, scale: "css" }));
}

function compare(name: string, seen: PNG): void {
  const file = join(LOOKS, `${name}.png`);
  if (process.env.UPDATE_LOOKS === "1") {
    mkdirSync(LOOKS, { recursive: true });
    writeFileSync(file, PNG.sync.write(seen, SMALL));
    return;
  }
  const wanted = PNG.sync.read(readFileSync(file));
  const { width, height } = wanted;
  mkdirSync(SEEN, { recursive: true });
  writeFileSync(join(SEEN, `${name}.png`), PNG.sync.write(seen, SMALL));
  expect({ width: seen.width, height: seen.height }).toEqual({ width, height });
  const difference = new PNG({ width, height });
  const pixels = pixelmatch(wanted.data, seen.data, difference.data, width, height, { threshold: 0.2 });
  writeFileSync(join(SEEN, `${name}-difference.png`), PNG.sync.write(difference));
  expect(pixels / (width * height), `${name}: see ${SEEN}`).toBeLessThanOrEqual(DIFFERENT_MAX);
}

describe.skipIf(reason !== null)("the page", () => {
  let shown: UiOfDaemon;
  beforeAll(async () => {
    shown = await UiOfDaemon.start(seedAll, ["--node", NODE]);
  });
  afterAll(() => shown?.stop());

  for (const colours of ["light", "dark"] as const)
    for (const width of [1_280, 400] as const)
      test(`looks as it did, ${colours} and ${width} px wide`, async () => {
        const page = await shown.open("/", { colours, width });
        for (const [name, path] of Object.entries(PAGES)) {
          await page.goto(shown.ui.origin + path);
          await drawn(page);
          if (name === "address" || name === "vm") await page.locator("time-line").waitFor();
          // Nothing is beyond the edge of a narrow screen: lists scroll by themselves.
          expect(await page.evaluate("document.documentElement.scrollWidth"), name).toBeLessThanOrEqual(width);
          compare(`${name}-${colours}-${width}`, await picture(page));
        }
        await page.context().close();
        expect(shown.browser.problems).toEqual([]);
      });

  for (const colours of ["light", "dark"] as const)
    test(`can be used by everybody (axe-core), ${colours}`, async () => {
      const page = await shown.open("/", { colours });
      const found: Record<string, string[]> = {};
      for (const path of [...Object.values(PAGES), ...OTHERS]) {
        await page.goto(shown.ui.origin + path);
        await drawn(page);
        const all = await violations(page);
        if (all.length > 0) found[path] = all;
      }
      await page.context().close();
      expect(found).toEqual({});
      expect(shown.browser.problems).toEqual([]);
    });

  test("can be used by everybody on a narrow screen, with colours by hand, and without a daemon", async () => {
    const other = await UiOfDaemon.start(seedAll);
    try {
      const page = await other.open("/networks/blue", { width: 400 });
      await drawn(page);
      await page.getByRole("combobox", { name: "Colours" }).selectOption("dark");
      expect(await violations(page)).toEqual([]);
      await other.daemon.end("SIGKILL");
      await page.locator(".notice").waitFor(SOON);
      expect(await violations(page)).toEqual([]);
      await page.getByRole("combobox", { name: "Colours" }).selectOption("light");
      expect(await violations(page)).toEqual([]);
      await page.goto(`${other.ui.origin}/findings`);
      await page.getByRole("alert").waitFor();
      expect(await violations(page)).toEqual([]);
      await page.context().close();
      expect(other.browser.problems).toEqual([]);
    } finally {
      await other.stop();
    }
  });
});
