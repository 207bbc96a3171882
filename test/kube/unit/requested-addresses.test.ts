/** What the annotation of a VM asks for. */
import { describe, expect, test } from "vitest";
import { RefusalError } from "../../../ipam/refusals.ts";
import { formatAddress } from "../../../ipam/space/address.ts";
import { isHashedInterface, networkOfHashed, readRequestedAddresses } from "../../../kube/views/requested-addresses.ts";

const KEY = "annotation network.kubevirt.io/addresses";

function read(text: string | undefined): Record<string, string[]> {
  const all = [...readRequestedAddresses(text)];
  return Object.fromEntries(all.map(([name, list]) => [name, list.map((one) => formatAddress(one.address))]));
}

function refused(text: string): string {
  try {
    readRequestedAddresses(text);
  } catch (error) {
    if (error instanceof RefusalError) return `${error.refusal.code}: ${error.refusal.message}`;
    throw error;
  }
  return "nothing";
}

describe("is read", () => {
  test.each([
    [undefined, {}],
    ["", {}],
    [" \n", {}],
    ["{}", {}],
    ['{"blue": []}', { blue: [] }],
    [
      '{"blue": ["192.168.10.50", "FD10::0:50"], "red": ["10.0.0.1"]}',
      { blue: ["192.168.10.50", "fd10::50"], red: ["10.0.0.1"] },
    ],
    ['{"a b": ["10.0.0.1"], "__proto__": ["10.0.0.2"]}', { "a b": ["10.0.0.1"], ["__proto__"]: ["10.0.0.2"] }],
  ])("%j: %j", (text, wanted) => {
    expect(JSON.stringify(read(text))).toBe(JSON.stringify(wanted));
  });

  test("each address knows where it was written", () => {
    const [one] = readRequestedAddresses('{"blue": ["10.0.0.1"]}').get("blue") ?? [];
    expect(one).toMatchObject({ prefixLength: null, source: `${KEY}, blue` });
  });
});

describe("is refused, with key, value and remedy", () => {
  const shape = 'expected the addresses of each network in JSON, as {"blue": ["192.168.10.50"]}';
  test.each([
    ["10.0.0.1", `${KEY} is "10.0.0.1": ${shape}: `],
    ["null", `${KEY} is "null": ${shape}`],
    ['["10.0.0.1"]', `: ${shape}`],
    ['{"blue": "10.0.0.1"}', `${KEY}, blue is "10.0.0.1": expected a list of at most 32 addresses`],
    ['{"blue": null}', `${KEY}, blue is null: expected a list`],
    ['{"blue": [7]}', `${KEY}, blue is 7: `],
    ['{"blue": ["10.0.0"]}', `${KEY}, blue is "10.0.0": `],
    [
      '{"blue": ["10.0.0.1/24"]}',
      `${KEY}, blue is "10.0.0.1/24": expected an address without prefix length: the network's subnet has it`,
    ],
    [`{"blue": ${JSON.stringify(Array(33).fill("10.0.0.1"))}}`, "expected a list of at most 32 addresses"],
    [
      JSON.stringify(Object.fromEntries(Array.from({ length: 257 }, (_, at) => [`n${at}`, []]))),
      `${KEY} is "257 networks": expected at most 256`,
    ],
    [`{"blue": ${"[".repeat(70)}${"]".repeat(70)}}`, "levels"],
  ])("%s", (text, message) => {
    expect(refused(text)).toContain(message);
    expect(refused(text)).toMatch(/^CONFIG_INVALID: /);
  });
});

test("an interface with a hashed name tells its network", () => {
  // As KubeVirt names it: 11 digits of SHA-256.
  expect(networkOfHashed(["red", "blue"], "pod16477688c0e")).toBe("blue");
  expect(networkOfHashed(["red"], "pod16477688c0e")).toBeNull();
  expect(["pod16477688c0e", "net1", "eth0", "pod16477688c0", "podG6477688c0e"].map(isHashedInterface)).toEqual([
    true,
    false,
    false,
    false,
    false,
  ]);
});
