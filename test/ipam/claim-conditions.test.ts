import { describe, expect, test } from "vitest";
import {
  allocatedCondition,
  type ClaimCondition,
  CONDITION_MESSAGE_CHARS_MAX,
  conflictCondition,
  isConflict,
  mergeCondition,
  refusedCondition,
} from "../../ipam/claim-conditions.ts";
import { conditionOfRefusal } from "../../ipam/condition-of-refusal.ts";
import { type Refusal, refuse } from "../../ipam/refusals.ts";
import { parseAddress } from "../../ipam/space/address.ts";

const EARLIER = "2026-01-01T00:00:00Z";
const NOW = "2026-01-02T00:00:00Z";
const foreign: ClaimCondition = {
  type: "Ready",
  status: "True",
  reason: "Fine",
  message: "",
  lastTransitionTime: EARLIER,
  observedGeneration: 3,
};

describe("mergeCondition", () => {
  test("adds to what others wrote", () => {
    expect(mergeCondition([foreign], allocatedCondition(NOW))).toEqual([foreign, allocatedCondition(NOW)]);
  });

  test("returns the same list when nothing changes, so that nothing is written", () => {
    const list = [allocatedCondition(EARLIER), foreign];
    expect(mergeCondition(list, allocatedCondition(NOW))).toEqual(list);
  });

  test("keeps the time of transition while only reason or message change", () => {
    const list = [refusedCondition("SubnetExhausted", "full", EARLIER), foreign];
    const merged = mergeCondition(list, refusedCondition("IPAddressConflict", "held by x", NOW));
    expect(merged).toEqual([refusedCondition("IPAddressConflict", "held by x", EARLIER), foreign]);
  });

  test("moves the time when the status changes, in place", () => {
    const list = [refusedCondition("SubnetExhausted", "full", EARLIER), foreign];
    expect(mergeCondition(list, allocatedCondition(NOW))).toEqual([allocatedCondition(NOW), foreign]);
  });

  test("keeps one where the list has several of the type", () => {
    const list = [
      refusedCondition("SubnetExhausted", "full", EARLIER),
      foreign,
      refusedCondition("InternalError", "?", NOW),
    ];
    expect(mergeCondition(list, allocatedCondition(NOW))).toEqual([allocatedCondition(NOW), foreign]);
  });

  test("changes neither list nor condition", () => {
    const list = Object.freeze([Object.freeze(refusedCondition("InternalError", "?", EARLIER))]);
    mergeCondition(list, Object.freeze(allocatedCondition(NOW)));
    expect(list).toEqual([refusedCondition("InternalError", "?", EARLIER)]);
  });

  test.each([
    ["x".repeat(CONDITION_MESSAGE_CHARS_MAX), CONDITION_MESSAGE_CHARS_MAX, "as long as the schema takes"],
    ["x".repeat(CONDITION_MESSAGE_CHARS_MAX + 1), CONDITION_MESSAGE_CHARS_MAX, "one too long"],
    ["😀".repeat(CONDITION_MESSAGE_CHARS_MAX), CONDITION_MESSAGE_CHARS_MAX - 1, "would be cut within a pair"],
  ])("cuts the message (%#)", (message, length) => {
    const [merged] = mergeCondition([], refusedCondition("InternalError", message, NOW));
    expect(merged?.message.length).toBe(length);
    expect(merged?.message).not.toMatch(/[\ud800-\udbff](?![\udc00-\udfff])/);
  });
});

describe("the condition of a refusal", () => {
  const address = parseAddress("10.0.0.5");
  const taken = refuse("ADDRESS_TAKEN", { address, network: "blue", holder: "pod shop/b (eth0)" });
  const gateway = refuse("GATEWAY_HELD", { address, network: "blue", holder: "pod shop/b (eth0)" });
  const outside = refuse("ADDRESS_OUTSIDE", { address, network: "blue", subnets: "10.9.0.0/24" });
  const full = refuse("POOL_FULL", { network: "blue", subnets: "10.9.0.0/24", counts: "none" });
  const unreadable = refuse("CONFIG_INVALID", { key: "spec.ipRequests", value: "x", remedy: "y" });
  const absent = refuse("CLAIM_ABSENT", { claim: "shop/vm" });
  const has = { hasAddresses: true, asksForAddresses: true };
  const hasNone = { hasAddresses: false, asksForAddresses: false };

  test.each<[Refusal, typeof has, string | null, string]>([
    [taken, hasNone, "False IPAddressConflict", "what it needs is somebody else's"],
    [taken, has, "True IPAddressConflict", "what it asks for besides is somebody else's"],
    [outside, hasNone, "False RequestedIPOutsideSubnet", "what it needs is not there"],
    [outside, has, "True RequestedIPOutsideSubnet", "what it asks for besides is not there"],
    [full, has, "False SubnetExhausted", "it lacks an address of a subnet"],
    [gateway, hasNone, "False IPAddressConflict", "nothing is given to it"],
    [gateway, has, "True IPAddressConflict", "its addresses stay allocated"],
    [unreadable, has, "False RequestedIPOutsideSubnet", "what it asks for cannot be read"],
    [unreadable, hasNone, null, "what somebody else asks for cannot be read"],
    [absent, hasNone, null, "not the claim's fault"],
  ])("%o, %o → %s: %s", (refusal, which, wanted) => {
    const condition = conditionOfRefusal(refusal, which, NOW);
    expect(condition && `${condition.status} ${condition.reason}`).toBe(wanted);
  });

  test("a conflict is recognised by its status and reason, whoever wrote it", () => {
    expect(isConflict(conflictCondition(address, "Pod shop/b", NOW))).toBe(true);
    expect(
      [hasNone, has].map((which) => conditionOfRefusal(taken, which, NOW)).map((one) => one && isConflict(one)),
    ).toEqual([true, false]);
    expect(isConflict(allocatedCondition(NOW))).toBe(false);
  });
});
