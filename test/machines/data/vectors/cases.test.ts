import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { OwnModeHere, ownerOf, PATHS } from "../own-mode-here.ts";
import { CLAIM_CASES, INDEX_CASES, REFUSED_DATA, SECRET_CASES, TEMPLATE_CASES } from "./cases.ts";

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind
type Any = any;

let here: OwnModeHere;
beforeEach(() => {
  here = new OwnModeHere();
});
afterEach(() => here.stop());

const stringed = (object: Any) => String(object?.status?.errorMessage ?? "");

test.each(INDEX_CASES)("indexes: $what", async ({ claims, datas, indexes }) => {
  here.template("abc", {});
  for (const { name, cluster, has, isGoing } of claims) {
    const labels = cluster === undefined ? {} : { "cluster.x-k8s.io/cluster-name": cluster };
    const going = isGoing ? { deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: ["somebody/else"] } : {};
    here.claim(name, { template: "abc", renderedData: has, metadata: { labels, ...going } });
  }
  for (const { name, index, claim } of datas) here.data(name, { index, claim, template: "abc" });
  here.start();
  await here.settle();
  expect(here.indexes("abc")).toEqual(indexes);
  const shown: Any[] = here.readTemplate("abc").status?.indexes ?? [];
  expect(Object.fromEntries(shown.map(({ name, index }) => [name, index]))).toEqual(indexes);
  for (const { name, isGoing } of claims)
    if (!isGoing) expect(here.readClaim(name).status.renderedData.name).toBe(`abc-${indexes[name]}`);
});

describe("a data object", () => {
  test.each(SECRET_CASES)("$what", async ({ template, owned = true, host = false, outcome, secrets }) => {
    here.template("t", template);
    if (host) here.host("bmh");
    const machine = here.machine("m3m", { host: host ? "bmh" : null });
    const ownerReferences = owned ? [ownerOf("Metal3Machine", machine)] : [];
    here.claim("m3m", { metadata: { ownerReferences } });
    here.start();
    await here.settle();
    const data = here.readData("t-0");
    expect(data.status?.ready === true).toBe(outcome === "ready");
    expect(stringed(data) !== "").toBe(outcome === "error");
    const made = here
      .all(PATHS.secrets)
      .map(({ metadata, data: keys }) => [
        metadata.name,
        Buffer.from(Object.values<string>(keys)[0] as string, "base64").toString(),
      ]);
    expect(Object.fromEntries(made)).toEqual(secrets ?? {});
  });

  test("without a spec it is not ready", async () => {
    here.data("t-0", { index: undefined, claim: undefined, template: undefined });
    here.start();
    await here.settle();
    expect(here.readData("t-0").status?.ready ?? false).toBe(false);
  });

  test.each(REFUSED_DATA)("$name with index $index says why it is not rendered", async ({ name, index }) => {
    here.template("abc", {});
    here.claim("c", { template: "abc", renderedData: name });
    here.data(name, { index, claim: "c", template: "abc" });
    here.start();
    await here.settle();
    expect(stringed(here.readData(name))).toContain(`would be named abc-${index}`);
  });

  test.each(CLAIM_CASES)("waits for an IPAddressClaim while $what", async ({ status }) => {
    here.serveClaims();
    here.template("t", { metaData: { ipAddressesFromPool: [{ key: "a", name: "p" }] } });
    here.host("m");
    here.machine("m");
    here.start();
    await here.settle();
    here.change(PATHS.addressClaims, "t-0-p", (claim) => {
      claim.status = status;
    });
    await here.settle();
    const [ready] = here.readData("t-0").status.conditions;
    expect(ready).toMatchObject({ status: "False", reason: "WaitingForAddress" });
    expect(stringed(here.readData("t-0"))).toBe("");
  });
});

describe("a template", () => {
  test.each(TEMPLATE_CASES)("$what is served, or says why it is not: $problem", async ({ spec, problem }) => {
    here.template("t", spec);
    here.claim("c");
    here.start();
    await here.settle();
    const [ready] = here.readTemplate("t").status.conditions;
    expect(ready.status).toBe(problem === null ? "True" : "False");
    expect(ready.message).toContain(problem ?? "");
    expect(here.indexes()).toEqual(problem === null ? { c: 0 } : {});
  });

  test.each([
    ["metaData", { strings: [{ key: "abc", value: "defg" }] }, { strings: [{ key: "abc", value: "def" }] }],
    ["networkData", { services: { dns: ["192.0.2.1"] } }, { services: { dns: ["192.0.2.2"] } }],
  ])("%s that is edited is reported, and changes nothing that was rendered", async (part, old, next) => {
    here.template("t", { [part]: old });
    here.host("m");
    here.machine("m");
    here.start();
    await here.settle();
    const secrets = here.all(PATHS.secrets).map(({ data }) => data);
    expect(secrets).toHaveLength(1);
    here.change(PATHS.templates, "t", (template) => {
      template.spec = { [part]: next };
    });
    await here.settle();
    expect(here.all(PATHS.secrets).map(({ data }) => data)).toEqual(secrets);
    expect(here.reasonsOf("t")).toEqual(["TemplateEdited"]);
  });
});

describe("a claim", () => {
  test.each([
    ["", true],
    ["shop", true],
    ["other", false],
  ])("of a template in namespace '%s' gets an index: %s", async (namespace, isServed) => {
    here.template("t", {});
    here.claim("c");
    here.change(PATHS.claims, "c", (claim) => {
      claim.spec.template.namespace = namespace;
    });
    here.start();
    await here.settle();
    expect(here.indexes()).toEqual(isServed ? { c: 0 } : {});
    expect(stringed(here.readClaim("c")) === "").toBe(isServed);
  });

  test("whose template is changed later keeps its data object", async () => {
    for (const name of ["t", "u"]) here.template(name, {});
    here.claim("c");
    here.start();
    await here.settle();
    here.change(PATHS.claims, "c", (claim) => {
      claim.spec.template.name = "u";
    });
    await here.settle();
    expect(here.indexes("t")).toEqual({ c: 0 });
    expect(here.indexes("u")).toEqual({});
  });
});
