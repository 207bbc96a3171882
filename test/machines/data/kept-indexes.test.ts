import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { OwnModeHere, ownerOf, PATHS } from "./own-mode-here.ts";

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind
type Any = any;

const TEMPLATE = { metaData: { indexes: [{ key: "number" }] } };
/** Beyond every grace, ms. */
const LONG_MS = 60_000;

let here: OwnModeHere;
beforeEach(() => {
  here = new OwnModeHere();
  here.template("t", TEMPLATE);
});
afterEach(() => here.stop());

const deletions = () => here.api.writes.filter(({ method }) => method === "DELETE").map(({ path }) => path);

async function machines(...names: string[]): Promise<void> {
  for (const name of names) {
    here.host(name);
    here.machine(name);
  }
  await here.settle();
}

describe("a machine that lives", () => {
  test.each([
    ["as it was", () => {}],
    [
      "without the owner that the garbage collector saw gone",
      () =>
        here.change(PATHS.datas, "t-0", ({ metadata }) => {
          metadata.ownerReferences = metadata.ownerReferences.filter(({ kind }: Any) => kind === "Metal3Machine");
        }),
    ],
  ])("keeps its index when its claim is deleted by hand, and its data object, %s", async (_, collect) => {
    here.start();
    await machines("m");
    const { uid } = here.readData("t-0").metadata;
    here.remove(PATHS.claims, "m");
    collect();
    await here.settle(LONG_MS);
    await machines("x");
    expect(here.indexes()).toEqual({ m: 0, x: 1 });
    expect(here.readData("t-0").metadata.uid).toBe(uid);
    expect(deletions()).toEqual([]);
    expect(here.readClaim("m").status.renderedData.name).toBe("t-0");
    expect(here.readMachine("m").status.renderedData.name).toBe("t-0");
  });

  test("keeps its index while it is paused and has no claim, until it names another template", async () => {
    here.start();
    await machines("m");
    here.change(PATHS.machines, "m", ({ metadata }) => {
      metadata.annotations["cluster.x-k8s.io/paused"] = "";
    });
    here.remove(PATHS.claims, "m");
    await here.settle(LONG_MS);
    await machines("x");
    expect(here.indexes()).toEqual({ m: 0, x: 1 });
    here.change(PATHS.machines, "m", ({ spec }) => {
      spec.dataTemplate.name = "other";
    });
    await here.settle(LONG_MS);
    expect(here.indexes()).toEqual({ x: 1 });
  });

  test("keeps its data object when spec.claim of that is edited", async () => {
    here.start();
    await machines("m");
    const { uid } = here.readData("t-0").metadata;
    here.change(PATHS.datas, "t-0", (data) => {
      data.spec.claim.name = "other";
      data.metadata.generation = 2;
    });
    await here.settle(LONG_MS);
    expect(deletions()).toEqual([]);
    expect(here.readData("t-0")).toMatchObject({ metadata: { uid }, status: { ready: true } });
    // It is still found by the claim that owns it.
    here.remove(PATHS.datas, "t-0");
    await here.settle();
    expect(here.readData("t-0").spec.claim.name).toBe("m");
  });

  test("keeps its index when everything comes back from a backup with new UIDs", async () => {
    here.start();
    await machines("a");
    await machines("b");
    await here.stop();
    const before = here.indexes();
    const renew = (collection: string, name: string, owner: Any) =>
      here.change(collection, name, ({ metadata }) => {
        metadata.uid = `restored-${metadata.uid}`;
        if (owner !== null) metadata.ownerReferences = [ownerOf("Metal3Machine", owner)];
      });
    for (const name of ["a", "b"]) {
      renew(PATHS.machines, name, null);
      renew(PATHS.claims, name, here.readMachine(name));
    }
    // What owned the data objects is gone, and no garbage collector has deleted them yet.
    for (const name of ["t-0", "t-1"]) renew(PATHS.datas, name, null);
    here.start();
    await here.settle(LONG_MS);
    expect(here.indexes()).toEqual(before);
    for (const name of ["a", "b"]) {
      const [owner] = here.readData(`t-${before[name]}`).metadata.ownerReferences;
      expect(owner.uid).toBe(here.readClaim(name).metadata.uid);
      expect(here.readMachine(name).status.renderedData.name).toBe(`t-${before[name]}`);
    }
  });
});

test("a machine that is created again under its name does not get its predecessor's data object", async () => {
  here.start();
  await machines("m");
  const { uid } = here.readData("t-0").metadata;
  here.remove(PATHS.machines, "m");
  here.remove(PATHS.claims, "m");
  here.machine("m");
  await here.settle(LONG_MS);
  expect(here.all(PATHS.datas).map(({ metadata }) => metadata.uid)).not.toContain(uid);
  expect(here.readMachine("m").status.renderedData).toBeDefined();
});

describe("a data object that was created by hand", () => {
  test("is kept before its claim exists, and belongs to the claim afterwards", async () => {
    here.data("t-3", { index: 3, claim: "later" });
    here.start();
    await here.settle(LONG_MS);
    expect(here.indexes()).toEqual({ later: 3 });
    here.claim("later");
    await here.settle();
    expect(here.readClaim("later").status.renderedData.name).toBe("t-3");
  });

  test("is never deleted where its name contradicts its spec", async () => {
    const ownerReferences = [{ apiVersion: "g/v1", kind: "Metal3DataClaim", name: "gone", uid: "gone" }];
    here.data("t-9", { index: 3, claim: "gone", metadata: { ownerReferences } });
    here.start();
    await here.settle(LONG_MS);
    expect(here.indexes()).toEqual({ gone: 3 });
    expect(deletions()).toEqual([]);
  });
});

test("an index that the definition does not accept is not taken from a claim", async () => {
  here.claim("m", { renderedData: "t-9999999999" });
  here.start();
  await here.settle();
  expect(here.indexes()).toEqual({ m: 0 });
});
