import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DefinitionBook, type NadView, projectNad } from "../../claims/definition-book.ts";
import { parseNadConfig } from "../../ipam/network-definition.ts";

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

const nad = (key: string, day: number, text: string): NadView => {
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
  };
};
const book = (...nads: NadView[]) => {
  const made = new DefinitionBook();
  for (const one of nads) made.upsert(one);
  return made;
};

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
    expect(book(...nads).definitionOf("blue")?.by ?? null, reason).toBe(by);
  });

  test("comes with its definition and its text", () => {
    expect(book(nad("n/a", 1, BLUE)).definitionOf("blue")).toEqual({
      definition: parseNadConfig(BLUE).definition,
      by: "n/a",
      source: BLUE,
    });
  });

  test("moves on when the oldest is deleted, edited or broken", () => {
    const made = book(nad("n/a", 1, BLUE), nad("n/b", 2, BLUE_OTHER), nad("n/c", 3, BLUE));
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

describe("an ADD through a NAD", () => {
  const made = book(
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
    [
      "n/same",
      { kind: "ok", network: "blue", by: "n/a", source: BLUE },
      "blue",
      "means the same in other words",
    ],
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
  const text = fc.constantFrom(
    BLUE,
    BLUE,
    BLUE_SPELLED,
    BLUE_OTHER,
    RED,
    WRONG,
    EMPTY_RANGES,
    FOREIGN,
    "{",
    "",
  );
  const step = fc.oneof(
    { weight: 3, arbitrary: fc.record({ key, day: fc.integer({ min: 1, max: 3 }), text }) },
    { weight: 1, arbitrary: fc.record({ key, gone: fc.constant(true) }) },
  );
  const fine = new Map([BLUE, BLUE_SPELLED, BLUE_OTHER, RED].map((one) => [one, parseNadConfig(one)]));
  fc.assert(
    fc.property(fc.array(step, { minLength: 20, maxLength: 60 }), (steps) => {
      const made = new DefinitionBook();
      const model = new Map<string, NadView>();
      for (const one of steps) {
        if ("gone" in one) {
          made.remove(one.key);
          model.delete(one.key);
        } else {
          const view = nad(one.key, one.day, one.text);
          made.upsert(view);
          model.set(one.key, view);
        }
        const ours = [...model.values()]
          .filter((view) => fine.has(view.config))
          .sort((a, b) => (`${a.creationTimestamp} ${a.key}` < `${b.creationTimestamp} ${b.key}` ? -1 : 1));
        for (const network of ["blue", "red"]) {
          const oldest = ours.find((view) => fine.get(view.config)?.network === network);
          expect(made.definitionOf(network)?.by).toBe(oldest?.key);
          expect(made.definitionOf(network)?.source).toBe(oldest?.config);
          expect(made.networks().includes(network)).toBe(oldest !== undefined);
          for (const view of ours.filter((other) => fine.get(other.config)?.network === network)) {
            const means = (config = "") => fine.get(config)?.definition.fingerprint;
            const same = means(view.config) === means(oldest?.config);
            expect(made.verdict(view.key).kind).toBe(same ? "ok" : "conflict");
            expect(made.networkOfNad(view.key)).toBe(network);
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
