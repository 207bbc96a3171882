import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ApiAway } from "../../../kube/kube-api.ts";
import { OwnModeHere, ownerOf, PATHS } from "./own-mode-here.ts";

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind
type Any = any;

const EMPTY = {};
/** Machines that two controllers number at once. */
const MACHINES = 500;

let here: OwnModeHere;
beforeEach(() => {
  here = new OwnModeHere();
  here.template("t", EMPTY);
});
afterEach(() => here.stop());

const sorted = (numbers: readonly number[]) => [...numbers].sort((a, b) => a - b);
const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);

describe("the lowest free index", () => {
  test("goes to each claim, whatever cluster it is of, and claims that have one keep it", async () => {
    here.claim("a-0", { renderedData: "t-0" });
    here.claim("b-0", { renderedData: "t-2" });
    here.data("t-0", { index: 0, claim: "a-0" });
    here.data("t-2", { index: 2, claim: "b-0" });
    here.claim("a-1");
    here.claim("b-1");
    here.start();
    await here.settle();
    expect(here.indexes()).toMatchObject({ "a-0": 0, "b-0": 2 });
    expect(sorted(Object.values(here.indexes()))).toEqual([0, 1, 2, 3]);
  });

  test("is given again as soon as its data object is gone", async () => {
    here.start({ graceSeconds: 5 });
    for (const name of ["a", "b", "c"]) here.claim(name);
    await here.settle();
    const freed = here.indexes().b as number;
    here.remove(PATHS.claims, "b");
    await here.settle();
    expect(Object.keys(here.indexes())).toEqual(expect.not.arrayContaining(["b"]));
    here.claim("d");
    here.claim("e");
    await here.settle();
    expect(here.indexes()).toMatchObject(Object.fromEntries([["d", freed]]));
    expect(here.indexes().e).toBe(3);
  });

  test("is the next one where another claim was faster to make the data object", async () => {
    let raced = false;
    here.api.before = ({ method, path }) => {
      if (raced || method !== "POST" || !path.endsWith("/metal3datas")) return;
      raced = true;
      const other = here.claim("faster", { renderedData: "t-0" });
      const ownerReferences = [ownerOf("Metal3DataClaim", other)];
      here.data("t-0", { index: 0, claim: "faster", metadata: { ownerReferences } });
    };
    here.claim("a");
    here.start();
    await here.settle();
    expect(raced).toBe(true);
    expect(here.indexes()).toEqual({ faster: 0, a: 1 });
    expect(here.readClaim("a").status.renderedData.name).toBe("t-1");
  });

  test("counts data objects by their spec: one whose name says another index is reported and kept", async () => {
    const owned = (uid: string) => ({
      ownerReferences: [{ apiVersion: "g/v1", kind: "Metal3DataClaim", name: "x", uid }],
    });
    here.claim("x", { metadata: { uid: "x" } });
    here.data("t-5", { index: 0, claim: "x", metadata: owned("x") });
    here.change(PATHS.claims, "x", (claim) => {
      claim.status = { renderedData: { name: "t-5" } };
    });
    here.start();
    for (const name of ["a", "b", "c", "d", "e"]) here.claim(name);
    await here.settle();
    // 0 is in use by spec, and the name of 5 is taken.
    expect(sorted(Object.values(here.indexes()))).toEqual([0, 1, 2, 3, 4, 6]);
    expect(here.readData("t-5").status.errorMessage).toContain("would be named t-0");
    expect(here.reasonsOf("t-5")).toEqual(["NameContradictsIndex"]);
  });

  test("is not given where the name would be too long for Kubernetes", async () => {
    const template = "l".repeat(252);
    here.template(template, EMPTY);
    here.claim("a", { template });
    here.start();
    await here.settle();
    expect(here.readClaim("a").status.errorMessage).toMatch(/has 254 characters/);
    expect(here.all(PATHS.datas)).toEqual([]);
  });

  test("is not given to a claim of a template in another namespace", async () => {
    here.claim("b");
    here.change(PATHS.claims, "b", (claim) => {
      claim.spec.template.namespace = "other";
    });
    here.claim("c");
    here.change(PATHS.claims, "c", (claim) => {
      claim.spec.template.namespace = "shop";
    });
    here.start();
    await here.settle();
    expect(here.readClaim("b").status.errorMessage).toContain("own namespace");
    expect(here.indexes()).toEqual({ c: 0 });
  });

  test("is not given while the template cannot be read, which both say", async () => {
    here.template("w", { networkData: { networks: { ipv4: [{ id: "n", link: "e" }] } } });
    here.claim("a", { template: "w" });
    here.start();
    await here.settle();
    expect(here.readClaim("a").status.errorMessage).toContain("fromPoolRef");
    expect(here.readTemplate("w").status.conditions).toContainEqual(
      expect.objectContaining({ type: "Ready", status: "False", reason: "TemplateInvalid" }),
    );
    here.change(PATHS.templates, "w", (template) => {
      template.spec = {};
    });
    await here.settle();
    expect(here.indexes("w")).toEqual({ a: 0 });
  });
});

