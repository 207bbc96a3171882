/** What a claim has, which of several addresses counts, and what its list and its network are to say of it. */
import { describe, expect, test } from "vitest";
import { claimSays } from "../../claims/reasons/claim-says.ts";
import { ABSENT, type PodFact, present, UNKNOWN, type Wants } from "../../claims/reasons/facts.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { define } from "../ipam/definitions.ts";
import { allocation, attached, CLAIM, claimFact, factsOf, judged, pod, RULES, reported } from "./judged.ts";

interface Given {
  /** `network address`; with `!` a pod is attached. */
  readonly has: readonly string[];
  readonly lists?: readonly string[];
  readonly network?: string;
  readonly wants?: Partial<Wants>;
  /** What the pod that is attached reports, through a NAD of `shop`. */
  readonly reports?: readonly string[];
  readonly through?: string;
  readonly pod?: Partial<PodFact> | "unknown" | "gone";
  readonly subnets?: Readonly<Record<string, string>>;
}

const SUBNETS: Readonly<Record<string, string>> = { blue: "10.0.0.0/24", red: "10.9.0.0/24" };

/** `network: list; counting`. */
function says({ has, lists = [], network = "blue", wants, reports = [], through = "blue", ...given }: Given): string {
  const subnets = { ...SUBNETS, ...given.subnets };
  const objects = has.map((text) => {
    const [where = "", address = ""] = text.replace("!", "").split(" ");
    return judged(allocation(CLAIM, text.endsWith("!") ? [attached()] : [], { network: where, address }));
  });
  const found =
    given.pod === "gone"
      ? ABSENT
      : given.pod === "unknown"
        ? UNKNOWN
        : present(pod({ addresses: reports.flatMap((ip) => reported(ip, `shop/${through}`)), ...given.pod }));
  const definitionOf = (name: string): NetworkDefinition | null => {
    const text = subnets[name];
    return text === undefined ? null : define({ subnets: text }, { name });
  };
  const claim = claimFact(lists, { network });
  const wanted = { network: "blue", asks: [], vmi: null, nad: "shop/blue", ...wants };
  const it = claimSays(claim, objects, wanted, factsOf({ pod: found }), { ...RULES, definitionOf });
  if (it.kind !== "present") return it.kind;
  const counting = it.it.had.filter((one) => one.counts).map(({ name }) => name);
  expect(it.it.isRight).toBe(it.it.network === network && it.it.ips.join() === lists.join());
  return `${it.it.network}: ${it.it.ips.join(" ")}; ${counting.length} of ${objects.length}`;
}

const A = "blue 10.0.0.5/24";
const B = "blue 10.0.0.6/24";
const RED = "red 10.9.0.7/24";

