import { describe, expect, test } from "vitest";
import { type BackendOutcome, judgeBackend } from "../../metadata/proxy/backend-answer.ts";

/** The status that the guest sees: a passed one is the backend's own. */
function seen(outcome: BackendOutcome, kind: "nova" | "service"): string {
  const decision = judgeBackend(outcome, kind);
  if (decision.kind === "pass") return "pass";
  expect(decision.answer.body.toString()).toMatch(/^[A-Z][^\n]+[.?]\n$/);
  return `${decision.answer.status}${decision.note === null ? "" : " noted"}`;
}

describe("the answers of Nova and of a service", () => {
  test.each([
    [200, "pass", "pass", "the answer"],
    [204, "502 noted", "pass", "Nova has no such answer"],
    [301, "502 noted", "502 noted", "the guest cannot follow"],
    [400, "400", "pass", "as Neutron's agent"],
    [401, "502 noted", "pass", "a token is asked for; Nova knows none"],
    [403, "403 noted", "pass", "the secrets differ"],
    [404, "404", "pass", "as Neutron's agent"],
    [405, "502 noted", "pass", "Nova has no such answer"],
    [409, "409", "pass", "the password is set"],
    [429, "502 noted", "pass", "Nova has no such answer"],
    [500, "500", "pass", "as Neutron's agent"],
    [502, "502", "pass", "as Neutron's agent"],
    [503, "503", "pass", "as Neutron's agent"],
    [504, "504", "pass", "as Neutron's agent"],
    [100, "502 noted", "502 noted", "not final"],
    [999, "502 noted", "502 noted", "not a status"],
    [Number.NaN, "502 noted", "502 noted", "not a status"],
  ])("%s is %s and %s: %s", (status, nova, service, _why) => {
    expect(seen({ kind: "status", status }, "nova")).toBe(nova);
    expect(seen({ kind: "status", status }, "service")).toBe(service);
  });
});

test.each([
  ["unreachable", "503 noted", "down, or not there yet"],
  ["late", "504 noted", "it hangs"],
  ["broken", "502 noted", "cut off"],
] as const)("%s is %s: %s", (kind, expected, _why) => {
  expect(seen({ kind }, "nova")).toBe(expected);
  expect(seen({ kind }, "service")).toBe(expected);
});

test("a backend that is down is reported in Neutron's words", () => {
  const decision = judgeBackend({ kind: "unreachable" }, "nova");
  expect(decision.kind === "replace" && decision.answer.body.toString()).toBe(
    "The remote metadata server is temporarily unavailable. Please try again later.\n",
  );
});
