import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  claimsNamedBy,
  DEFAULT_NETWORK_ANNOTATION,
  elementFor,
  NETWORKS_ANNOTATION,
  PRIMARY_CLAIM_ANNOTATION,
  readNetworkSelection,
} from "../../../kube/views/network-selection.ts";
import { refusalOf } from "../../ipam/definitions.ts";

const networks = (value: unknown) => ({
  [NETWORKS_ANNOTATION]: typeof value === "string" ? value : JSON.stringify(value),
});
const element = (name: string, more: object = {}) => ({
  nad: { namespace: "shop", name },
  interface: null,
  position: 1,
  claim: null,
  ips: [],
  mac: null,
  ...more,
});

describe("the additional interfaces, read from", () => {
  const full = {
    name: "blue",
    namespace: "nets",
    interface: "pod6270ef7021f",
    ips: ["10.0.0.5/24"],
    mac: "02:00:00:00:00:01",
    "ipam-claim-reference": "vm-a.blue",
    "default-route": ["10.0.0.1"],
  };
  const blueNet1 = { nad: { namespace: "nets", name: "blue" }, interface: "net9" };

  test.each([
    ["", [], "no text at all"],
    ["  ", [], "white space, which some templates leave behind"],
    ["blue", [element("blue")], "a bare name is of the pod's namespace"],
    ["nets/blue@net9", [element("blue", blueNet1)], "text with everything"],
    [
      " blue , nets/red",
      [element("blue"), element("red", { nad: { namespace: "nets", name: "red" }, position: 2 })],
      "white space around elements",
    ],
    [[], [], "an empty list in JSON"],
    [[{ name: "blue" }], [element("blue")], "JSON without a namespace"],
    [
      [{ name: "blue", namespace: "", interface: null, ips: null, mac: "", "ipam-claim-reference": "" }],
      [element("blue")],
      "Go's empty values, which mean that nothing is said",
    ],
    [
      [full],
      [
        {
          nad: { namespace: "nets", name: "blue" },
          interface: "pod6270ef7021f",
          position: 1,
          claim: "vm-a.blue",
          ips: ["10.0.0.5/24"],
          mac: "02:00:00:00:00:01",
        },
      ],
      "JSON with everything; other keys are ignored",
    ],
    [
      [{ name: "blue", "ipam-claim-reference": "shop/vm-a" }],
      [element("blue", { claim: "vm-a" })],
      "a claim of the pod's own namespace, written out",
    ],
    [
      [{ Name: "blue", "IPAM-Claim-Reference": "vm-a" }],
      [element("blue", { claim: "vm-a" })],
      "keys in another case, as Go takes them",
    ],
    [[{ Name: "red", name: "blue" }], [element("blue")], "the last of two spellings, as for Go"],
    [
      [{ name: "blue", ips: ["nonsense"] }],
      [element("blue", { ips: ["nonsense"] })],
      "addresses are judged by whom they concern",
    ],
  ])("%j", (value, expected, _reason) => {
    expect(readNetworkSelection(networks(value), "shop").elements).toEqual(expected);
  });
});

