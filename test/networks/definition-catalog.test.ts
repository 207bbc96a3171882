import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseNadConfig } from "../../ipam/definition/nad-config.ts";
import { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import { type NadView, projectNad } from "../../networks/nad-view.ts";
import { systemClock } from "../../platform/time.ts";

const config = (name: string, subnets: string, more: object = {}) =>
  JSON.stringify({
    cniVersion: "1.0.0",
    name,
    type: "bridge",
    ipam: { type: "holdfast-ipam", subnets },
    ...more,
  });
const BLUE = config("blue", "10.0.0.0/24");
const BLUE_SPELLED = config("blue", "10.0.0.0/24", { bridge: "br0" });
const BLUE_OTHER = config("blue", "10.9.0.0/24");
const RED = config("red", "10.1.0.0/24");
const WRONG = config("blue", "10.0.0.1/24");
const EMPTY_RANGES = JSON.stringify({ name: "blue", type: "bridge", ipam: { type: "holdfast-ipam" } });
const FOREIGN = JSON.stringify({ name: "blue", type: "bridge", ipam: { type: "host-local" } });

const nad = (key: string, day: number, text: string, sharedWith: readonly string[] = []): NadView => {
  const [namespace = "", name = ""] = key.split("/");
  const creationTimestamp = `2026-01-0${day}T00:00:00Z`;
  return {
    key,
    namespace,
    name,
    uid: `uid-${key}`,
    resourceVersion: "1",
    creationTimestamp,
    deletionTimestamp: null,
    generation: 1,
    config: text,
    sharedWith,
  };
};
const catalog = (...nads: NadView[]) => {
  const made = new DefinitionCatalog(systemClock);
  for (const one of nads) made.upsert(one);
  return made;
};

test("two definitions of one network whose routes are in another order agree", () => {
  const routes = [{ dst: "0.0.0.0/0" }, { dst: "10.9.0.0/16", gw: "10.0.0.9" }];
  const withRoutes = (list: object[]) =>
    config("blue", "10.0.0.0/24", { ipam: { type: "holdfast-ipam", subnets: "10.0.0.0/24", routes: list } });
  const both = catalog(
    nad("n/a", 1, withRoutes(routes)),
    nad("n/b", 2, withRoutes(routes.toReversed())),
    nad("n/c", 3, withRoutes(routes.slice(1))),
  );
  expect(both.verdict("n/b").kind).toBe("ok");
  expect(both.definitionOf("blue")?.definition.routes).toEqual(routes);
  expect(both.verdict("n/c").kind).toBe("conflict");
});

describe("who defines a network", () => {
  test.each([
    [[], null, "nobody"],
    [[nad("n/a", 1, BLUE)], "n/a", "the only one"],
    [[nad("n/a", 2, BLUE), nad("n/b", 1, BLUE_OTHER)], "n/b", "the oldest, whenever it was seen"],
    [[nad("n/b", 1, BLUE), nad("n/a", 1, BLUE_OTHER)], "n/a", "of the same age, the first by name"],
    [[nad("n/a", 1, RED), nad("n/b", 2, BLUE)], "n/b", "another network's does not count"],
    [[nad("n/a", 1, WRONG), nad("n/b", 2, BLUE)], "n/b", "one that is wrong does not count"],
    [[nad("n/a", 1, "{"), nad("n/b", 2, BLUE)], "n/b", "nor one that is unreadable"],
    [[nad("n/a", 1, EMPTY_RANGES), nad("n/b", 2, BLUE)], "n/b", "nor one without ranges"],
    [[nad("n/a", 1, FOREIGN), nad("n/b", 2, BLUE)], "n/b", "nor one of another plugin"],
    [[nad("n/a", 1, FOREIGN)], null, "another plugin's network is not ours"],
  ])("case %#", (nads, by, reason) => {
    expect(catalog(...nads).definitionOf("blue")?.by ?? null, reason).toBe(by);
  });

  test("the network comes with the definition, the NAD's name and its text", () => {
    expect(catalog(nad("n/a", 1, BLUE)).definitionOf("blue")).toEqual({
      definition: parseNadConfig(BLUE, "a").definition,
      by: "n/a",
      source: BLUE,
    });
  });

  test("the next NAD defines the network when the oldest is deleted, edited or broken", () => {
    const made = catalog(nad("n/a", 1, BLUE), nad("n/b", 2, BLUE_OTHER), nad("n/c", 3, BLUE));
    expect(made.verdict("n/b")).toEqual({ kind: "conflict", network: "blue", by: "n/a", other: "n/b" });
    made.remove("n/a");
    expect(made.definitionOf("blue")?.by).toBe("n/b");
    expect(made.verdict("n/b").kind).toBe("ok");
    expect(made.verdict("n/c")).toMatchObject({ kind: "conflict", by: "n/b" });
    made.upsert(nad("n/b", 2, "{"));
    expect(made.definitionOf("blue")?.by).toBe("n/c");
    made.upsert(nad("n/c", 3, RED));
    expect(made.definitionOf("blue")).toBeNull();
    expect(made.networks()).toEqual(["red"]);
  });
});

describe("whose a network is", () => {
  const own = { definedIn: "n", sharedWith: [] };

  test("the oldest NAD's namespace owns a network until the owner is recorded, and then no older NAD changes it", () => {
    const made = catalog(nad("n/a", 2, BLUE));
    made.upsert(nad("evil/a", 1, BLUE_OTHER));
    expect(made.definitionOf("blue")?.by, "not recorded: the oldest").toBe("evil/a");
    made.setOwner("blue", own);
    expect(made.definitionOf("blue")?.by).toBe("n/a");
    expect(made.verdict("evil/a")).toEqual({ kind: "not-shared", network: "blue", owner: own });
    expect(made.networkOfNad("evil/a"), "its pods bring nothing along").toBeNull();
  });

  test("without its owner's NAD nothing defines a network, until a NAD comes back in that namespace", () => {
    const made = catalog(nad("n/a", 1, BLUE), nad("evil/a", 2, BLUE_OTHER));
    made.setOwner("blue", own);
    made.remove("n/a");
    expect(made.definitionOf("blue")).toBeNull();
    expect(made.networks()).toEqual(["blue"]);
    made.upsert(nad("n/b", 9, BLUE));
    expect(made.definitionOf("blue")?.by).toBe("n/b");
  });

  test.each([
    [["guest"], "guest", "ok", "named by the owner's annotation"],
    [["*"], "guest", "ok", "everybody is"],
    [["other"], "guest", "not-shared", "another one is"],
    [[], "n", "ok", "the owner's own"],
  ])("with sharing %j, the NAD %s is %s", (sharedWith, namespace, kind, reason) => {
    const made = catalog(nad("n/a", 1, BLUE, sharedWith), nad(`${namespace}/b`, 2, BLUE, ["*"]));
    made.setOwner("blue", own);
    expect(made.verdict(`${namespace}/b`).kind, reason).toBe(kind);
    expect(made.definitionOf("blue")?.by).toBe("n/a");
  });

  test("a namespace that the record shares with may attach, and is refused while the owner has no definition", () => {
    const made = catalog(nad("n/a", 1, BLUE), nad("guest/a", 2, BLUE), nad("guest/b", 2, BLUE_OTHER));
    made.setOwner("blue", { definedIn: "n", sharedWith: ["guest"] });
    expect(made.verdict("guest/a").kind).toBe("ok");
    expect(made.verdict("guest/b"), "it changes no ranges").toMatchObject({ kind: "conflict", by: "n/a" });
    made.remove("n/a");
    expect(made.verdict("guest/a").kind).toBe("undefined");
  });

  test("an administrator moves a network to another namespace", () => {
    const made = catalog(nad("n/a", 1, BLUE), nad("m/a", 2, BLUE_OTHER));
    made.setOwner("blue", { definedIn: "m", sharedWith: [] });
    expect(made.definitionOf("blue")?.by).toBe("m/a");
    expect(made.verdict("n/a").kind).toBe("not-shared");
  });

  test.each([
    ["shop, bank ,", ["shop", "bank"]],
    ["*", ["*"]],
    [undefined, []],
  ])("the annotation %j is read as its list of namespaces", (text, namespaces) => {
    const annotations = text === undefined ? {} : { "ipam.holdfast.dev/shared-with": text };
    const metadata = { namespace: "n", name: "a", uid: "u", resourceVersion: "1", creationTimestamp: "t" };
    const view = projectNad({ metadata: { ...metadata, annotations }, spec: { config: BLUE } });
    expect(view.sharedWith).toEqual(namespaces);
  });
});

describe("since when a NAD is on its network", () => {
  const edition = (generation: number, text = BLUE_SPELLED, more: Partial<NadView> = {}) => ({
    ...nad("n/a", 1, text),
    generation,
    ...more,
  });
  const since = (...editions: NadView[]) => catalog(...editions).nadsOf("blue")[0]?.joinedAt;

  test.each([
    [[edition(4)], 4, "nobody saw the editions before"],
    [[edition(4), edition(5, BLUE), edition(6)], 4, "each edition after it was seen"],
    [[edition(4), edition(4, BLUE_SPELLED, { sharedWith: ["m"] }), edition(5)], 4, "an annotation is no edition"],
    [[edition(4), edition(6)], 6, "nobody knows what the fifth said"],
    [[edition(4), edition(5, RED), edition(6)], 6, "it was on another network"],
    [[edition(4), edition(5, FOREIGN), edition(6)], 6, "another plugin served it"],
    [[edition(4), edition(5, WRONG), edition(6)], 6, "it was refused"],
    [[edition(4), edition(5, BLUE_OTHER)], 5, "it has other addresses"],
    [[edition(4), edition(5, BLUE, { uid: "other" })], 5, "it is another object"],
    [[edition(5), edition(4), edition(5)], 4, "an older one was heard of late"],
  ])("case %#", (editions, joinedAt, reason) => {
    expect(since(...editions), reason).toBe(joinedAt);
  });
});

describe("an ADD through a NAD", () => {
  const made = catalog(
    nad("n/a", 1, BLUE),
    nad("n/same", 2, BLUE_SPELLED),
    nad("n/other", 2, BLUE_OTHER),
    nad("n/wrong", 1, WRONG),
    nad("n/empty", 1, EMPTY_RANGES),
    nad("n/torn", 1, "{"),
    nad("n/foreign", 1, FOREIGN),
    nad("n/file", 1, ""),
  );
  test.each([
    ["n/a", { kind: "ok", network: "blue", by: "n/a" }, "blue", "the one that counts"],
    ["n/same", { kind: "ok", network: "blue", by: "n/a", source: BLUE }, "blue", "means the same in other words"],
    ["n/other", { kind: "conflict", by: "n/a", other: "n/other" }, "blue", "says something else"],
    ["n/wrong", { kind: "broken", refusal: { code: "CONFIG_INVALID" } }, null, "host bits in a subnet"],
    ["n/empty", { kind: "broken", refusal: { code: "NETWORK_UNDEFINED" } }, null, "no ranges"],
    ["n/torn", { kind: "broken", refusal: { code: "CONFIG_UNREADABLE" } }, null, "no JSON"],
    ["n/foreign", { kind: "not-ours" }, null, "another plugin's"],
    ["n/file", { kind: "not-ours" }, null, "the configuration is in a file"],
    ["n/none", { kind: "unknown" }, null, "never seen"],
  ])("%s", (key, verdict, network, reason) => {
    expect(made.verdict(key), reason).toMatchObject(verdict);
    expect(made.networkOfNad(key), reason).toBe(network);
  });
});

test("agrees with a naive model, whatever comes, changes and goes", () => {
  const key = fc.constantFrom("n/a", "n/b", "m/a", "m/b", "m/c");
  const text = fc.constantFrom(BLUE, BLUE, BLUE_SPELLED, BLUE_OTHER, RED, WRONG, EMPTY_RANGES, FOREIGN, "{", "");
  const sharedWith = fc.constantFrom([], [], ["m"], ["n"], ["*"]);
  const step = fc.oneof(
    { weight: 6, arbitrary: fc.record({ key, day: fc.integer({ min: 1, max: 3 }), text, sharedWith }) },
    { weight: 2, arbitrary: fc.record({ key, gone: fc.constant(true) }) },
    { weight: 1, arbitrary: fc.record({ owner: fc.constantFrom(null, "n", "m", "x", ""), sharedWith }) },
  );
  const fine = new Map([BLUE, BLUE_SPELLED, BLUE_OTHER, RED].map((one) => [one, parseNadConfig(one, "a")]));
  fc.assert(
    fc.property(fc.array(step, { minLength: 20, maxLength: 60 }), (steps) => {
      const made = new DefinitionCatalog(systemClock);
      const model = new Map<string, NadView>();
      let recorded: { definedIn: string; sharedWith: readonly string[] } | null = null;
      for (const one of steps) {
        if ("owner" in one) {
          recorded = one.owner === null ? null : { definedIn: one.owner, sharedWith: one.sharedWith };
          for (const network of ["blue", "red"]) made.setOwner(network, recorded);
        } else if ("gone" in one) {
          made.remove(one.key);
          model.delete(one.key);
        } else {
          const view = nad(one.key, one.day, one.text, one.sharedWith);
          made.upsert(view);
          model.set(one.key, view);
        }
        const ours = [...model.values()]
          .filter((view) => fine.has(view.config))
          .sort((a, b) => (`${a.creationTimestamp} ${a.key}` < `${b.creationTimestamp} ${b.key}` ? -1 : 1));
        for (const network of ["blue", "red"]) {
          const all = ours.filter((view) => fine.get(view.config)?.network === network);
          const definedIn: string | undefined = recorded?.definedIn ?? all[0]?.namespace;
          const counts = all.find(({ namespace }) => namespace === definedIn);
          expect(made.definitionOf(network)?.by).toBe(counts?.key);
          expect(made.definitionOf(network)?.source).toBe(counts?.config);
          expect(made.networks().includes(network)).toBe(all.length > 0);
          for (const view of all) {
            const means = (config = "") => fine.get(config)?.definition.fingerprint;
            const guests: string[] = [...(recorded?.sharedWith ?? []), ...(counts?.sharedWith ?? [])];
            const permitted = view.namespace === definedIn || guests.includes("*") || guests.includes(view.namespace);
            const same = counts && means(view.config) === means(counts.config);
            const kind = same === undefined ? "undefined" : same ? "ok" : "conflict";
            expect(made.verdict(view.key).kind).toBe(permitted ? kind : "not-shared");
            expect(made.networkOfNad(view.key)).toBe(permitted ? network : null);
          }
        }
      }
    }),
    { numRuns: 300 },
  );
});

test("a NAD as the API server sends it", () => {
  const metadata = {
    name: "blue",
    namespace: "n",
    uid: "u",
    resourceVersion: "1",
    creationTimestamp: "2026-01-01T00:00:00Z",
  };
  expect(projectNad({ metadata, spec: { config: BLUE } })).toMatchObject({ key: "n/blue", config: BLUE });
  expect(projectNad({ metadata }), "the configuration is in a file").toMatchObject({ config: "" });
  expect(() => projectNad({ metadata: { name: "blue" } })).toThrow(/^NetworkAttachmentDefinition blue/);
});
