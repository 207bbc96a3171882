import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { OwnModeHere, PATHS } from "./own-mode-here.ts";

const POOLED = {
  metaData: { ipAddressesFromPool: [{ key: "address", name: "p" }] },
  networkData: {},
};
/** Longer than it takes for every Secret to be looked for, ms. */
const LONG_MS = 60_000;

let here: OwnModeHere;
beforeEach(() => {
  here = new OwnModeHere();
  here.template("t", POOLED);
});
afterEach(() => here.stop());

async function machines(count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    here.host(`m${i}`);
    here.machine(`m${i}`);
  }
  await here.settle();
  for (const [i, { metadata, status }] of here.all(PATHS.addressClaims).entries())
    if (status === undefined) here.answer(metadata.name, `10.0.0.${i + 10}`);
  await here.settle();
}

describe("a machine keeps its published address", () => {
  test("by a claim, when Cluster API is uninstalled", async () => {
    here.serveClaims();
    here.start();
    await machines(1);
    const before = here.secret("m0-metadata", "metaData");
    expect(before).toContain("10.0.0.10");
    here.directAddress = "10.9.9.9";
    here.unserveClaims();
    here.remove(PATHS.secrets, "m0-networkdata");
    await here.settle(LONG_MS);
    expect(here.ledger).toEqual(new Map());
    expect(here.secret("m0-metadata", "metaData")).toBe(before);
    here.remove(PATHS.secrets, "m0-metadata");
    await here.settle(LONG_MS);
    expect(here.secret("m0-metadata", "metaData")).toBeUndefined();
    expect(here.reasonsOf("t-0")).toContain("AddressMissing");
    // One that comes now has its address from the ledger.
    here.host("n");
    here.machine("n");
    await here.settle();
    expect(here.secret("n-metadata", "metaData")).toContain("10.9.9.9");
  });

  test("without a claim, when Cluster API is installed", async () => {
    here.directAddress = "10.9.9.9";
    here.start();
    await machines(1);
    const before = here.secret("m0-metadata", "metaData");
    expect(before).toContain("10.9.9.9");
    here.serveClaims();
    here.remove(PATHS.secrets, "m0-metadata");
    await here.settle(LONG_MS);
    expect(here.secret("m0-metadata", "metaData")).toBe(before);
    expect(here.all(PATHS.addressClaims)).toEqual([]);
  });

  test("and is given no other when its claim is deleted by hand, until its data object is", async () => {
    here.serveClaims();
    here.start();
    await machines(1);
    here.remove(PATHS.addressClaims, "t-0-p");
    await here.settle(LONG_MS);
    expect(here.all(PATHS.addressClaims)).toEqual([]);
    expect(here.reasonsOf("t-0")).toContain("AddressMissing");
    here.remove(PATHS.datas, "t-0");
    await here.settle();
    expect(here.all(PATHS.addressClaims).map(({ metadata }) => metadata.name)).toEqual(["t-0-p"]);
  });
});

describe("the creates that look for Secrets", () => {
  test("end with the object at which the lease is lost", async () => {
    here.directAddress = "10.9.9.9";
    here.start();
    await machines(40);
    let after = 0;
    here.api.before = ({ method, path }) => {
      if (method !== "POST" || !path.endsWith("/secrets")) return;
      if (here.idle !== null) after += 1;
      here.idle = "lease lost";
    };
    await here.settle();
    expect(here.idle).toBe("lease lost");
    // The other Secret of the object that was in hand.
    expect(after).toBeLessThanOrEqual(1);
  });

  test("are five a second, although an object has two", async () => {
    here.directAddress = "10.9.9.9";
    here.start();
    await machines(80);
    // Objects whose Secrets were there already are looked at sooner: those go first.
    await here.settle(LONG_MS);
    let creates = 0;
    here.api.before = ({ method, path }) => {
      if (method === "POST" && path.endsWith("/secrets")) creates += 1;
    };
    // Longer than one round, so that its beginning counts too.
    await here.settle(20_000);
    expect(creates).toBeGreaterThan(90);
    expect(creates).toBeLessThanOrEqual(101);
  });
});
