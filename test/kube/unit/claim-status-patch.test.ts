import { describe, expect, test } from "vitest";
import { allocatedCondition, refusedCondition } from "../../../ipam/claim-conditions.ts";
import { claimStatusPatch } from "../../../kube/views/claim-status-patch.ts";
import { projectClaim } from "../../../kube/views/claim-view.ts";
import { claim } from "../../claims/objects.ts";

const THEN = "2026-11-20T10:00:00Z";
const NOW = "2026-11-21T12:00:00Z";
const ips = ["10.0.0.5/24"];
const given = allocatedCondition(NOW);
const refused = refusedCondition("SubnetExhausted", "no free address", NOW);
const all = { ownerPod: true, conditions: true };
const none = { ownerPod: false, conditions: false };
const done = { ips, ownerPod: { name: "p" }, conditions: [allocatedCondition(THEN)] };

describe("writes the status", () => {
  test.each([
    [
      undefined,
      { ips, ownerPod: "p", condition: given, features: all },
      { ips, ownerPod: { name: "p" }, conditions: [given] },
      "first use",
    ],
    [undefined, { ips, ownerPod: "p", condition: given, features: none }, { ips }, "a definition with addresses alone"],
    [
      undefined,
      { ips: [], ownerPod: null, condition: refused, features: all },
      { ips: [], conditions: [refused] },
      "refused: the schema wants the list",
    ],
    [
      { ips: [], conditions: [refused] },
      { ips, ownerPod: "p", condition: given, features: all },
      { ips, ownerPod: { name: "p" }, conditions: [given] },
      "given after a refusal",
    ],
    [
      done,
      { ips, ownerPod: "q", condition: given, features: all },
      { ips, ownerPod: { name: "q" } },
      "migrated: the condition stands",
    ],
    [
      done,
      { ips, ownerPod: null, condition: refused, features: all },
      { ips, conditions: [refused] },
      "a refusal leaves the list as it is",
    ],
    [
      { ips: ["nonsense"] },
      { ips: ["nonsense"], ownerPod: null, condition: refused, features: all },
      { ips: ["nonsense"], conditions: [refused] },
      "what cannot be read stays too",
    ],
    [done, { ips: [], ownerPod: null, condition: null, features: all }, { ips: [] }, "it has nothing any more"],
    [
      done,
      { ips: ["10.9.0.7/24", ...ips], ownerPod: null, condition: given, features: all },
      { ips: ["10.9.0.7/24", ...ips] },
      "another list, in its order",
    ],
    [
      { ...done, ips: ["10.0.0.5/24", "fd10::5/64"] },
      { ips: ["fd10::5/64", "10.0.0.5/24"], ownerPod: "p", condition: given, features: none },
      { ips: ["fd10::5/64", "10.0.0.5/24"] },
      "the order alone: the first counts",
    ],
    [
      { ips, conditions: [{ ...given, type: "Other", extra: 1 }] },
      { ips, ownerPod: null, condition: given, features: { ownerPod: false, conditions: true } },
      { ips, conditions: [{ ...given, type: "Other", extra: 1 }, given] },
      "conditions of others are carried along",
    ],
  ])("case %#", (status, wish, expected, reason) => {
    const view = projectClaim(claim(status ? { status } : {}));
    expect(claimStatusPatch(view, wish), reason).toEqual({
      metadata: { resourceVersion: "7" },
      status: expected,
    });
  });
});

describe("writes nothing when nothing would change", () => {
  test.each([
    [done, { ips, ownerPod: "p", condition: given, features: all }, "all is said; the time of the transition stays"],
    [{ ips, ownerPod: "p" }, { ips, ownerPod: "p", condition: null, features: all }, "the pod as a text"],
    [{ ips }, { ips, ownerPod: "q", condition: given, features: none }, "fields that the server would drop"],
    [
      { ips: [], conditions: [refused] },
      { ips: [], ownerPod: null, condition: { ...refused, lastTransitionTime: "later" }, features: all },
      "refused once more",
    ],
    [undefined, { ips: [], ownerPod: null, condition: refused, features: none }, "a refusal that cannot be told"],
  ])("case %#", (status, wish, reason) => {
    expect(claimStatusPatch(projectClaim(claim(status ? { status } : {})), wish), reason).toBeNull();
  });
});
