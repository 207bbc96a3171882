/** A rolling upgrade onto a new template that goes on with the indexes of the former one. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { OwnModeHere, PATHS } from "./own-mode-here.ts";

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind
type Any = any;

const ANNOTATION = "metadata.holdfast.dev/indexes-of";
/** Beyond every grace, ms. */
const LONG_MS = 60_000;
const POOL = { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "lan" };
const templateOf = (edition: string) => ({
  metaData: {
    indexes: [{ key: "number" }],
    strings: [{ key: "edition", value: edition }],
    ipAddressesFromPool: [{ key: "address", ...POOL }],
  },
});

let here: OwnModeHere;
beforeEach(() => {
  here = new OwnModeHere();
  here.serveClaims();
  here.template("workers-v1", templateOf("one"));
});
afterEach(() => here.stop());

async function machine(name: string, template: string): Promise<void> {
  here.host(name);
  here.machine(name, { template });
  await here.settle();
}

/** The machine goes, and what the garbage collector deletes after it. */
async function replaced(name: string): Promise<void> {
  const data = here.readClaim(name).status.renderedData.name;
  here.remove(PATHS.machines, name);
  here.remove(PATHS.claims, name);
  here.remove(PATHS.datas, data);
  here.remove(PATHS.addressClaims, `${data}-lan`);
  await here.settle(LONG_MS);
}

const namesOf = (collection: string) => here.all(collection).map(({ metadata }) => metadata.name);

test("a rolling upgrade keeps indexes, data objects' names and address claims' names", async () => {
  here.start();
  for (const name of ["a", "b"]) await machine(name, "workers-v1");
  expect(namesOf(PATHS.addressClaims)).toEqual(["workers-v1-0-lan", "workers-v1-1-lan"]);
  here.template("workers-v2", templateOf("two"), { [ANNOTATION]: "workers-v1" });
  // One more at first, as a MachineDeployment does it; then each takes the place of one that went.
  await machine("c", "workers-v2");
  expect(here.readClaim("c").status.renderedData.name).toBe("workers-v1-2");
  await replaced("a");
  await machine("d", "workers-v2");
  await replaced("b");
  await machine("e", "workers-v2");
  await replaced("c");
  expect(here.indexes("workers-v2")).toEqual({ d: 0, e: 1 });
  expect(namesOf(PATHS.datas)).toEqual(["workers-v1-0", "workers-v1-1"]);
  expect(namesOf(PATHS.addressClaims)).toEqual(["workers-v1-0-lan", "workers-v1-1-lan"]);
  // The former template is not needed any more.
  here.remove(PATHS.templates, "workers-v1");
  here.template("workers-v3", templateOf("three"), { [ANNOTATION]: "workers-v1" });
  await machine("f", "workers-v3");
  expect(here.readClaim("f").status.renderedData.name).toBe("workers-v1-2");
  expect(here.readTemplate("workers-v3").status.indexes).toEqual([{ name: "f", index: 2 }]);
});

test("templates of one series never give one index twice, and others count for themselves", async () => {
  here.start();
  here.template("workers-v2", templateOf("two"), { [ANNOTATION]: "workers-v1" });
  here.template("other", templateOf("other"));
  for (const [name, template] of [
    ...[
      ["a", "workers-v1"],
      ["b", "workers-v2"],
      ["c", "workers-v1"],
      ["d", "workers-v2"],
    ],
    ...[
      ["e", "other"],
      ["f", "other"],
    ],
  ] as const) {
    here.host(name as string);
    here.machine(name as string, { template: template as string });
  }
  await here.settle(LONG_MS);
  const indexes = { ...here.indexes("workers-v1"), ...here.indexes("workers-v2") };
  expect(Object.values(indexes).toSorted()).toEqual([0, 1, 2, 3]);
  expect(Object.values(here.indexes("other")).toSorted()).toEqual([0, 1]);
});

test("a data object is rendered from its own template, whatever it is named after", async () => {
  here.start();
  here.directAddress = "192.0.2.9";
  here.unserveClaims();
  here.template("workers-v2", templateOf("two"), { [ANNOTATION]: "workers-v1" });
  await machine("a", "workers-v2");
  await here.settle(LONG_MS);
  expect(here.readData("workers-v1-0").spec.template.name).toBe("workers-v2");
  expect(here.secret("a-metadata", "metaData")).toContain("edition: two");
});

test("an annotation that names no template is refused, with key and remedy", async () => {
  here.start();
  here.template("workers-v2", templateOf("two"), { [ANNOTATION]: "Workers v1" });
  await machine("a", "workers-v2");
  await here.settle(LONG_MS);
  const [condition] = here.readTemplate("workers-v2").status.conditions.filter(({ type }: Any) => type === "Ready");
  expect(condition).toMatchObject({ status: "False", reason: "TemplateInvalid" });
  expect(condition.message).toContain(`annotation ${ANNOTATION} is "Workers v1": expected the name`);
  expect(namesOf(PATHS.datas)).toEqual([]);
});
