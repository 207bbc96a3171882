import { describe, expect, test } from "vitest";
import { withBridgeGateways } from "../../ipam/definition/bridge-gateway.ts";
import { parseNadConfig } from "../../ipam/definition/nad-config.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { DefinitionsInForce, inForce } from "../../ipam/definition/reserved-address.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { formatInterfaceAddress } from "../../ipam/space/cidr.ts";
import { Pool } from "../../ipam/space/pool.ts";
import { define, pluginConfig, refusalOf, runs } from "./definitions.ts";

/** `10.0.0.254/24 optional`, `none optional`, `off`. */
function metadataOf({ metadata }: NetworkDefinition): string {
  if (metadata === null) return "off";
  const { reserved, tokens } = metadata;
  return `${reserved === null ? "none" : formatInterfaceAddress(reserved.address)} ${tokens}`;
}

const set24 = { subnet: "10.0.0.0/24" };

describe("the reserved address", () => {
  test.each<[object, unknown, string, string]>([
    [{ subnets: "10.0.0.0/24" }, true, "10.0.0.254/24 optional", "the highest, below broadcast"],
    [{ subnets: "10.0.0.0/24" }, {}, "10.0.0.254/24 optional", "an object means on"],
    [{ subnets: "10.0.0.0/24" }, { tokens: "required" }, "10.0.0.254/24 required", "tokens"],
    [{ subnets: "10.0.0.0/24" }, { address: "10.0.0.9" }, "10.0.0.9/24 optional", "as named"],
    [{ subnets: "10.0.0.0/24", gateway: "10.0.0.254" }, true, "10.0.0.253/24 optional", "below the gateway"],
    [
      { subnets: "10.0.0.0/24", excludeSubnets: "10.0.0.128/25" },
      true,
      "10.0.0.127/24 optional",
      "below what is excluded",
    ],
    [
      { subnets: "10.0.0.0/24", reservedSubnets: "10.0.0.128/25" },
      true,
      "10.0.0.127/24 optional",
      "reserved ones are left to those who ask for them",
    ],
    [
      { subnets: "10.0.0.0/24", reservedSubnets: "10.0.0.0/24" },
      true,
      "10.0.0.254/24 optional",
      "all reserved: the highest of them",
    ],
    [
      { subnets: "10.0.0.0/30", reservedSubnets: "10.0.0.1/32" },
      true,
      "10.0.0.1/30 optional",
      "the last that is given by itself stays",
    ],
    [
      { subnets: "10.0.0.0/24", reservedSubnets: "10.0.0.200/32" },
      { address: "10.0.0.200" },
      "10.0.0.200/24 optional",
      "a reserved one, named",
    ],
    [
      { subnets: "fd00::/64,10.1.0.0/16,10.2.0.0/16" },
      true,
      "10.1.255.254/16 optional",
      "of the first IPv4 subnet",
    ],
    [{ subnets: "10.0.0.0/31" }, true, "10.0.0.1/31 optional", "one of two"],
    [
      { ranges: [[{ ...set24, rangeStart: "10.0.0.10", rangeEnd: "10.0.0.20" }]] },
      true,
      "10.0.0.20/24 optional",
      "inside host-local's window",
    ],
    [{ subnets: "10.0.0.0/8" }, true, "10.255.255.254/8 optional", "a huge one"],
  ])("%o with %o: %s (%s)", (ipam, metadata, expected) => {
    expect(metadataOf(define({ ...ipam, metadata }))).toBe(expected);
  });

  test("is excluded, and all else is unchanged", () => {
    const [plain] = define({ subnets: "10.0.0.0/29" }).rangeSets;
    const [set] = define({ subnets: "10.0.0.0/29", metadata: true }).rangeSets;
    if (!plain || !set) throw new Error("no range set");
    expect(runs(set, set.usable)).toBe("10.0.0.1-10.0.0.5");
    expect(runs(set, set.automatic)).toBe("10.0.0.1-10.0.0.5");
    expect(set.size).toBe(plain.size);
    const pool = new Pool(set);
    expect(pool.counts()).toMatchObject({ size: 8n, free: 5n, excluded: 3n });
    expect(pool.stateOf(0x0a00_0006n, 0)).toBe("excluded");
  });

  test("of one subnet does not change the others", () => {
    const ipam = { subnets: "10.0.0.0/24,10.1.0.0/24,fd00::/64" };
    const [, second, third] = define({ ...ipam, metadata: true }).rangeSets;
    const [, plainSecond, plainThird] = define(ipam).rangeSets;
    expect([second?.fingerprint, third?.fingerprint]).toEqual([
      plainSecond?.fingerprint,
      plainThird?.fingerprint,
    ]);
  });
});