describe("refused as CONFIG_INVALID that names the annotation", () => {
  test.each([
    ["[{", "JSON that breaks off"],
    ['{"name":"blue"}', "an object in place of the list"],
    ['"blue"', "a text in JSON"],
    [["blue"], "a list of texts"],
    [[null], "a list of nothing"],
    [[[]], "a list of lists"],
    [[{}], "no name"],
    [[{ name: 7 }], "a name that is a number"],
    [[{ name: "nets/blue" }], "namespace within the name, which the JSON form does not have"],
    [[{ name: "blue", namespace: "No_Such" }], "a namespace that cannot exist"],
    [[{ name: "blue", interface: 1 }], "an interface that is a number"],
    [[{ name: "blue", interface: "sixteen-chars-xx" }], "an interface longer than Linux takes"],
    [[{ name: "blue", interface: "a/b" }], "an interface that would be a path"],
    [[{ name: "blue", interface: ".." }], "the same"],
    [[{ name: "blue", ips: "10.0.0.5" }], "addresses as one text"],
    [[{ name: "blue", ips: [7] }], "addresses as numbers"],
    [[{ name: "blue", ips: Array(33).fill("10.0.0.5") }], "more addresses than an interface can have"],
    [[{ name: "blue", mac: {} }], "a MAC address that is an object"],
    [[{ name: "blue", "ipam-claim-reference": 5 }], "a claim that is a number"],
    [[{ name: "blue", "ipam-claim-reference": "a/b/c" }], "a claim with two slashes"],
    [[{ name: "blue", "ipam-claim-reference": "Vm_A" }], "a claim whose name cannot exist"],
    ["a,,b", "an empty element"],
    ["a/b/c", "two slashes"],
    ["/a", "an empty namespace"],
    ["a@", "an empty interface"],
    ["a@b@c", "two interfaces"],
    ["Blue", "a name that cannot exist"],
    ["a@net2,b", "net2 by name and by position"],
    [
      [
        { name: "a", interface: "x" },
        { name: "b", interface: "x" },
      ],
      "one interface for two",
    ],
    [Array(257).fill("a").join(","), "more elements than any pod has"],
    ["x".repeat(10_000_000), "10 MB"],
    ["[".repeat(100_000), "100,000 levels that break off"],
    [`${"[".repeat(100_000)}${"]".repeat(100_000)}`, "100,000 levels"],
    [`[{"name":"a","cni-args":${"[".repeat(100)}${"]".repeat(100)}}]`, "deep nesting where nobody looks"],
  ])("%.40j", (value, _reason) => {
    const refusal = refusalOf(() => readNetworkSelection(networks(value), "shop"));
    expect(refusal).toMatchObject({ code: "CONFIG_INVALID" });
    expect(refusal.message).toContain(`annotation ${NETWORKS_ANNOTATION}`);
    expect(refusal.message.length).toBeLessThan(1_000);
  });

  test("the refusal names the element and the key", () => {
    expect(
      refusalOf(() => readNetworkSelection(networks([{ name: "a" }, { name: "b", ips: 7 }]), "shop")).message,
    ).toBe(
      `annotation ${NETWORKS_ANNOTATION}, element 2, ips is 7: expected a list of at most 32 addresses, as strings`,
    );
  });
});

test("a claim of another namespace is refused, in both annotations that name one", () => {
  for (const annotations of [
    networks([{ name: "blue", namespace: "nets", "ipam-claim-reference": "nets/vm-a" }]),
    { [PRIMARY_CLAIM_ANNOTATION]: "nets/vm-a" },
  ]) {
    expect(refusalOf(() => readNetworkSelection(annotations, "shop"))).toMatchObject({
      code: "CLAIM_OTHER_NAMESPACE",
      message: "the pod in namespace shop refers to IPAMClaim nets/vm-a of another namespace",
    });
  }
});

describe("the primary interface", () => {
  const pod = (network: unknown, claim?: string) => ({
    ...(network === undefined
      ? {}
      : { [DEFAULT_NETWORK_ANNOTATION]: typeof network === "string" ? network : JSON.stringify(network) }),
    ...(claim === undefined ? {} : { [PRIMARY_CLAIM_ANNOTATION]: claim }),
  });
  const named = [{ name: "default", namespace: "ovn", "ipam-claim-reference": "vm-a" }];
  const ovn = { nad: { namespace: "ovn", name: "default" }, position: 0 };

  test.each([
    [pod(undefined), null, "nothing said"],
    [pod(named), element("", { ...ovn, claim: "vm-a" }), "a network with a claim"],
    [pod(named, "vm-a"), element("", { ...ovn, claim: "vm-a" }), "both annotations, as one webhook writes them"],
    [pod([{ name: "default", namespace: "ovn" }], "vm-a"), element("", { ...ovn, claim: "vm-a" }), "the claim apart"],
    [pod(undefined, "vm-a"), element("", { nad: null, position: 0, claim: "vm-a" }), "a claim alone names no NAD"],
    [
      pod("blue"),
      element("blue", { nad: { namespace: "kube-system", name: "blue" }, position: 0 }),
      "Multus looks for it in its own namespace",
    ],
  ])("%j", (annotations, expected, _reason) => {
    const selection = readNetworkSelection(annotations, "shop");
    expect(elementFor(selection, "eth0")).toEqual(expected);
    expect(elementFor(selection, "net1"), "other interfaces have no part in it").toBeNull();
  });

  test.each([
    [pod(named, "vm-b"), DEFAULT_NETWORK_ANNOTATION, "two different claims"],
    [pod("a,b"), DEFAULT_NETWORK_ANNOTATION, "two networks"],
    [pod(undefined, "Vm_A"), PRIMARY_CLAIM_ANNOTATION, "no name of a claim"],
  ])("refuses %j", (annotations, key, _reason) => {
    expect(refusalOf(() => readNetworkSelection(annotations, "shop")).message).toContain(key);
  });
});