describe("of several addresses in one subnet", () => {
  test.each<[Given, string, string]>([
    [{ has: [A] }, "blue: 10.0.0.5/24; 1 of 1", "the only one"],
    [{ has: [B, A] }, "blue: 10.0.0.5/24; 1 of 2", "the first, where none is listed"],
    [{ has: [A, B], lists: ["10.0.0.6/24"] }, "blue: 10.0.0.6/24; 1 of 2", "the one that is listed"],
    [{ has: [A, B], lists: ["10.0.0.6/24", "10.0.0.5/24"] }, "blue: 10.0.0.6/24; 1 of 2", "the first that is listed"],
    [{ has: [A, B], lists: ["10.0.0.6/16"] }, "blue: 10.0.0.6/24; 1 of 2", "whatever prefix length is written there"],
    [{ has: [A, B], lists: ["x", "10.0.0.9/24", "10.0.0.6/24"] }, "blue: 10.0.0.6/24; 1 of 2", "that it has"],
    [
      { has: [A, `${B}!`], lists: ["10.0.0.5/24"], reports: ["10.0.0.6"] },
      "blue: 10.0.0.6/24; 1 of 2",
      "what a pod reports, before the list",
    ],
    [
      { has: [A, `${B}!`], lists: ["10.0.0.5/24"] },
      "blue: 10.0.0.5/24 10.0.0.6/24; 1 of 2",
      "not what a pod is attached to and does not report: it stays listed behind",
    ],
    [
      { has: [A, `${B}!`], lists: ["10.0.0.5/24"], reports: ["10.0.0.6"], through: "red" },
      "blue: 10.0.0.5/24 10.0.0.6/24; 1 of 2",
      "not the same address of another network",
    ],
    [
      { has: [A, `${B}!`], lists: ["10.0.0.5/24"], reports: ["10.0.0.6"], through: "nobody-knows" },
      "blue: 10.0.0.6/24; 1 of 2",
      "what comes through a NAD that may be this network's",
    ],
    [
      { has: [A, `${B}!`], lists: ["10.0.0.5/24"], pod: { addressesCut: true } },
      "blue: 10.0.0.6/24; 1 of 2",
      "what a pod may report beyond what is read",
    ],
    [
      { has: [A, `${B}!`], lists: ["10.0.0.5/24"], reports: ["10.0.0.6"], pod: "gone" },
      "blue: 10.0.0.5/24 10.0.0.6/24; 1 of 2",
      "not of a pod that is gone",
    ],
    [
      {
        has: [A, `${B}!`],
        lists: ["10.0.0.5/24"],
        pod: { uid: "p2", addresses: reported("10.0.0.6") },
      },
      "blue: 10.0.0.5/24 10.0.0.6/24; 1 of 2",
      "nor of another pod of its name",
    ],
    [
      { has: [A, `${B}!`], lists: ["10.0.0.5/24"], pod: { terminal: true, addresses: reported("10.0.0.6") } },
      "blue: 10.0.0.5/24 10.0.0.6/24; 1 of 2",
      "nor of one that has ended",
    ],
    [{ has: [A, `${B}!`], pod: "unknown" }, "unknown", "of its pod nothing is known"],
    [
      { has: [A, B], lists: ["10.0.0.6/24"], wants: { asks: ["10.0.0.5"] } },
      "blue: 10.0.0.6/24 10.0.0.5/24; 1 of 2",
      "what is asked for does not count by that: it is listed behind",
    ],
    [
      { has: [A, RED], lists: [], wants: { asks: ["10.9.0.7"] } },
      "blue: 10.0.0.5/24 10.9.0.7/24; 2 of 2",
      "and only of the network where the VM is to be",
    ],
  ])("%j → %s: %s", (given, expected) => {
    expect(says(given)).toBe(expected);
  });
});

describe("of several subnets", () => {
  const subnets = { blue: "10.0.0.0/24,fd00::/64,10.1.0.0/24" };
  test.each<[Given, string, string]>([
    [
      { subnets, has: ["blue 10.1.0.5/24", "blue fd00::5/64", A], lists: ["10.1.0.5/24"] },
      "blue: 10.0.0.5/24 fd00::5/64 10.1.0.5/24; 3 of 3",
      "one of each, in the order of the subnets and not of the list",
    ],
    [
      { subnets, has: [A, B, "blue fd00::5/64", "blue fd00::6/64"], lists: ["fd00::6/64", "10.0.0.6/24"] },
      "blue: 10.0.0.6/24 fd00::6/64; 2 of 4",
      "each by the same list",
    ],
    [
      { has: [A, "blue 10.5.0.5/24"], lists: ["10.5.0.5/24"] },
      "blue: 10.5.0.5/24 10.0.0.5/24; 2 of 2",
      "one of no subnet any more counts for itself",
    ],
    [
      { has: ["blue 10.5.0.5/24", `${A}!`], lists: ["10.5.0.5/24"], reports: ["10.0.0.5"] },
      "blue: 10.0.0.5/24; 1 of 2",
      "but not where the VM runs with another one of its family",
    ],
    [
      { has: ["blue fd77::5/64", `${A}!`], lists: [], reports: ["10.0.0.5"] },
      "blue: 10.0.0.5/24 fd77::5/64; 2 of 2",
      "of its family",
    ],
    [
      { has: ["blue 10.5.0.5/24!", `${A}!`], lists: [], reports: ["10.0.0.5", "10.5.0.5"] },
      "blue: 10.0.0.5/24 10.5.0.5/24; 2 of 2",
      "nor where it runs with both",
    ],
  ])("%j → %s: %s", (given, expected) => {
    expect(says(given)).toBe(expected);
  });
});