describe("the reserved address given back", () => {
  test.each<[object, unknown, string]>([
    [{ subnets: "10.0.0.0/29" }, true, "the highest"],
    [{ subnets: "10.0.0.0/29" }, { address: "10.0.0.3" }, "one in the middle"],
    [
      { subnets: "10.0.0.0/29", reservedSubnets: "10.0.0.3/32" },
      { address: "10.0.0.3" },
      "one to be asked for",
    ],
    [{ subnets: "10.0.0.0/30", reservedSubnets: "10.0.0.1/32" }, true, "one to be asked for, by default"],
    [{ subnets: "fd00::/64,10.1.0.0/16,10.2.0.0/16", gateway: "10.1.0.1" }, true, "of several subnets"],
    [{ subnets: "fd00::/64" }, true, "none"],
  ])("%o with %o leaves the ranges as they are without metadata: %s", (ipam, metadata) => {
    const returned = inForce(define({ ...ipam, metadata }), []);
    const plain = define(ipam);
    expect(returned.rangeSets.map((set) => set.fingerprint)).toEqual(
      plain.rangeSets.map((set) => set.fingerprint),
    );
    expect(returned.rangeSets.map((set) => [runs(set, set.usable), runs(set, set.automatic)])).toEqual(
      plain.rangeSets.map((set) => [runs(set, set.usable), runs(set, set.automatic)]),
    );
    expect(metadataOf(returned)).toBe("none optional");
    expect(returned.fingerprint).not.toBe(plain.fingerprint);
  });

  test("is computed once, and is another definition than the one that reserves it", () => {
    const definition = define({ subnets: "10.0.0.0/24", metadata: true });
    const returned = new DefinitionsInForce();
    expect(returned.of(definition, [])).toBe(returned.of(definition, []));
    expect(returned.of(definition, []).fingerprint).not.toBe(definition.fingerprint);
    expect(inForce(returned.of(definition, []), [])).toBe(returned.of(definition, []));
  });

  test("is not the bridge's own", () => {
    const definition = withBridgeGateways(
      define({ subnets: "10.0.0.0/24", metadata: { address: "10.0.0.1" } }),
    );
    expect(metadataOf(definition)).toBe("none optional");
    const [set] = inForce(definition, []).rangeSets;
    expect(set?.usable.contains(0x0a00_0001n)).toBe(false);
  });
});

describe("what new allocations come from while guests have a former gateway", () => {
  const usable = (definition: NetworkDefinition) => definition.rangeSets.map((set) => runs(set, set.usable));
  const network = (metadata: unknown) => define({ subnets: "10.0.0.0/29", metadata });

  test.each<[string, unknown, (string | null)[], string[], string | null]>([
    ["the definition's own", true, ["10.0.0.6"], ["10.0.0.1-10.0.0.5"], "10.0.0.6"],
    ["one that follows from the definition", true, [null], ["10.0.0.1-10.0.0.5"], "10.0.0.6"],
    ["another, after an edit", true, ["10.0.0.3"], ["10.0.0.1-10.0.0.2", "10.0.0.4-10.0.0.6"], "10.0.0.3"],
    ["both, after an edit", true, ["10.0.0.6", "10.0.0.1"], ["10.0.0.2-10.0.0.5"], "10.0.0.6"],
    ["one, with metadata switched off", false, ["10.0.0.6"], ["10.0.0.1-10.0.0.5"], null],
    ["one outside the present ranges", true, ["10.9.0.6"], ["10.0.0.1-10.0.0.6"], "10.9.0.6"],
  ])("%s", (_, metadata, gateways, [...expected], reserved) => {
    const result = inForce(network(metadata), gateways);
    expect(usable(result)).toEqual([expected.join(" ")]);
    const kept = result.metadata?.reserved?.address.address;
    expect(kept ? formatAddress(kept) : null).toBe(reserved);
  });

  test("is computed again when another one is needed", () => {
    const definitions = new DefinitionsInForce();
    const definition = network(true);
    const first = definitions.of(definition, ["10.0.0.3"]);
    expect(definitions.of(definition, ["10.0.0.3", "10.0.0.3"])).toBe(first);
    expect(definitions.of(definition, [])).not.toBe(first);
    expect(usable(definitions.of(definition, []))).toEqual(["10.0.0.1-10.0.0.6"]);
  });
});

test("an address that is named is remarked on", () => {
  const notes = (metadata: unknown) => define({ subnets: "10.0.0.0/24", metadata }).notes;
  expect(notes({ address: "10.0.0.9" })).toEqual([
    expect.stringContaining("metadata.address is of no use to new guests"),
  ]);
  expect(notes(true)).toEqual([]);
});

