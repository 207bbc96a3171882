import { Validator } from "ip-num";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { parseNadConfig, parseNadConfigIfOurs } from "../../ipam/definition/nad-config.ts";
import * as address from "../../ipam/space/address.ts";
import { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import type { NadView } from "../../networks/nad-view.ts";
import { ManualClock } from "../harness/manual-clock.ts";

// Whoever may write a network can write a long one, and change it all the time; every daemon, controller and metadata
// server of the cluster hears of each change. What that costs is counted in characters and addresses that are read.

const addresses = vi.spyOn(address, "parseAddress");
/** ip-num's reading of addresses, which takes fifty times as long. */
const general = vi.spyOn(Validator, "isValidIPv6String");
let charsRead = 0;
const parse = JSON.parse;
vi.spyOn(JSON, "parse").mockImplementation((text, reviver) => {
  charsRead += String(text).length;
  return parse(text, reviver);
});
beforeEach(() => {
  addresses.mockClear();
  general.mockClear();
  charsRead = 0;
});

const CONFIG_CHARS_MAX = 262_144;
const EXCLUDED_MAX = 10_000;
/** The first, the last and the address of each subnet are checked at. */
const LOOKS_PER_SUBNET = 3;

function config(excludes: readonly string[], more: object = {}): string {
  const ipam = { type: "holdfast-ipam", subnets: "fd00::/48", excludeSubnets: excludes.join(), ...more };
  return JSON.stringify({ cniVersion: "1.0.0", name: "blue", type: "bridge", ipam });
}

/** In a spelling that is hard to read. */
const subnets = (count: number, spelled = (index: number) => `FD00::${index.toString(16)}:0.0.0.1/128`) =>
  Array.from({ length: count }, (_, index) => spelled(index));

function nad(version: number, text: string, name = "blue"): NadView {
  return {
    key: `shop/${name}`,
    namespace: "shop",
    name,
    uid: `uid-${name}`,
    resourceVersion: `${version}`,
    creationTimestamp: "2026-01-01T00:00:00Z",
    deletionTimestamp: null,
    generation: version,
    config: text,
    sharedWith: [],
  };
}

describe("a definition of 384 kB", () => {
  const long = config(subnets(17_000));

  test("is refused before it is parsed, with its length, the limit and what to do", () => {
    expect(long.length).toBeGreaterThan(384_000);
    for (const read of [parseNadConfig, parseNadConfigIfOurs])
      expect(() => read(long, "a-nad")).toThrow(
        `spec.config is "${long.length} characters": at most ${CONFIG_CHARS_MAX} characters are read; exclude or reserve larger subnets`,
      );
    expect(charsRead).toBe(0);
    expect(addresses).not.toHaveBeenCalled();
    expect(general).not.toHaveBeenCalled();
  });

  test("of another plugin is ignored, and is not parsed either", () => {
    const foreign = long.replaceAll("holdfast-ipam", "host-local");
    expect(parseNadConfigIfOurs(foreign, "a-nad")).toBeNull();
    expect(charsRead).toBe(0);
  });

  test("does not count, and an ADD through it is refused with the reason", () => {
    const catalog = new DefinitionCatalog(new ManualClock());
    catalog.upsert(nad(1, long));
    expect(catalog.definitionOf("blue")).toBeNull();
    expect(catalog.verdict("shop/blue")).toMatchObject({
      kind: "broken",
      refusal: { code: "CONFIG_INVALID", message: expect.stringContaining("characters are read") },
    });
  });
});

test("more excluded subnets than the limit are refused before any of them is parsed", () => {
  const many = config(subnets(EXCLUDED_MAX + 1, (index) => `fd00::${index}/128`));
  expect(many.length).toBeLessThan(CONFIG_CHARS_MAX);
  expect(() => parseNadConfig(many, "a-nad")).toThrow("is a list of 10001 entries: at most 10000 entries are taken");
  expect(addresses.mock.calls.length).toBeLessThan(10);
});

test("the longest definition costs a bounded number of parsed addresses, in whatever spelling", () => {
  const text = config(subnets(EXCLUDED_MAX));
  expect(text.length).toBeGreaterThan(CONFIG_CHARS_MAX - 45_000);
  parseNadConfig(text, "a-nad");
  expect(general.mock.calls.length, "of the one subnet, through ip-num").toBeLessThan(10);
  expect(addresses.mock.calls.length).toBeLessThanOrEqual(LOOKS_PER_SUBNET * EXCLUDED_MAX);
});

describe("a long definition that changes all the time", () => {
  const versions = Array.from({ length: 20 }, (_, index) => config(subnets(5_000), { cooldownSeconds: index }));
  const cooldownOf = (catalog: DefinitionCatalog) => catalog.definitionOf("blue")?.definition.cooldownSeconds;

  test("is not parsed before somebody asks", () => {
    const catalog = new DefinitionCatalog(new ManualClock());
    for (const [index, text] of versions.entries()) catalog.upsert(nad(index, text));
    expect(charsRead).toBe(0);
    expect(cooldownOf(catalog)).toBe(19);
    expect(charsRead).toBe(versions[19]?.length);
  });

  test("is parsed at most every five seconds, however often it changes and somebody asks", () => {
    const clock = new ManualClock();
    const catalog = new DefinitionCatalog(clock);
    const seen: (number | undefined)[] = [];
    for (const [index, text] of versions.entries()) {
      catalog.upsert(nad(index, text));
      for (let question = 0; question < 10; question += 1) catalog.verdict("shop/blue");
      seen.push(cooldownOf(catalog));
      clock.nowMs += 1_000;
    }
    // What it said before counts until then, as with a watch that is late.
    expect(seen).toEqual([0, 0, 0, 0, 0, 5, 5, 5, 5, 5, 10, 10, 10, 10, 10, 15, 15, 15, 15, 15]);
    expect(charsRead).toBeLessThanOrEqual(4 * CONFIG_CHARS_MAX);
    clock.nowMs += 5_000;
    expect(cooldownOf(catalog), "in the end the newest version counts").toBe(19);
  });

  test("can be removed before and after it was parsed", () => {
    const catalog = new DefinitionCatalog(new ManualClock());
    const [first = "", second = ""] = versions;
    catalog.upsert(nad(1, first));
    expect(catalog.networks()).toEqual(["blue"]);
    catalog.upsert(nad(2, second));
    catalog.remove("shop/blue");
    expect(catalog.networks()).toEqual([]);
    catalog.upsert(nad(3, first));
    catalog.remove("shop/blue");
    expect(catalog.networks()).toEqual([]);
    expect(catalog.verdict("shop/blue")).toEqual({ kind: "unknown" });
  });

  test("delays neither a short definition nor a change outside its configuration", () => {
    const catalog = new DefinitionCatalog(new ManualClock());
    const [first = ""] = versions;
    catalog.upsert(nad(1, first));
    expect(cooldownOf(catalog)).toBe(0);
    catalog.upsert({ ...nad(2, first), sharedWith: ["team"] });
    expect(catalog.permits("blue", "team")).toBe(true);
    catalog.upsert(nad(3, config(subnets(3), { cooldownSeconds: 7 })));
    expect(cooldownOf(catalog)).toBe(7);
  });
});