describe("a crash", () => {
  test("between the claim's status and the data object leaves the name, under which it is made", async () => {
    here.claim("a");
    here.claim("b", { renderedData: "t-7" });
    let crashed = false;
    here.api.before = ({ method, path }) => {
      if (method !== "POST" || !path.endsWith("/metal3datas")) return;
      crashed = true;
      throw new ApiAway("crashed");
    };
    here.start();
    await here.settle();
    expect(crashed).toBe(true);
    expect(here.all(PATHS.datas)).toEqual([]);
    await here.stop();
    here.api.before = () => {};
    here.start();
    await here.settle();
    expect(here.indexes()).toEqual({ a: 0, b: 7 });
  });

  test("with an unknown outcome of the claim's status gives no second index", async () => {
    here.claim("a");
    let lost = 0;
    here.api.before = ({ method, path }) => {
      if (method !== "PATCH" || !path.endsWith("metal3dataclaims/a/status") || lost > 0) return;
      lost += 1;
      // Carried out, and nobody hears of it.
      here.change(PATHS.claims, "a", (claim) => {
        claim.status = { renderedData: { name: "t-0", namespace: "shop" } };
      });
      throw new ApiAway("the answer was lost");
    };
    here.start();
    await here.settle();
    expect(lost).toBe(1);
    expect(here.indexes()).toEqual({ a: 0 });
  });
});

test("two controllers that both work give no claim two data objects, and no index two claims", async () => {
  here.start();
  here.start();
  for (let i = 0; i < MACHINES; i++) here.claim(`c${i}`);
  await here.settle(60_000);
  const datas = here.all(PATHS.datas);
  expect(datas).toHaveLength(MACHINES);
  expect(new Set(datas.map(({ spec }) => spec.claim.name)).size).toBe(MACHINES);
  expect(sorted(datas.map(({ spec }) => spec.index))).toEqual(upTo(MACHINES));
  for (const { metadata, spec } of datas)
    expect(here.readClaim(spec.claim.name).status.renderedData.name).toBe(metadata.name);
});

describe("a data object", () => {
  test("that is deleted by hand comes back under its index while its machine lives", async () => {
    here.start();
    for (const name of ["a", "b"]) here.claim(name);
    await here.settle();
    const before = here.indexes();
    const { uid } = here.readData("t-0").metadata;
    here.remove(PATHS.datas, "t-0");
    await here.settle();
    expect(here.indexes()).toEqual(before);
    expect(here.readData("t-0").metadata.uid).not.toBe(uid);
  });

  test("is deleted when its claim has been gone for the grace, and not while anything is in doubt", async () => {
    here.start({ graceSeconds: 10 });
    here.claim("a");
    await here.settle();
    here.idle = "another controller works";
    here.remove(PATHS.claims, "a");
    await here.settle(60_000);
    expect(here.indexes()).toEqual({ a: 0 });
    here.idle = null;
    await here.settle(8_000);
    expect(here.indexes()).toEqual({ a: 0 });
    await here.settle(20_000);
    expect(here.indexes()).toEqual({});
  });

  test("is kept where a fresh read finds the claim", async () => {
    here.start({ graceSeconds: 5 });
    here.claim("a");
    await here.settle();
    const data = here.readData("t-0");
    here.claim("other");
    await here.settle();
    // What the copies show of its claim is wrong: the server knows better.
    here.api.before = ({ method, path }) => {
      if (method === "GET" && path.endsWith("/metal3dataclaims/gone"))
        here.claim("gone", { renderedData: "t-9", metadata: { uid: "known" } });
    };
    const ownerReferences = [{ apiVersion: "g/v1", kind: "Metal3DataClaim", name: "gone", uid: "known" }];
    here.data("t-9", { index: 9, claim: "gone", metadata: { ownerReferences } });
    await here.settle();
    expect(here.readData("t-9")).toBeDefined();
    expect(here.readData("t-0").metadata.uid).toBe(data.metadata.uid);
  });

  test("of a claim that is being deleted is deleted, even if a finalizer keeps the claim", async () => {
    here.start({ graceSeconds: 5 });
    here.claim("a", { metadata: { finalizers: ["somebody/else"] } });
    await here.settle();
    here.change(PATHS.claims, "a", (claim) => {
      claim.metadata.deletionTimestamp = "2026-01-01T00:00:00Z";
    });
    await here.settle();
    expect(here.all(PATHS.datas)).toEqual([]);
    here.claim("b");
    await here.settle();
    expect(here.indexes()).toEqual({ b: 0 });
  });
});

describe("the indexes in a template's status", () => {
  test("are the lowest 512, and a condition says that there are more", async () => {
    for (let i = 0; i < 520; i++) {
      here.claim(`c${i}`, { renderedData: `t-${i}` });
      here.data(`t-${i}`, { index: i, claim: `c${i}` });
    }
    here.start();
    await here.settle();
    const { status } = here.readTemplate("t");
    expect(status.indexes).toHaveLength(512);
    expect(status.indexes.at(-1)).toEqual({ name: "c511", index: 511 });
    expect(status.conditions).toContainEqual(
      expect.objectContaining({
        type: "IndexesComplete",
        status: "False",
        message: "the lowest 512 of 520 indexes are shown",
      }),
    );
  });

  test("are written every three seconds at most", async () => {
    here.start();
    await here.settle();
    const isShown = ({ path }: Any) => path.includes("metal3datatemplates");
    const before = here.api.writes.filter(isShown).length;
    for (let i = 0; i < 20; i++) {
      here.claim(`c${i}`);
      await here.settle(500);
    }
    expect(here.api.writes.filter(isShown).length - before).toBeLessThanOrEqual(4);
    await here.settle();
    expect(here.readTemplate("t").status.indexes).toHaveLength(20);
    expect(here.readTemplate("t").status.lastUpdated).toBeDefined();
  });
});
