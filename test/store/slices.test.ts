import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { AllocationView, Page } from "../../allocations/records.ts";
import { SLICE_ROWS } from "../../store/journal/slices.ts";
import { type SqliteSubject, sqliteSubject, want } from "./subjects.ts";

/** Long answers are read in slices, between which requests are served. */

const CLAIMS = 1_200;
const WIDE = { subnets: "10.64.0.0/12" };
let subject: SqliteSubject;

const claim = (name: string, ip: string) => ({
  ...{ namespace: "default", name, network: "blue", ips: [ip], vm: { name: "", uid: "" } },
  manifest: { metadata: {}, spec: { network: "blue" } },
});
const nameOf = (n: number) => `c${String(n).padStart(5, "0")}`;
const addressOf = (n: number) => `10.20.${n >> 8}.${n & 255}/16`;

beforeEach(async () => {
  subject = await sqliteSubject();
  await Promise.all(Array.from({ length: CLAIMS }, (_, n) => subject.store.applyClaim(claim(nameOf(n), addressOf(n)))));
});
afterEach(() => subject.close());

async function allPages<Item>(limit: number, page: (token?: string) => Promise<Page<Item>>): Promise<Item[][]> {
  const pages: Item[][] = [];
  let token: string | undefined;
  do {
    const { items, continue: next } = await page(token);
    expect(items.length).toBeLessThanOrEqual(limit);
    pages.push([...items]);
    token = next;
  } while (token !== undefined);
  return pages;
}

/** Turns of the event loop that others have while this goes on. */
async function turnsWhile(work: Promise<unknown>): Promise<number> {
  let turns = 0;
  let ended = false;
  const end = work.finally(() => {
    ended = true;
  });
  while (!ended) {
    await new Promise((resolve) => setImmediate(resolve));
    turns += 1;
  }
  await end;
  return turns;
}

describe("requests are served between the slices of", () => {
  test.each([
    ["check", () => subject.store.check()],
    ["a list", () => subject.store.list({}, { limit: 5_000 })],
    ["a list whose filter matches nothing", () => subject.store.list({ pod: "a/b" }, { limit: 5_000 })],
    ["claims", () => subject.store.claims({}, { limit: 5_000 })],
    ["content", () => subject.store.contentViews()],
  ])("%s", async (_name, ask: () => Promise<unknown>) => {
    expect(await turnsWhile(ask())).toBeGreaterThan(2);
  });
});

test("check ends while containers are attached faster than it reads", async () => {
  const perTurn = SLICE_ROWS;
  const enough = 400 * perTurn;
  let attached = 0;
  const attachSome = async () => {
    const ids = Array.from({ length: perTurn }, (_, n) => `container-${attached + n}`);
    attached += perTurn;
    await Promise.all(ids.map((id) => subject.store.attach(want(id, { ipam: WIDE }))));
  };
  const { clock } = subject;
  const timer = clock.timer.bind(clock);
  let isAttaching = false;
  // What waits between two slices.
  clock.timer = (ms, fire) => {
    if (isAttaching || attached >= enough) return timer(ms, fire);
    isAttaching = true;
    const attachFirst = () =>
      attachSome().then(() => {
        isAttaching = false;
        fire();
      });
    return timer(0, () => void attachFirst());
  };
  expect(await subject.store.check()).toEqual([]);
  expect(attached).toBeGreaterThan(0);
  expect(attached).toBeLessThan(enough);
});

test("check reports nothing that is only on its way, while claims come and go", async () => {
  const checked = subject.store.check();
  let ended = false;
  void checked.finally(() => {
    ended = true;
  });
  for (let n = 0; !ended; n = (n + 7) % CLAIMS) {
    await subject.store.deleteClaim("default", nameOf(n));
    await subject.store.applyClaim(claim(`new${n}`, `10.21.${n >> 8}.${n & 255}/16`));
  }
  expect(await checked).toEqual([]);
  expect(await subject.store.check()).toEqual([]);
});

test("every claim that is there all the time is listed once, whatever comes and goes between pages", async () => {
  let n = 0;
  const pages = await allPages(100, async (token) => {
    await subject.store.deleteClaim("default", nameOf(n));
    await subject.store.applyClaim(claim(`${nameOf(n)}a`, `10.21.${n >> 8}.${n & 255}/16`));
    n += 90;
    return subject.store.claims({}, { limit: 100, continue: token });
  });
  const names = pages.flat().map(({ metadata }) => metadata.name);
  expect(new Set(names).size).toBe(names.length);
  const stayed = Array.from({ length: CLAIMS }, (_, at) => at).filter((at) => at % 90 !== 0 || at >= n);
  expect(names).toEqual(expect.arrayContaining(stayed.map(nameOf)));
});

test("pages of allocations are in order of network and address, each once", async () => {
  const pages = await allPages<AllocationView>(70, (token) => subject.store.list({}, { limit: 70, continue: token }));
  expect(pages.flat().map(({ address }) => address)).toEqual(Array.from({ length: CLAIMS }, (_, n) => addressOf(n)));
});

test("a page of long names ends before its limit, and the next one goes on", async () => {
  const long = "x".repeat(64 << 10);
  for (let n = 0; n < 20; n += 1) {
    const vm = { name: `${long}${n}`, uid: "" };
    await subject.store.applyClaim({ ...claim(`long${n}`, `10.22.0.${n}/16`), vm });
  }
  const pages = await allPages<AllocationView>(5_000, (token) =>
    subject.store.list({}, { limit: 5_000, continue: token }),
  );
  expect(Math.max(...pages.map((page) => JSON.stringify(page).length))).toBeLessThan(400 << 10);
  expect(pages.flat()).toHaveLength(CLAIMS + 20);
});

test("a database that is closed meanwhile ends the answer with an error", async () => {
  const checked = subject.store.check();
  subject.store.close();
  await expect(checked).rejects.toThrow("the state database is closed");
});