describe("metadata is off", () => {
  test.each<[object]>([[{}], [{ metadata: false }], [{ metadata: null }], [{ metadata: "" }]])(
    "%o",
    (more) => {
      const definition = define({ subnets: "10.0.0.0/24", ...more });
      expect(definition.metadata).toBeNull();
      expect(definition.fingerprint).toBe(define({ subnets: "10.0.0.0/24" }).fingerprint);
    },
  );

  test("without ranges, because another configuration defines the network", () => {
    expect(define({ metadata: true }).metadata).toBeNull();
  });
});

describe("no address is reserved where earlier releases could spare none", () => {
  test.each<[object, string]>([
    [{ subnets: "fd00::/64" }, "there is no IPv4 subnet"],
    [{ subnets: "10.0.0.7/32" }, "it is the only address"],
    [{ subnets: "10.0.0.0/30", gateway: "10.0.0.1" }, "it is the only one beside the gateway"],
  ])("%o: %s", (ipam) => {
    const definition = define({ ...ipam, metadata: true });
    expect(definition.metadata).toEqual({ tokens: "optional", reserved: null });
    expect(definition.rangeSets).toEqual(define(ipam).rangeSets);
  });

  test("when the only address is named", () => {
    expect(metadataOf(define({ subnets: "10.0.0.7/32", metadata: { address: "10.0.0.7" } }))).toBe(
      "none optional",
    );
  });
});

describe("metadata is CONFIG_INVALID", () => {
  test.each<[unknown, string, string]>([
    ["yes", "ipam.metadata", "true, false or an object"],
    [1, "ipam.metadata", "true, false or an object"],
    [[true], "ipam.metadata", "true, false or an object"],
    [{ adress: "10.0.0.9" }, "ipam.metadata.adress", "no such key; known are address, tokens"],
    [{ Tokens: "off" }, "ipam.metadata.Tokens", "write tokens"],
    [{ tokens: "always" }, "ipam.metadata.tokens", '"off", "optional" or "required"'],
    [{ tokens: true }, "ipam.metadata.tokens", "expected a string"],
    [{ address: 7 }, "ipam.metadata.address", "expected a string"],
    [{ address: "10.0.0.9/24" }, "ipam.metadata.address", ""],
    [{ address: "fd00::9" }, "ipam.metadata.address", "expected an IPv4 address"],
    [{ address: "10.0.1.9" }, "ipam.metadata.address", "first IPv4 subnet"],
    [{ address: "192.168.0.9" }, "ipam.metadata.address", "not inside 10.0.0.0/24"],
    [{ address: "10.0.0.0" }, "ipam.metadata.address", "network, broadcast or gateway"],
    [{ address: "10.0.0.255" }, "ipam.metadata.address", "network, broadcast or gateway"],
    [{ address: "10.0.0.1" }, "ipam.metadata.address", "network, broadcast or gateway"],
    [{ address: "10.0.0.17" }, "ipam.metadata.address", "in excludeSubnets"],
  ])("%o", (metadata, key, remedy) => {
    const ipam = {
      subnets: "10.0.0.0/24,10.0.1.0/24",
      gateway: "10.0.0.1",
      excludeSubnets: "10.0.0.16/28",
      metadata,
    };
    const { code, message } = refusalOf(() => define(ipam));
    expect(code).toBe("CONFIG_INVALID");
    expect(message).toContain(`${key} `);
    expect(message).toContain(remedy);
  });

  test("outside host-local's window, which others may use", () => {
    const ranges = [[{ ...set24, rangeStart: "10.0.0.10", rangeEnd: "10.0.0.20" }]];
    const { message } = refusalOf(() => define({ ranges, metadata: { address: "10.0.0.30" } }));
    expect(message).toContain("range 10.0.0.10 to 10.0.0.20");
  });

  test("the key at the plugin's top level is not ours", () => {
    expect(define({ subnets: "10.0.0.0/24" }, { metadata: { of: "another plugin" } }).metadata).toBeNull();
  });
});

describe("two definitions with metadata", () => {
  const fingerprint = (metadata: unknown) => define({ subnets: "10.0.0.0/24", metadata }).fingerprint;

  test("agree where they mean the same", () => {
    const same = [true, {}, { tokens: "optional" }, { address: "10.0.0.254" }].map(fingerprint);
    expect(new Set(same).size).toBe(1);
  });

  test("do not agree where they differ", () => {
    const different = [false, true, { tokens: "off" }, { tokens: "required" }, { address: "10.0.0.9" }];
    expect(new Set(different.map(fingerprint)).size).toBe(different.length);
  });

  test("mean the same in a NetworkAttachmentDefinition's list as on stdin", () => {
    const plugin = pluginConfig({ subnets: "10.0.0.0/24", metadata: true });
    const { name, cniVersion, ...rest } = plugin;
    const { definition } = parseNadConfig(JSON.stringify({ name, cniVersion, plugins: [rest] }));
    expect(definition.fingerprint).toBe(fingerprint(true));
  });
});