describe("of several networks", () => {
  test.each<[Given, string, string]>([
    [
      { has: [A, RED] },
      "blue: 10.0.0.5/24 10.9.0.7/24; 2 of 2",
      "that where the VM is to be, and what counts elsewhere",
    ],
    [
      { has: [A, RED], wants: { network: "red" } },
      "red: 10.9.0.7/24 10.0.0.5/24; 2 of 2",
      "as soon as it has something there",
    ],
    [{ has: [A], wants: { network: "red" } }, "blue: 10.0.0.5/24; 1 of 1", "and not before"],
    [{ has: [A, RED], wants: { network: "green" } }, "blue: 10.0.0.5/24 10.9.0.7/24; 2 of 2", "the pointer stays"],
    [
      { has: [A, RED], wants: { network: null } },
      "blue: 10.0.0.5/24 10.9.0.7/24; 2 of 2",
      "where no claim follows, too",
    ],
    [
      { has: [RED], wants: { network: null }, lists: ["10.0.0.5/24"] },
      "red: 10.9.0.7/24; 1 of 1",
      "but never at a network where it has nothing",
    ],
    [{ has: [], lists: ["10.0.0.5/24"] }, "blue: 10.0.0.5/24; 0 of 0", "of nothing there is nothing to say"],
    [
      { has: [A, B, RED, "red 10.9.0.8/24"], wants: { network: "red" }, lists: ["10.0.0.6/24", "10.9.0.8/24"] },
      "red: 10.9.0.8/24 10.0.0.6/24; 2 of 4",
      "what counts on each",
    ],
    [
      { has: [A, "red 10.0.0.5/24"], subnets: { red: "10.0.0.0/16" } },
      "blue: 10.0.0.5/24; 2 of 2",
      "what is on both, which overlap, is listed once",
    ],
    [
      { has: [`${A}!`, "red 10.0.0.5/16"], subnets: { red: "10.0.0.0/16" }, wants: { network: "red" } },
      "red: 10.0.0.5/16 10.0.0.5/24; 2 of 2",
      "but with each prefix length",
    ],
    [{ has: [A, "green 10.7.0.5/24"] }, "unknown", "one that nothing defines"],
  ])("%j → %s: %s", (given, expected) => {
    expect(says(given)).toBe(expected);
  });
});

test("at most sixteen entries, of which the network where the VM is has the first", () => {
  const subnets = Array.from({ length: 16 }, (_, at) => `10.${at}.0.0/24`).join();
  const has = [RED, ...Array.from({ length: 16 }, (_, at) => `blue 10.${15 - at}.0.5/24`)];
  const expected = Array.from({ length: 16 }, (_, at) => `10.${at}.0.5/24`);
  expect(says({ has, subnets: { blue: subnets, red: "10.9.0.0/16" } })).toBe(`blue: ${expected.join(" ")}; 17 of 17`);
  expect(says({ has, lists: expected, subnets: { blue: subnets, red: "10.9.0.0/16" } })).toContain(expected.join(" "));
});

test("a claim that says what it has stays as it is: to say it once more changes nothing", () => {
  for (const lists of [["10.0.0.5/24"], ["10.0.0.6/24"], ["10.9.0.7/24", "10.0.0.6/24"], []]) {
    for (const wants of ["blue", "red", null]) {
      const given = { has: [A, B, RED], wants: { network: wants } };
      const [network = "", ips = ""] = (says({ ...given, lists }).split(";")[0] as string).split(": ");
      expect(says({ ...given, network, lists: ips.split(" ") })).toContain(`${network}: ${ips};`);
    }
  }
});
