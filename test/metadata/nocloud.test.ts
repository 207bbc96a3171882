import { expect, test } from "vitest";
import { parse } from "yaml";
import { BARE, get, instance } from "./instances.ts";

test("meta-data is YAML with the tenant's keys under one key", () => {
  expect(parse(get("/nocloud/meta-data").text)).toEqual({
    "instance-id": "5d1a8b1e-7c52-4b7e-9a1f-3f2f1d6b0c11",
    "local-hostname": "vm1.example.net",
    "public-keys": ["ssh-ed25519 AAAAalice alice@example.net", "ssh-ed25519 AAAAbob bob@example.net"],
    "availability-zone": "zone-a",
    "instance-type": "u1.medium",
    meta: { role: "db", "cost-centre": "17" },
  });
  const meta = { seedfrom: "http://elsewhere/", dsmode: "disabled" };
  expect(parse(get("/nocloud/meta-data", { of: instance({ meta }) }).text)).toMatchObject({
    meta: { seedfrom: "http://elsewhere/" },
  });
  expect(parse(get("/nocloud/meta-data", { of: instance({ meta }) }).text)).not.toHaveProperty("seedfrom");
});

test.each(["user-data", "vendor-data", "network-config"])(
  "%s is 200 and empty when there is none: a 404 costs the guest ten seconds, or its source",
  (name) => {
    expect(get(`/nocloud/${name}`, { of: BARE })).toMatchObject({ status: 200, text: "" });
  },
);

test("user-data, vendor-data and network-config are served", () => {
  expect(get("/nocloud/user-data").text).toBe("#cloud-config\npackages: [jq]\n");
  expect(get("/nocloud/vendor-data").text).toBe("#cloud-config\nntp: {}\n");
  expect(parse(get("/nocloud/network-config").text)).toMatchObject({ version: 2 });
  expect(get("/nocloud/").text).toBe("meta-data\nnetwork-config\nuser-data\nvendor-data");
});

test.each(["/nocloud/nothing", "/nocloud/meta-data/more", "/nocloud/latest/meta-data"])("%s is 404", (path) => {
  expect(get(path).status).toBe(404);
});

test("characters that PyYAML refuses in a text are escaped", () => {
  const of = instance({
    hostname: "a\u0085b\u007fc\ufeffd\u2028e\ud83d\ude00f\ud800",
    meta: { k: "\u009f\t" },
  });
  const { text } = get("/nocloud/meta-data", { of });
  expect(text).toContain('"a\\u0085b\\u007fc\\ufeffd\\u2028e\ud83d\ude00f\\ud800"');
  expect(text).toContain('"k": "\\u009f\\t"');
});

test.each([
  ["k".repeat(253), true, "the longest of a ConfigMap"],
  ["k".repeat(254), false, "longer than any that is in use"],
  ["a\nb", false, "a control character"],
  ["\ud800", false, "half a character"],
  ["dsmode", true, "with a value that does no harm"],
])("meta key %#: %3$s", (key, told, _why) => {
  const { meta = {} } = parse(get("/nocloud/meta-data", { of: instance({ meta: { [key]: "1" } }) }).text);
  expect(Object.hasOwn(meta, key)).toBe(told);
});
