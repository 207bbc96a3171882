import { describe, expect } from "vitest";
import { CNI_VERSIONS } from "../../cni-shim/wire.ts";
import { errorOf, held, network, tableTest as test } from "./fixtures.ts";

/*
 * The exact standard output of ADD in every version of the specification: one compact JSON object, nothing after it,
 * and never `interfaces` nor `ips[].interface`, which belong to the plugin that delegates to us.
 */

const IPAM = {
  subnets: "10.1.0.0/24,fd10::/64",
  gateway: "10.1.0.1,fd10::1",
  routes: [
    { dst: "0.0.0.0/0" },
    { dst: "10.9.0.0/16", gw: "10.1.0.254", mtu: 1400, advmss: 1360, priority: 10, table: 100, scope: 253 },
    { dst: "::/0", gw: "fd10::1" },
  ],
  dns: { nameservers: ["10.1.0.53"], domain: "blue.example", search: ["blue.example"], options: ["ndots:2"] },
};
const DNS =
  '"dns":{"nameservers":["10.1.0.53"],"domain":"blue.example","search":["blue.example"],"options":["ndots:2"]}';

const EARLY =
  '"ip4":{"ip":"10.1.0.2/24","gateway":"10.1.0.1","routes":[{"dst":"0.0.0.0/0"},{"dst":"10.9.0.0/16","gw":"10.1.0.254"}]},' +
  '"ip6":{"ip":"fd10::2/64","gateway":"fd10::1","routes":[{"dst":"::/0","gw":"fd10::1"}]}';
const WITH_FAMILY =
  '"ips":[{"version":"4","address":"10.1.0.2/24","gateway":"10.1.0.1"},{"version":"6","address":"fd10::2/64","gateway":"fd10::1"}]';
const WITHOUT_FAMILY =
  '"ips":[{"address":"10.1.0.2/24","gateway":"10.1.0.1"},{"address":"fd10::2/64","gateway":"fd10::1"}]';
const ROUTES = '"routes":[{"dst":"0.0.0.0/0"},{"dst":"10.9.0.0/16","gw":"10.1.0.254"},{"dst":"::/0","gw":"fd10::1"}]';
const FULL_ROUTES =
  '"routes":[{"dst":"0.0.0.0/0"},{"dst":"10.9.0.0/16","gw":"10.1.0.254","mtu":1400,"advmss":1360,"priority":10,"table":100,"scope":253},{"dst":"::/0","gw":"fd10::1"}]';

const GOLDENS: Record<(typeof CNI_VERSIONS)[number], string> = {
  "0.1.0": `{"cniVersion":"0.1.0",${EARLY},${DNS}}`,
  "0.2.0": `{"cniVersion":"0.2.0",${EARLY},${DNS}}`,
  "0.3.0": `{"cniVersion":"0.3.0",${WITH_FAMILY},${ROUTES},${DNS}}`,
  "0.3.1": `{"cniVersion":"0.3.1",${WITH_FAMILY},${ROUTES},${DNS}}`,
  "0.4.0": `{"cniVersion":"0.4.0",${WITH_FAMILY},${ROUTES},${DNS}}`,
  "1.0.0": `{"cniVersion":"1.0.0",${WITHOUT_FAMILY},${ROUTES},${DNS}}`,
  "1.1.0": `{"cniVersion":"1.1.0",${WITHOUT_FAMILY},${FULL_ROUTES},${DNS}}`,
};

describe("ADD, dual stack with gateways, routes and DNS", () => {
  test.for(CNI_VERSIONS)("cniVersion %s", async (cniVersion, { daemon }) => {
    const config = network(`dual-${cniVersion}`, IPAM, { cniVersion });
    const answer = await daemon.cni("ADD", `dual-${cniVersion}`, { config });
    expect(answer).toMatchObject({ code: 0, stdout: GOLDENS[cniVersion], stderr: "" });
  });
});

