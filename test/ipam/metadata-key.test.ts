import { describe, expect, test } from "vitest";
import { parseNadConfig } from "../../ipam/definition/nad-config.ts";
import { define, pluginConfig, refusalOf } from "./definitions.ts";

describe("metadata is on", () => {
  test.each<[unknown, string]>([
    [true, "optional"],
    [{}, "optional"],
    [{ tokens: "optional" }, "optional"],
    [{ tokens: "required" }, "required"],
    [{ tokens: "off" }, "off"],
  ])("%o: tokens are %s", (metadata, tokens) => {
    expect(define({ subnets: "10.0.0.0/24", metadata }).metadata).toEqual({ tokens });
  });

  test.each(["10.0.0.0/24", "10.0.0.7/32", "fd00::/64"])("and takes no address of %s", (subnets) => {
    const definition = define({ subnets, metadata: true });
    expect(definition.rangeSets).toEqual(define({ subnets }).rangeSets);
    expect(definition.notes).toEqual([]);
  });
});

describe("metadata is off", () => {
  test.each<[object]>([[{}], [{ metadata: false }], [{ metadata: null }], [{ metadata: "" }]])("%o", (more) => {
    const definition = define({ subnets: "10.0.0.0/24", ...more });
    expect(definition.metadata).toBeNull();
    expect(definition.fingerprint).toBe(define({ subnets: "10.0.0.0/24" }).fingerprint);
  });

  test("without ranges, because another configuration defines the network", () => {
    expect(define({ metadata: true }).metadata).toBeNull();
  });
});

describe("metadata is CONFIG_INVALID", () => {
  test.each<[unknown, string, string]>([
    ["yes", "ipam.metadata", "true, false or an object"],
    [1, "ipam.metadata", "true, false or an object"],
    [[true], "ipam.metadata", "true, false or an object"],
    [{ address: "10.0.0.9" }, "ipam.metadata.address", "no such key; known are tokens"],
    [{ Tokens: "off" }, "ipam.metadata.Tokens", "write tokens"],
    [{ tokens: "always" }, "ipam.metadata.tokens", '"off", "optional" or "required"'],
    [{ tokens: true }, "ipam.metadata.tokens", "expected a string"],
  ])("%o", (metadata, key, remedy) => {
    const { code, message } = refusalOf(() => define({ subnets: "10.0.0.0/24", metadata }));
    expect(code).toBe("CONFIG_INVALID");
    expect(message).toContain(`${key} `);
    expect(message).toContain(remedy);
  });

  test("the key at the plugin's top level is not ours", () => {
    expect(define({ subnets: "10.0.0.0/24" }, { metadata: { of: "another plugin" } }).metadata).toBeNull();
  });
});

describe("two definitions with metadata", () => {
  const fingerprint = (metadata: unknown) => define({ subnets: "10.0.0.0/24", metadata }).fingerprint;

  test("agree where they mean the same", () => {
    expect(new Set([true, {}, { tokens: "optional" }].map(fingerprint)).size).toBe(1);
  });

  test("do not agree where they differ", () => {
    const different = [false, true, { tokens: "off" }, { tokens: "required" }];
    expect(new Set(different.map(fingerprint)).size).toBe(different.length);
  });

  test("mean the same in a NetworkAttachmentDefinition's list as on stdin", () => {
    const plugin = pluginConfig({ subnets: "10.0.0.0/24", metadata: true });
    const { name, cniVersion, ...rest } = plugin;
    const { definition } = parseNadConfig(JSON.stringify({ name, cniVersion, plugins: [rest] }), "a-nad");
    expect(definition.fingerprint).toBe(fingerprint(true));
  });
});
