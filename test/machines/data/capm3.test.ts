import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { OwnMode } from "../../../controller/machine-data/own-mode.ts";
import { OwnModeHere, PATHS } from "./own-mode-here.ts";

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind
type Any = any;

const KINDS = ["metal3datatemplates", "metal3dataclaims", "metal3datas"];
const SIGNS: readonly (readonly [string, (definition: Any) => void])[] = [
  [
    "its label",
    (definition) => {
      definition.metadata.labels = { "cluster.x-k8s.io/provider": "infrastructure-metal3" };
    },
  ],
  [
    "a conversion webhook",
    (definition) => {
      definition.spec.conversion = { strategy: "Webhook" };
    },
  ],
];
const TEMPLATE = { metaData: { strings: [{ key: "rack", value: "r1" }] } };

let here: OwnModeHere;
let mode: OwnMode;
beforeEach(() => {
  here = new OwnModeHere();
  here.template("t", TEMPLATE);
});
afterEach(() => here.stop());

describe.each(SIGNS)("CAPM3, by %s", (_, sign) => {
  test.each(KINDS)("on the definition of %s, keeps everything from being written", async (kind) => {
    here.editDefinition(kind, sign);
    here.host("m");
    here.machine("m");
    mode = here.start();
    await here.settle(60_000);
    expect(here.api.writes).toEqual([]);
    expect(mode.counts.isRefused).toBe(true);
    expect(here.warnings.filter((one) => one.includes("left to CAPM3"))).toHaveLength(1);
  });

  test("is noticed when it comes later, and when it goes", async () => {
    mode = here.start();
    here.host("m");
    here.machine("m");
    await here.settle();
    expect(here.readData("t-0").status.ready).toBe(true);
    here.editDefinition(KINDS[0] as string, sign);
    await here.settle(2_000);
    const before = here.api.writes.length;
    here.host("n");
    here.machine("n");
    here.remove(PATHS.secrets, "m-metadata");
    here.remove(PATHS.claims, "m");
    await here.settle(60_000);
    expect(here.api.writes.slice(before)).toEqual([]);
    expect(mode.counts.isRefused).toBe(true);
    here.editDefinition(KINDS[0] as string, (definition) => {
      delete definition.metadata.labels;
      delete definition.spec.conversion;
    });
    await here.settle(60_000);
    expect(mode.counts.isRefused).toBe(false);
    expect(here.readMachine("n").status.renderedData).toBeDefined();
  });

  test("stops a pass that is under way", async () => {
    here.start();
    await here.settle();
    for (let i = 0; i < 300; i++) here.claim(`c${i}`);
    let writes = 0;
    here.api.before = async ({ method, path }) => {
      if (method === "GET" || !path.includes("metal3data")) return;
      writes += 1;
      if (writes === 20) here.editDefinition(KINDS[0] as string, sign);
      // A slow server: the pass takes longer than the controller goes without looking.
      await new Promise<void>((resolve) => void here.api.clock.timer(500, resolve));
    };
    await here.settle(60_000);
    const after = writes;
    expect(after).toBeGreaterThanOrEqual(20);
    expect(after).toBeLessThan(120);
    await here.settle(60_000);
    expect(writes).toBe(after);
  });
});

test("definitions that cannot be read keep everything from being written", async () => {
  here.api.before = ({ path }) => {
    if (path.includes("customresourcedefinitions")) here.api.missing.add("/apis/apiextensions.k8s.io");
  };
  here.host("m");
  here.machine("m");
  mode = here.start();
  await here.settle(30_000);
  expect(here.api.writes).toEqual([]);
  expect(mode.counts.isRefused).toBe(false);
});
