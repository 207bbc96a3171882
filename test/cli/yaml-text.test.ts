import fc from "fast-check";
import { expect, test } from "vitest";
import * as yaml from "yaml";
import { yamlText } from "../../cli/formats/yaml-text.ts";

/** What the library alone writes, as kubectl has it. */
function expected(value: object): string {
  const document = new yaml.Document(value, { version: "1.1", aliasDuplicateObjects: false });
  return document.toString({ indentSeq: false, lineWidth: 0 });
}

const digits = fc.constantFrom(..."0123456789abcdefxo._:-+eE".split(""));
/** Near to what our values are, and to what YAML takes for something else. */
const text = fc.oneof(
  fc.constantFrom(
    "y",
    "No",
    "on",
    "NULL",
    "true",
    "~",
    "=",
    "-",
    "- a",
    "a: b",
    "a #b",
    "#",
    "",
    " ",
    "a ",
    ".inf",
    "0x1f",
  ),
  fc.constantFrom(
    "fd10::1/64",
    "fd10::",
    "::1",
    "10.0.0.1/24",
    "1:20",
    "0b1",
    "1e5",
    "2026-01-01",
    "a\nb",
    "\n",
    "a\n\nb\n",
  ),
  fc.constantFrom(
    "container c1 (net1)",
    "default/vm1",
    "net1(eth0)",
    "a:b",
    "a : b",
    "no free address",
    "[a]",
    "{a}",
    "a, b",
  ),
  fc.array(digits, { maxLength: 12 }).map((all) => all.join("")),
  fc
    .array(fc.constantFrom(..."abcdf0123456789".split("")), { minLength: 64, maxLength: 64 })
    .map((all) => all.join("")),
  fc.uuid(),
  fc.date({ noInvalidDate: true, min: new Date(0), max: new Date("9999-12-31") }).map((date) => date.toISOString()),
  fc.ipV4(),
  fc.ipV6(),
  fc.string({ maxLength: 20 }),
);
const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.oneof(text, fc.integer(), fc.boolean(), fc.constant(null), fc.double({ noNaN: true, noDefaultInfinity: true })),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(text, tie("value"), { maxKeys: 4, noNullPrototype: true }),
  ),
}));
const document = fc.oneof(
  fc.array(value, { maxLength: 5 }),
  fc.dictionary(text, value, { maxKeys: 5, noNullPrototype: true }),
) as fc.Arbitrary<object>;
/**
 * The library writes control characters and the like its own way, which ours escapes: those are tested with documents.
 * And it quotes the marks of a document's end where they begin a line, which a part by itself does.
 */
const isPlain = (one: unknown) => {
  const text = JSON.stringify(one).replaceAll("\\n", "");
  return !/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u.test(text) && !/"(?:\.\.\.|---)/.test(text);
};

test("the text is the library's, for whatever a document has", () => {
  fc.assert(
    fc.property(document.filter(isPlain), (one) => {
      expect(yamlText(one, yaml)).toBe(expected(one));
    }),
    { numRuns: 3_000 },
  );
});

test("what our lists are made of needs no library", () => {
  const allocation = {
    network: "tenantblue-network",
    address: "192.168.10.5/24",
    state: "Bound",
    owner: {
      kind: "claim",
      uid: "0d9e0a3c-1f4e-4b6f-9c5f-2f2f0c9a7b11",
      interface: "",
      namespace: "default",
      name: "vm1.blue",
    },
    vm: null,
    since: "2026-01-01T00:00:00.000Z",
    attachments: [
      { containerID: "f".repeat(64), interface: "net1", netns: "/run/netns/x-1", node: "node1", pod: null },
    ],
  };
  const all = { items: [allocation, { ...allocation, address: "fd10::5/64" }], other: { list: [], map: {} } };
  expect(yamlText(all, null)).toBe(expected(all));
});