describe("ADD, a bare subnet: no gateway, no routes, an empty dns", () => {
  const BARE: [string, string, string][] = [
    ["0.1.0", "10.1.0.0/24", '{"cniVersion":"0.1.0","ip4":{"ip":"10.1.0.1/24"},"dns":{}}'],
    ["0.2.0", "fd10::/64", '{"cniVersion":"0.2.0","ip6":{"ip":"fd10::1/64"},"dns":{}}'],
    ["0.3.1", "fd10::/64", '{"cniVersion":"0.3.1","ips":[{"version":"6","address":"fd10::1/64"}],"dns":{}}'],
    ["1.0.0", "10.1.0.0/24", '{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.1/24"}],"dns":{}}'],
    ["1.1.0", "192.0.2.0/31", '{"cniVersion":"1.1.0","ips":[{"address":"192.0.2.0/31"}],"dns":{}}'],
  ];
  test.for(BARE)("cniVersion %s of %s", async ([cniVersion, subnets, golden], { daemon }) => {
    const config = network(`bare-${cniVersion}`, { subnets }, { cniVersion });
    expect(await daemon.cni("ADD", `bare-${cniVersion}`, { config })).toMatchObject({
      code: 0,
      stdout: golden,
    });
  });
});

describe("ADD, two addresses of one family", () => {
  const TWO = { subnets: "10.1.0.0/24,10.2.0.0/24" };

  test.for(["0.1.0", "0.2.0"])(
    "cniVersion %s has no room for both, so that the ADD is refused and neither is kept",
    async (cniVersion, { daemon }) => {
      const name = `two-${cniVersion}`;
      const answer = await daemon.cni("ADD", name, { config: network(name, TWO, { cniVersion }) });
      expect(errorOf(answer)).toMatchObject({
        cniVersion,
        code: 1,
        msg: expect.stringContaining("2 addresses of one family"),
      });
      expect(await held(daemon, name)).toEqual([]);
    },
  );

  test.for(["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"])("cniVersion %s has", async (cniVersion, { daemon }) => {
    const name = `two-${cniVersion}`;
    const answer = await daemon.cni("ADD", name, { config: network(name, TWO, { cniVersion }) });
    const addresses = answer.json().ips.map((ip: { address: string }) => ip.address);
    expect(addresses).toEqual(["10.1.0.1/24", "10.2.0.1/24"]);
  });

  test("a repeated ADD in a version without room for its addresses is refused, never cut", async ({ daemon }) => {
    await daemon.cni("ADD", "two-cut", { config: network("two-cut", TWO) });
    const answer = await daemon.cni("ADD", "two-cut", {
      config: network("two-cut", TWO, { cniVersion: "0.2.0" }),
    });
    expect(errorOf(answer)).toMatchObject({ code: 1 });
    expect(await held(daemon, "two-cut")).toHaveLength(2);
  });
});

describe("the cniVersion of an ADD's answer", () => {
  const RESULT_0_1_0 = '{"cniVersion":"0.1.0","ip4":{"ip":"10.10.0.1/24"},"dns":{}}';
  // As libcni decodes it: a Go program writes a version that is not set as "".
  const UNSAID: [string, object][] = [
    ["absent", { cniVersion: undefined }],
    ["empty", { cniVersion: "" }],
    ["null", { cniVersion: null }],
  ];
  test.for(UNSAID)("%s means 0.1.0", async ([reason, plugin], { daemon }) => {
    const config = network(`unsaid-${reason}`, {}, plugin);
    expect(await daemon.cni("ADD", `unsaid-${reason}`, { config })).toMatchObject({
      code: 0,
      stdout: RESULT_0_1_0,
    });
  });

  const UNKNOWN: [string, unknown, number][] = [
    ["a later one", "1.2.0", 1],
    ["one that never was", "0.5.0", 1],
    ["not a full version", "1.0", 1],
    ["with a v", "v1.0.0", 1],
    ["a number", 1, 6],
    ["an object", { major: 1 }, 6],
  ];
  test.for(UNKNOWN)("%s is refused: %j", async ([, cniVersion, code], { daemon }) => {
    const answer = await daemon.cni("ADD", "unknown", { config: network("unknown", {}, { cniVersion }) });
    const error = errorOf(answer);
    expect(error).toMatchObject({ cniVersion: "1.1.0", code });
    const shown = typeof cniVersion === "string" ? cniVersion : JSON.stringify(cniVersion);
    expect(error.msg).toContain(`cniVersion ${typeof cniVersion === "string" ? "" : "is "}${shown}`);
    if (code === 1) expect(error.details).toBe(`supported versions: ${CNI_VERSIONS.join(", ")}`);
  });
});
