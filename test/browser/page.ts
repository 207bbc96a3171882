import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { cleanEnv, HOLDFAST } from "../harness/daemon.ts";
import { skippedFor } from "../harness/needs.ts";

const CHROMIUM = "/usr/bin/chromium";
/** Whatever a test waits for is there long before, also on a busy machine, ms. */
const PATIENCE_MS = 60_000;

/** Why there is no browser here; null: there is one. In CI there must be. */
export function whyNoBrowser(): string | null {
  const found = spawnSync(CHROMIUM, ["--version"]).status === 0;
  return skippedFor(found ? null : "needs Debian's chromium (tools/system-packages test-all)");
}

/** `holdfast ui` as a process of its own. */
export class UiProcess {
  readonly url: string;
  readonly child: ChildProcess;

  private constructor(child: ChildProcess, url: string) {
    this.child = child;
    this.url = url;
  }

  static async start(...words: string[]): Promise<UiProcess> {
    const child = spawn(process.execPath, [HOLDFAST, "ui", "--no-open", ...words], {
      env: cleanEnv(),
      stdio: ["ignore", "pipe", "pipe"],
    });
    let said = "";
    child.stderr.on("data", (chunk: Buffer) => {
      said += chunk.toString();
    });
    const ended = once(child, "exit").then(([code]) => {
      throw new Error(`holdfast ui ended with code ${code}: ${said}`);
    });
    const first = once(createInterface(child.stdout), "line").then(([line]) => line as string);
    const url = await Promise.race([first, ended]);
    ended.catch(() => {});
    return new UiProcess(child, url);
  }

  /** Of the page: `http://NAME.localhost:PORT` */
  get origin(): string {
    return new URL(this.url).origin;
  }

  /** The same server by its address: Node resolves no names below `localhost`. */
  get address(): string {
    return `http://127.0.0.1:${new URL(this.url).port}`;
  }

  get token(): string {
    return /[\w-]{32}/.exec(this.url)?.[0] ?? "";
  }

  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, "exit");
    this.child.kill("SIGTERM");
    await ended;
  }
}

export interface Look {
  readonly width?: number;
  readonly colours?: "light" | "dark";
  /** Default: none is wanted, so that nothing moves while a test looks. */
  readonly motion?: "reduce" | "no-preference";
}

/** Debian's Chromium. Errors of a page's scripts and of its security policy fail the test that opened it. */
export class TestBrowser {
  readonly #browser: Browser;
  readonly problems: string[] = [];

  private constructor(browser: Browser) {
    this.#browser = browser;
  }

  /** `more`: flags of Chromium. */
  static async start(...more: string[]): Promise<TestBrowser> {
    const args = ["--no-sandbox", "--disable-gpu", "--font-render-hinting=none", "--force-color-profile=srgb", ...more];
    const env = { ...process.env, FONTCONFIG_FILE: join(import.meta.dirname, "fonts.conf") };
    return new TestBrowser(await chromium.launch({ executablePath: CHROMIUM, args, env }));
  }

  /** A page of somebody who has not been here before. */
  async open(url: string, { width = 1280, colours = "light", motion = "reduce" }: Look = {}): Promise<Page> {
    const context = await this.#browser.newContext({
      viewport: { width, height: 900 },
      colorScheme: colours,
      reducedMotion: motion,
      timezoneId: "UTC",
      locale: "en-GB",
    });
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    page.on("pageerror", (error) => this.problems.push(`${error.stack}`));
    page.on("console", (message) => {
      if (message.type() === "error" && !/Failed to load resource|ERR_/.test(message.text()))
        this.problems.push(message.text());
    });
    await page.goto(url);
    return page;
  }

  context(): Promise<BrowserContext> {
    return this.#browser.newContext();
  }

  stop(): Promise<void> {
    return this.#browser.close();
  }
}
