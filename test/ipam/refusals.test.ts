import { describe, expect, test } from "vitest";
import { CLAIM_REASONS } from "../../ipam/claim-conditions.ts";
import { REFUSALS, type RefusalCode, RefusalError, type RefusalValues, refuse } from "../../ipam/refusals.ts";

const codes = Object.keys(REFUSALS) as RefusalCode[];
/** Any placeholder's value is its own name. */
const everyValue = new Proxy({}, { get: (_, name) => `<${String(name)}>` }) as RefusalValues<RefusalCode>;

test.each(codes)("%s has a message, a hint and a code of the CNI specification or of ours", (code) => {
  const { message, hint, cniCode, ...rest } = refuse(code, everyValue as never);
  expect(message).not.toMatch(/[{}]/);
  expect(hint).not.toMatch(/[{}]/);
  expect(message.length).toBeGreaterThan(5);
  expect(hint.length).toBeGreaterThan(20);
  expect([1, 4, 6, 7, 11, 50, 999].includes(cniCode) || (cniCode >= 120 && cniCode < 200)).toBe(true);
  if (rest.claimReason !== undefined) expect(CLAIM_REASONS).toContain(rest.claimReason);
});

test("each of our codes has one meaning", () => {
  const ours = codes.map((code) => REFUSALS[code].cniCode).filter((code) => code >= 100);
  expect(new Set(ours).size).toBe(ours.length);
});

describe("the table of codes and reasons", () => {
  test.each([
    ["CONFIG_UNREADABLE", 6, undefined],
    ["CONFIG_INVALID", 7, undefined],
    ["VERSION_UNSUPPORTED", 1, undefined],
    ["ENVIRONMENT_INVALID", 4, undefined],
    ["NOT_READY", 11, undefined],
    ["STORAGE_FAILED", 11, undefined],
    ["TOO_MANY_WAITING", 11, undefined],
    ["SUPERSEDED", 11, undefined],
    ["POOL_FULL", 11, "SubnetExhausted"],
    ["ADDRESS_TAKEN", 120, "IPAddressConflict"],
    ["ADDRESS_COOLING", 11, "IPAddressConflict"],
    ["ADDRESS_OUTSIDE", 121, "RequestedIPOutsideSubnet"],
    ["ADDRESS_EXCLUDED", 122, "RequestedIPOutsideSubnet"],
    ["ADDRESS_RESERVED", 132, "IPAddressConflict"],
    ["REQUEST_MISMATCH", 123, "IPAddressConflict"],
    ["CLAIM_ABSENT", 11, undefined],
    ["CLAIM_TERMINATING", 11, undefined],
    ["PREDECESSOR_HOLDS", 11, "IPAddressConflict"],
    ["CLAIM_IN_USE", 124, "ClaimInUse"],
    ["CLAIM_OTHER_NETWORK", 125, "NetworkNotFound"],
    ["CLAIM_OTHER_NAMESPACE", 7, undefined],
    ["CHECK_FAILED", 126, undefined],
    ["GC_LIST_MISSING", 7, undefined],
    ["UNAVAILABLE", 50, undefined],
    ["IN_USE", 127, undefined],
  ] as const)("%s: CNI code %i, claim reason %s", (code, cniCode, claimReason) => {
    expect(refuse(code, everyValue as never)).toMatchObject({
      code,
      cniCode,
      ...(claimReason && { claimReason }),
    });
    expect("claimReason" in refuse(code, everyValue as never)).toBe(claimReason !== undefined);
  });
});

describe("a refusal's text", () => {
  test("takes strings and numbers, in message and hint", () => {
    expect(refuse("TOO_MANY_WAITING", { count: 1000 }).message).toBe("1000 requests are waiting already");
    expect(refuse("POOL_FULL", { subnets: "10.0.0.0/24", network: "blue", counts: "none" }).hint).toContain(
      "holdfast show blue",
    );
  });

  test("has the address, which is kept as a value too", () => {
    const address = { family: 6, value: 1n } as const;
    const refusal = refuse("ADDRESS_TAKEN", { address, network: "blue", holder: "pod shop/web-0 (net1)" });
    expect(refusal.message).toBe("::1 is held by pod shop/web-0 (net1) on network blue");
    expect(refusal.about.address).toBe(address);
  });

  test("leaves braces in values alone", () => {
    const { message } = refuse("CONFIG_INVALID", {
      key: "ipam",
      value: '{"key":"{remedy}"}',
      remedy: "{value}",
    });
    expect(message).toBe('ipam is {"key":"{remedy}"}: {value}');
  });

  test("cuts a very long value", () => {
    expect(refuse("NOT_READY", { reason: "x".repeat(1_000_000) }).message.length).toBeLessThan(2_100);
  });

  test("with a missing value is an internal error", () => {
    expect(() => refuse("NOT_READY", {} as RefusalValues<"NOT_READY">)).toThrow("needs a value for reason");
  });

  test("is the message of the error that carries the refusal", () => {
    const refusal = refuse("NOT_FOUND", { what: "network blue" });
    const error = new RefusalError(refusal);
    expect(error.message).toBe("there is no network blue");
    expect(error.refusal).toBe(refusal);
    expect(error.name).toBe("RefusalError");
  });
});
