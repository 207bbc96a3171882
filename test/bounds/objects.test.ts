import { describe, expect, test } from "vitest";
import { AllocationRows } from "../../claims/reasons/allocation-rows.ts";
import { weightOf } from "../../kube/lean-view.ts";
import { ReflectedItems } from "../../kube/reflected-items.ts";
import { projectAddressPool } from "../../kube/views/address-pool-view.ts";
import { projectClaim } from "../../kube/views/claim-view.ts";
import { projectTenantObject, projectVm } from "../../kube/views/tenant-objects.ts";
import { CachedReads } from "../../metadata/tenant/cached-reads.ts";
import { systemClock } from "../../platform/time.ts";
import { expectMeanwhile, expectProportion, keptOf } from "./measure.ts";
import { OBJECT_BYTES_MAX, objectWith } from "./objects.ts";
import { SHAPES } from "./shapes.ts";
import { CASES, log, reflected } from "./views.ts";

describe.each(CASES)("$kind", ({ kind, project, texts }) => {
  const read = reflected(project);

  test.each(texts)("$field: of $shape twice the text is kept at most", ({ shape, textOf }) => {
    const reading = keptOf((salt) => textOf(salt), read);
    expect(reading.keptBytes).toBeLessThanOrEqual(2 * reading.textBytes);
    expectMeanwhile(kind, reading, shape);
  });
});

test("a view whose fields are kept as text says the same as another", () => {
  const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`k${at}`, `v"\\€${at}`]));
  const object = JSON.parse(objectWith("metadata.labels", JSON.stringify(many)));
  const items = new ReflectedItems(
    { project: (one) => projectVm(one), onUpsert: () => {}, onDelete: () => {}, log },
    systemClock,
  );
  const listed = new Map();
  items.collect(listed, object);
  const [view] = [...listed.values()];
  expect(Object.getOwnPropertyDescriptor(view, "labels")?.get).toBeDefined();
  expect(view).toEqual(projectVm(object));
  expect(view.labels.get("k17")).toBe('v"\\€17');
});

test("what is nested too deeply for anybody is left out, and the next object is read", async () => {
  const said: string[] = [];
  const items = new ReflectedItems(
    {
      project: (object) => projectAddressPool(object),
      onUpsert: () => {},
      onDelete: () => {},
      log: { ...log, warn: (text: unknown) => void said.push(String(text)) },
    },
    systemClock,
  );
  const deep = objectWith("spec.definition", SHAPES["nested objects"](OBJECT_BYTES_MAX));
  items.upsert(JSON.parse(deep));
  expect(said).toEqual([
    expect.stringMatching(/one makes no sense and is left out: it is nested deeper than 1000 levels/),
  ]);
  items.upsert(
    JSON.parse(deep.replace(/"name":"one"/, '"name":"two"').replace(/"definition":.*?0\}+$/, '"family":4}}')),
  );
  expect([...items.items.keys()]).toEqual(["shop/two"]);
});

test("a claim that lists too many addresses never looks like one that lists few", () => {
  const ips = JSON.stringify(Array.from({ length: 300 }, (_, at) => `10.0.${at >> 8}.${at % 256}/16`));
  const { ips: read } = projectClaim(JSON.parse(objectWith("status.ips", ips, { spec: { network: "blue" } })));
  expect(read).toHaveLength(257);
  expect(read.at(-1)).toBe("300 entries, of which 256 are read");
});

describe("an IPAllocation", () => {
  const allocation = (attachments: number, salt: number) =>
    JSON.stringify({
      metadata: { name: `a${salt}`, uid: "u", resourceVersion: "1", creationTimestamp: "t" },
      spec: { network: "blue", address: "10.0.0.1/24", owner: { kind: "Pod", uid: "u" } },
      status: {
        attachments: Object.fromEntries(
          Array.from({ length: attachments }, (_, at) => [`${(at + salt).toString(36)}`, {}]),
        ),
      },
    });

  test("of very many attachments takes no more than twice its text, in time in proportion", () => {
    const rows = new AllocationRows();
    const read = (text: string) => rows.project(JSON.parse(text));
    const reading = keptOf((salt) => allocation(150_000, salt), read);
    expect(reading.keptBytes).toBeLessThanOrEqual(2 * reading.textBytes);
    expectMeanwhile("IPAllocation", reading);
    expectProportion((share) => allocation(150_000 * share, 1), read);
  });
});

test("what guests' requests read by name is remembered up to a size, however small its values are", async () => {
  const clock = systemClock;
  const reads = new CachedReads<unknown>({ clock, send: () => Promise.reject(new Error("nothing is sent")) });
  const text = objectWith("data", SHAPES.keys(OBJECT_BYTES_MAX, 1));
  for (let at = 0; at < 16; at += 1)
    await reads.read(`${at}`, async () => projectTenantObject(JSON.parse(text), "ConfigMap"));
  let asked = 0;
  for (let at = 0; at < 16; at += 1)
    await reads.read(`${at}`, async () => {
      asked += 1;
      return null;
    });
  expect(asked).toBeGreaterThan(4);
  expect(weightOf({ one: "a".repeat(1_000) }).bytes).toBeGreaterThan(1_000);
});
