import { expect, test } from "vitest";
import { CLAIMS } from "../../guests/drivers/nft/claims.ts";
import { concernsLinks } from "../../guests/drivers/nft/links.ts";
import { readRefusal } from "../../guests/drivers/nft/nft-table.ts";
import { chainText, elementsOf, type Ruleset, type TableForm } from "../../guests/drivers/nft/ruleset.ts";
import { linesBetween, parseTable, stateOf } from "../../guests/drivers/nft/table-state.ts";
import type { PortAddress } from "../../guests/kernel/port-address.ts";

const FORM: TableForm = {
  family: "netdev",
  sets: {
    address: { kind: "map", type: "iface_index : ipv4_addr", says: "A." },
    answers: { kind: "set", type: "iface_index . mark", says: "B." },
  },
};
const WHERE = { form: FORM, table: "t" };
const ONE = 0xf0000001 as PortAddress;

function ruleset(rules: readonly string[], hooked: readonly string[]): Ruleset {
  const chains = [
    chainText("shared", "", rules),
    ...hooked.map((name) => chainText(name, `type filter hook ingress device "${name}"`, ["jump shared"], ONE)),
  ];
  return {
    chains: new Map(chains.map((chain) => [chain.name, chain])),
    elements: elementsOf(FORM, [
      ["address", "7", "240.0.0.1"],
      ["answers", "7 . 5", ""],
    ]),
  };
}

function texts(before: Ruleset | null, after: Ruleset): readonly string[] {
  const from = before === null ? null : stateOf(before);
  return linesBetween(WHERE, from, after).map(({ text }) => text.replace(/ comment "[^"]{12}"$/, ""));
}

test("a table that is not known is replaced as a whole, in one transaction", () => {
  const all = texts(null, ruleset(["accept"], ["a"]));
  expect(all.slice(0, 2)).toEqual(["table netdev t {}", "delete table netdev t"]);
  expect(all[2]).toMatch(/^table netdev t \{ comment "holdfast metadata-net; .*nft delete table netdev t"; \}$/);
  expect(all.slice(-2)).toEqual([
    "add element netdev t address { 7 : 240.0.0.1 }",
    "add element netdev t answers { 7 . 5 }",
  ]);
});

test("only what differs is changed: a chain of a port comes and goes, rules of all are replaced in place", () => {
  const base = ruleset(["accept"], ["a"]);
  expect(texts(base, base)).toEqual([]);
  expect(texts(base, ruleset(["accept"], ["a", "b"]))).toEqual([
    'add chain netdev t b { type filter hook ingress device "b" }',
    "add rule netdev t b jump shared",
  ]);
  expect(texts(base, ruleset(["accept"], []))).toEqual(["delete chain netdev t a"]);
  expect(texts(base, ruleset(["drop"], ["a"]))).toEqual([
    "flush chain netdev t shared",
    "add rule netdev t shared drop",
  ]);
});

test("the listing of nft is recognised, and a change by somebody else is detected", () => {
  const rules = ruleset(["accept"], []);
  const comment = rules.chains.get("shared")?.digests[0];
  const list = (more: readonly object[] = [], elem: readonly unknown[] = [[7, "240.0.0.1"]]) =>
    JSON.stringify({
      nftables: [
        { metainfo: {} },
        { table: { name: "t" } },
        { chain: { name: "shared" } },
        { rule: { chain: "shared", comment, expr: [] } },
        { map: { name: "address", type: "iface_index", map: "ipv4_addr", elem } },
        { set: { name: "answers", type: ["iface_index", "mark"], elem: [{ concat: [7, 5] }] } },
        ...more,
      ],
    });
  expect(parseTable(FORM, list())).toEqual(stateOf(rules));
  const extra = parseTable(FORM, list([{ rule: { chain: "shared", expr: [] } }]));
  expect(extra).not.toEqual(stateOf(rules));
  expect(parseTable(FORM, list([], []))).not.toEqual(stateOf(rules));
  // Of another form: not to be changed, but to be replaced.
  expect(parseTable(FORM, list([{ set: { name: "foreign", type: "mark" } }]))).toBeNull();
  expect(parseTable(FORM, list([], [[7, { elem: { val: 1 } }]]))).toBeNull();
});

test("a port that nft refuses is found by the line that it complains of, and the others by none", () => {
  const lines = [
    { text: "table netdev t {}", address: null },
    { text: "add chain netdev t a", address: ONE },
  ];
  const stderr = `/dev/stdin:2:1-60: Error: Could not process rule: No such device
add chain netdev t a
^^^^^^^^^^^^^^^^^^^^
`;
  expect([...readRefusal(stderr, lines).ports]).toEqual([
    [ONE, "nft refuses the rules of its link: Could not process rule: No such device"],
  ]);
  expect(readRefusal("netlink: Error: cache initialization failed", lines).ports.size).toBe(0);
});

test("of the output of ip monitor only changes of a port's link count", () => {
  const links = { byIndex: new Map([[7, "veth7"]]), names: new Set(["veth7", "veth8"]) };
  const lines: readonly (readonly [string, boolean])[] = [
    ["Deleted 7: veth7@if2: <BROADCAST> mtu 1500", true],
    ["Deleted 9: veth9@if2: <BROADCAST> mtu 1500", false],
    ["7: veth7@if2: <BROADCAST,UP> mtu 1500 master br0", false],
    ["7: other@if2: <BROADCAST> mtu 1500", true],
    ["9: veth8@if2: <BROADCAST> mtu 1500", true],
    ["9: veth88@if2: <BROADCAST> mtu 1500", false],
    ["    link/ether 02:00:00:00:00:01", false],
  ];
  for (const [line, counts] of lines) expect(concernsLinks(line, links), line).toBe(counts);
});

test("no rule is longer than nft's comments and every one has a digest of its own", () => {
  expect(new Set(CLAIMS.digests).size).toBe(CLAIMS.rules.length);
  for (const digest of CLAIMS.digests) expect(digest).toMatch(/^[\w-]{12}$/);
});
