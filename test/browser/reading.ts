import type { Page } from "playwright-core";
import { expect } from "vitest";

/** What a reader sees, from the page itself. */

/** What a busy machine may take for what people call "at once". */
export const SOON = { timeout: 60_000 };

/** Nothing is drawn for so long, ms, once a page has all it asks for. */
const STILL_MS = 500;

/** Waits until the page has all it asks for. Its stream never ends, so the network is never idle. */
export async function drawn(page: Page): Promise<void> {
  await page.locator("h1").waitFor();
  await expect.poll(() => page.locator("p.progress, td:text-is('…')").count(), SOON).toBe(0);
  await expect.poll(() => page.getByText("Reading …").count(), SOON).toBe(0);
  await page.evaluate(`new Promise((resolve) => {
    let timer;
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(() => (document.querySelector("p.progress") === null ? resolve() : wait()), ${STILL_MS});
    };
    new MutationObserver(wait).observe(document.body, { childList: true, subtree: true });
    wait();
  })`);
}

/** Texts of the rows of a table that are drawn, cell by cell. A long table has only those that are in sight. */
export async function rows(page: Page, caption: string): Promise<string[][]> {
  return (await cells(page, caption)).slice(1);
}

/** The same by the heads of the columns, whatever their order. */
export async function records(page: Page, caption: string): Promise<Record<string, string>[]> {
  const [heads = [], ...found] = await cells(page, caption);
  return found.map((row) => Object.fromEntries(heads.map((head, index) => [head, row[index] ?? ""])));
}

/** What everybody is told of a cell: letters beside a word are for the eye. */
async function cells(page: Page, caption: string): Promise<string[][]> {
  await page.getByRole("region", { name: caption, exact: true }).locator("tbody tr").first().waitFor();
  const table = `[...document.querySelectorAll("table")].find((one) => one.caption.textContent === ${JSON.stringify(caption)})`;
  return (await page.evaluate(`[...${table}.querySelectorAll("tr:not(.spacer)")].map((row) =>
    [...row.cells].map((cell) => {
      const heard = cell.cloneNode(true);
      for (const one of heard.querySelectorAll("[aria-hidden=true]")) one.remove();
      return heard.textContent.trim();
    }),
  )`)) as string[][];
}

/** Names and values. */
export async function facts(page: Page): Promise<Record<string, string>> {
  await page.locator("dl.facts dt").first().waitFor();
  return (await page.evaluate(
    `Object.fromEntries([...document.querySelectorAll("dl.facts > div")].map((one) => [...one.children].map((part) => part.textContent)))`,
  )) as Record<string, string>;
}

/** By network, what its bars say to people who do not see them. */
export async function bars(page: Page): Promise<Record<string, string[]>> {
  return (await page.evaluate(
    `Object.fromEntries([...document.querySelectorAll("tbody tr")].map((row) => [row.cells[0].textContent, [...row.querySelectorAll("address-bar")].map((one) => one.ariaLabel)]))`,
  )) as Record<string, string[]>;
}

/** Waits for the page of this name. */
export function title(page: Page, name: string): Promise<void> {
  return page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
}

/** What the n-th button that copies brings to the clipboard. */
export async function copied(page: Page, label: string, n = 0): Promise<string> {
  await page.getByRole("button", { name: label, exact: true }).nth(n).click();
  await page.getByRole("button", { name: "Copied", exact: true }).waitFor();
  return (await page.evaluate("navigator.clipboard.readText()")) as string;
}