describe("the element for an interface", () => {
  const selection = readNetworkSelection(
    {
      ...networks([{ name: "a" }, { name: "b", interface: "eth7" }, { name: "c" }]),
      [DEFAULT_NETWORK_ANNOTATION]: "main",
    },
    "shop",
  );

  test.each([
    ["net1", "a", "the first"],
    ["net2", undefined, "the second has a name of its own"],
    ["eth7", "b", "by that name"],
    ["net3", "c", "all elements count for the position"],
    ["net03", undefined, "not the name that Multus makes"],
    ["net4", undefined, "no fourth element"],
    ["net0", undefined, "positions begin at 1"],
    ["eth0", "main", "the primary interface"],
    ["eth1", undefined, "not the primary interface"],
  ])("%s: %s", (name, nad, _reason) => {
    expect(elementFor(selection, name)?.nad?.name).toBe(nad);
  });

  test("an element that names the primary interface goes before the default network", () => {
    const both = readNetworkSelection({ ...networks("a@eth0"), [DEFAULT_NETWORK_ANNOTATION]: "main" }, "shop");
    expect(elementFor(both, "eth0")?.nad?.name).toBe("a");
  });

  test("a runtime may give the primary interface another name", () => {
    expect(elementFor(selection, "ens3", { primary: "ens3" })?.nad?.name).toBe("main");
    expect(elementFor(selection, "eth0", { primary: "ens3" })).toBeNull();
  });
});

describe("the claims that a pod's annotations name", () => {
  test.each([
    [{}, [], "none"],
    [networks("blue"), [], "the text form has no claims"],
    [
      networks([
        { name: "a", "ipam-claim-reference": "x" },
        { name: "b", "ipam-claim-reference": "shop/y" },
      ]),
      ["x", "y"],
      "two elements",
    ],
    [
      {
        ...networks([{ name: "a", "ipam-claim-reference": "x" }]),
        [DEFAULT_NETWORK_ANNOTATION]: JSON.stringify([{ name: "d", "ipam-claim-reference": "y" }]),
        [PRIMARY_CLAIM_ANNOTATION]: "y",
      },
      ["y", "x"],
      "all annotations, each claim once",
    ],
    [
      networks([{ name: 7, "ipam-claim-reference": "x" }, null, { "ipam-claim-reference": {} }]),
      ["x"],
      "an element that ADD would refuse still names its claim",
    ],
    [{ ...networks("[{"), [PRIMARY_CLAIM_ANNOTATION]: "y" }, ["y"], "nonsense in one hides no other"],
    [networks([{ name: "a", "ipam-claim-reference": "nets/x" }]), [], "a claim of another namespace"],
    [networks("x".repeat(10_000_000)), [], "10 MB"],
  ])("%.80j", (annotations, expected, _reason) => {
    expect(claimsNamedBy(annotations, "shop")).toEqual(expected);
  });
});

test("any annotation is read or refused, and the claims of one that is read are named", () => {
  const value = fc.oneof(
    fc.string(),
    fc.json(),
    fc
      .array(
        fc.record(
          {
            name: fc.constantFrom("a", "B", 7),
            interface: fc.constantFrom("x", "", null),
            "ipam-claim-reference": fc.constantFrom("c", "shop/d", "n/e", 1),
          },
          { requiredKeys: [] },
        ),
      )
      .map((list) => JSON.stringify(list)),
  );
  fc.assert(
    fc.property(value, value, value, (additional, primary, claim) => {
      const annotations = {
        [NETWORKS_ANNOTATION]: additional,
        [DEFAULT_NETWORK_ANNOTATION]: primary,
        [PRIMARY_CLAIM_ANNOTATION]: claim,
      };
      const named = claimsNamedBy(annotations, "shop");
      let selection: ReturnType<typeof readNetworkSelection>;
      try {
        selection = readNetworkSelection(annotations, "shop");
      } catch (error) {
        expect((error as Error).name).toBe("RefusalError");
        return;
      }
      const read = [...selection.elements, selection.primary].flatMap((one) => one?.claim ?? []);
      expect(new Set(named)).toEqual(new Set(read));
    }),
    { numRuns: 500 },
  );
});
