import { describe, expect, test } from "vitest";
import { nameOrigin, networkNameIn, parseNadConfig, parseNadConfigIfOurs } from "../../ipam/definition/nad-config.ts";
import { define, pluginConfig, refusalOf } from "./definitions.ts";

const ipam = { type: "holdfast-ipam", subnets: "10.0.0.0/24" };
const list = (more: object = {}, plugin: object = {}) =>
  JSON.stringify({
    cniVersion: "1.0.0",
    name: "blue",
    plugins: [{ type: "bridge", ipam, ...plugin }, { type: "tuning" }],
    ...more,
  });

describe("parseNadConfig reads", () => {
  const plain = define({ subnets: "10.0.0.0/24" });
  const persistent = define({ subnets: "10.0.0.0/24" }, { allowPersistentIPs: true });

  test.each<[string, object, string]>([
    [JSON.stringify(pluginConfig(ipam)), plain, "a single plugin"],
    [list(), plain, "a list; plugins get its name"],
    [list({}, { name: "other" }), plain, "the list's name wins, as in libcni"],
    [list({ allowPersistentIPs: true }), persistent, "the list's flag, which libcni keeps from the plugin"],
    [
      list({}, { allowPersistentIPs: true }),
      { ...persistent, notes: [expect.stringContaining("reads it at the list's top level only")] },
      "the plugin's flag, with a word that KubeVirt does not read it there",
    ],
    [list({ allowPersistentIPs: true }, { allowPersistentIPs: true }), persistent, "both, the same"],
    [
      list({ subnets: "10.0.0.0/24" }, { ipam: { type: "holdfast-ipam" } }),
      plain,
      "our other keys at the list's level, rather than ignored",
    ],
    [
      JSON.stringify({
        name: "blue",
        plugins: [
          { type: "x", ipam: { type: "host-local" } },
          { type: "bridge", ipam },
        ],
      }),
      plain,
      "the second plugin is ours",
    ],
    [` \n${list()}\n`, plain, "white space around"],
  ])("%s", (text, definition) => {
    expect(parseNadConfig(text, "a-nad")).toEqual({ network: "blue", definition });
    expect(parseNadConfigIfOurs(text, "a-nad")).toEqual({ network: "blue", definition });
  });
});

// Multus and the multi-network standard (section 3.4.2) fill in the object's name for the plugin, so the plugin is
// called with a name that the object does not have.
describe("a definition without a name has its object's name:", () => {
  const single = (name: unknown) => JSON.stringify({ ...pluginConfig(ipam), name });
  test.each([
    [single(undefined), "a single plugin"],
    [single(""), "an empty name, as Go writes an unset one"],
    [single(null), "null"],
    [list({ name: undefined }), "a list"],
    [list({ name: undefined }, { name: "blue" }), "a list whose plugin has a name, which libcni overwrites"],
  ])("%s", (text) => {
    expect(parseNadConfig(text, "macvlan-conf").network).toBe("macvlan-conf");
    expect(parseNadConfigIfOurs(text, "macvlan-conf")?.definition.name).toBe("macvlan-conf");
    expect(networkNameIn(text, "macvlan-conf")).toBe("macvlan-conf");
    expect(nameOrigin(text)).toBe(" (its spec.config has no name, so its network has the object's name)");
  });

  test("with allowPersistentIPs it is noted that KubeVirt's claims need the name", () => {
    const text = JSON.stringify({ ...pluginConfig(ipam), name: undefined, allowPersistentIPs: true });
    expect(parseNadConfig(text, "a-nad").definition.notes).toEqual([expect.stringContaining("write name")]);
  });

  test("one with a name keeps it, and nothing is said of it", () => {
    expect(parseNadConfig(single("blue"), "macvlan-conf").network).toBe("blue");
    expect(nameOrigin(single("blue"))).toBe("");
    expect(nameOrigin("")).toBe("");
  });
});

describe("parseNadConfig refuses", () => {
  test.each([
    ["{", "CONFIG_UNREADABLE", "JSON", "cut off"],
    ["\ufeff{}", "CONFIG_UNREADABLE", "begins with a byte order mark, which is invisible", "of a Windows editor"],
    ["null", "CONFIG_UNREADABLE", "expected an object", "no object"],
    ["[]", "CONFIG_UNREADABLE", "expected an object", "a list of plugins without its object"],
    [
      list({ allowPersistentIPs: true }, { allowPersistentIPs: false }),
      "CONFIG_INVALID",
      "allowPersistentIPs is true",
      "contradiction",
    ],
    [
      list({ allowPersistentIPs: true }, { ipam: { ...ipam, allowPersistentIPs: false } }),
      "CONFIG_INVALID",
      "ipam.allowPersistentIPs is false",
      "a place where KubeVirt does not read it",
    ],
    [
      list({}, { ipam: { ...ipam, allowPersistentIPs: true } }),
      "CONFIG_INVALID",
      "write allowPersistentIPs at the plugin's top level",
      "the same, and nowhere else",
    ],
    [list({ subnets: "10.1.0.0/24" }), "CONFIG_INVALID", "ipam.subnets", "other subnets at the list's level"],
    [
      JSON.stringify({
        name: "blue",
        plugins: [
          { type: "a", ipam },
          { type: "b", ipam },
        ],
      }),
      "CONFIG_INVALID",
      `plugins is [{"type":"a",`,
      "two of ours for one interface",
    ],
    [list({}, { ipam: { ...ipam, subnets: "10.0.0.1/24" } }), "CONFIG_INVALID", "10.0.0.0/24", "as in a single plugin"],
  ])("%.60s", (text, code, message) => {
    const refusal = refusalOf(() => parseNadConfig(text, "a-nad"));
    expect(refusal.code).toBe(code);
    expect(refusal.message).toContain(message);
    expect(refusalOf(() => parseNadConfigIfOurs(text, "a-nad"))).toEqual(refusal);
  });
});

describe("a network that is not ours", () => {
  test.each([
    [JSON.stringify({ name: "blue", type: "bridge", ipam: { type: "host-local", subnet: "x" } }), "ipam.type"],
    [JSON.stringify({ name: "blue", type: "ovn-k8s-cni-overlay", subnets: "10.0.0.0/24" }), "ipam is missing"],
    [JSON.stringify({ name: "blue", plugins: [{ type: "bridge", ipam: {} }] }), "none of them has ipam.type"],
    [JSON.stringify({ name: "blue", plugins: [] }), "none of them has ipam.type"],
    [JSON.stringify({ name: "blue", plugins: [null, 7] }), "none of them has ipam.type"],
    ["", "cannot be read as JSON"],
    ["  ", "cannot be read as JSON"],
  ])("%s is null, or refused where it has to be ours", (text, message) => {
    expect(parseNadConfigIfOurs(text, "a-nad")).toBeNull();
    expect(refusalOf(() => parseNadConfig(text, "a-nad")).message).toContain(message);
  });
});
